"""Request of a drain: its batch, the filter of its messages, and its options."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, fields

from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.queue.copies import check_copy_name
from airflow_sqlqueue.queue.filters import MessageFilter


@dataclass(frozen=True, kw_only=True)
class DrainRequest:
    """Request to drain a queue into one batch.

    :param options: the limits of the drain.
    :param where: drain matching messages only; a retry needs the same filter. One worker in this process finds and
        takes them.
    :param copy: copy the messages up to the mark to files and leave them in the queue, also with one worker; a retry
        needs the same value.
    :param incremental: with ``copy``, the name of a copy: only messages that no earlier batch of the copy has. Each one
        is copied once over all batches, see :mod:`airflow_sqlqueue.queue.copies`; a retry needs the same name.
    :param redaction: rules for private data, applied to the messages before they are staged; a retry needs the same
        rules.
    :param batch_id: the batch; the same id resumes it, or returns it if it is sealed already; None: a new batch.
    :param renew: if the batch of that id was consumed or requeued, drain a new one, whose id follows from it.
    :param origin: a text that names the drain in the ledger, for people (dag, task, run, map index).
    :param owner: the task that the batch belongs to, the same in all its runs: :func:`.drain.options.owner_of`.

    Raises :class:`ConfigurationError` for values that contradict each other.
    """

    options: DrainOptions = field(default_factory=DrainOptions)
    where: MessageFilter | None = None
    copy: bool = False
    incremental: str | None = None
    redaction: Redactor | None = None
    batch_id: uuid.UUID | None = None
    renew: bool = False
    origin: str = ""
    owner: uuid.UUID | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            if (value := getattr(self, each.name)) is not None:
                check_type(each.name, str(each.type), value)
        if self.where is not None and self.copy:
            raise ConfigurationError("A drain with copy copies all messages: leave out the filter, or copy.")
        if self.options.max_bytes is not None and self.where is not None:
            raise ConfigurationError("max_bytes is for drains of all messages: leave out the filter.")
        if self.incremental is not None:
            check_copy_name(self.incremental)
            if not self.copy:
                raise ConfigurationError("incremental is for messages that stay in the queue: give copy as well.")

    @property
    def is_plain(self) -> bool:
        """True for a drain of all messages, which several workers can share."""
        return self.where is None and not self.copy

    @property
    def filter_text(self) -> str:
        """The text by which the ledger knows the messages of the batch: a filter, a copy of new ones, empty for all."""
        if self.incremental is not None:
            return json.dumps({"only_new": self.incremental})
        return "" if self.where is None else self.where.canonical

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the rules of the redaction, empty without one."""
        return "" if self.redaction is None else self.redaction.fingerprint
