"""Request of a drain: its batch, the messages that it is for, and its options."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.filters import MessageFilter


@dataclass(frozen=True, kw_only=True)
class DrainRequest:
    """A request to drain a queue into one batch.

    :param options: the limits of the drain.
    :param where: drain the messages that match alone; a retry needs the same filter. They are found and taken by one
        worker, in this process.
    :param keep: copy the messages up to the mark to files and leave them in the queue, by one worker too; a retry needs
        the same.
    :param batch_id: the batch; the same id resumes it, or returns it when it is sealed already; None: a new batch.
    :param renew: where the batch of that id was consumed or requeued, drain a new one, whose id follows from it.
    :param origin: who drains, for people who read the ledger (dag, task, run, map index).
    :param owner: the task that the batch belongs to, in whichever run: :func:`.drain.options.owner_of`.

    Raises :class:`ConfigurationError` where they contradict each other.
    """

    options: DrainOptions = field(default_factory=DrainOptions)
    where: MessageFilter | None = None
    keep: bool = False
    batch_id: uuid.UUID | None = None
    renew: bool = False
    origin: str = ""
    owner: uuid.UUID | None = None

    def __post_init__(self) -> None:
        if self.where is not None and self.keep:
            raise ConfigurationError("A drain that keeps copies all messages: leave out the filter, or keep.")
        if self.options.max_bytes is not None and not self.is_plain:
            raise ConfigurationError("max_bytes is for drains that take all there is: leave out the filter, or keep.")

    @property
    def is_plain(self) -> bool:
        """Whether it takes all messages, so that several workers can share them."""
        return self.where is None and not self.keep

    @property
    def filter_text(self) -> str:
        """The canonical text of the filter, empty for all messages."""
        return "" if self.where is None else self.where.canonical
