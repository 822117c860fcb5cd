"""Options and result of consuming."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_sqlqueue.budget import Limits
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.envelope.payloads import PayloadSource
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.transactions import MODES, SENDS_ATOMIC_WITH_RECEIVE


@dataclass(frozen=True)
class ConsumeOptions(Limits):
    """Options of consuming: limits, number of handlers, filter, transaction mode and retries.

    Without a limit and with ``until_empty`` False, consuming ends only when it is stopped.

    :param max_messages: end after this number of messages was handled, delayed or given up; None: no limit.
    :param max_seconds: receive no message after this number of seconds; None: no limit. A running handler is not
        interrupted.
    :param until_empty: end when there is no message to receive; False: wait for more until a limit is reached.
    :param max_handlers: the most messages handled at the same time, each in a thread with a connection of its own.
    :param poll_seconds: seconds between two polls of an empty queue, at least 0.1.
    :param where: handle only messages that match this filter; all others stay, expired ones too. The filter reads the
        headers of the whole queue, repeatedly if few messages match.
    :param transaction_mode: ``sends_atomic_with_receive``, ``receive_only`` or ``none``, as for
        :func:`airflow_sqlqueue.transactions.transaction`.
    :param endpoint: name of the endpoint in the headers of failed, audited and sent messages; the queue's name unless
        given.
    :param audit_queue: address of the queue that gets a copy of each handled message, as endpoints with auditing write
        it, in the transaction of its handling; None: no copies.
    :param recoverability: number of tries of a message, and its error queue; in the mode ``none`` it is tried once.
    :param data_bus: a :class:`~airflow_sqlqueue.DataBus`, from which :meth:`.Envelope.payload` fetches; None: the
        handler fetches no payloads.
    """

    until_empty: bool = True
    max_handlers: int = 4
    poll_seconds: float = 1.0
    where: MessageFilter | None = None
    transaction_mode: str = SENDS_ATOMIC_WITH_RECEIVE
    endpoint: str | None = None
    recoverability: RecoverabilityOptions = field(default_factory=RecoverabilityOptions)
    data_bus: PayloadSource | None = field(default=None, repr=False)
    audit_queue: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transaction_mode not in MODES:
            raise ConfigurationError(
                f"There is no transaction mode {self.transaction_mode!r}: choose one of {', '.join(MODES)}."
            )
        if self.audit_queue is not None and not self.audit_queue.strip():
            raise ConfigurationError("audit_queue is blank: name a queue, or leave it out for no copies.")
        if not 1 <= self.max_handlers <= 256:
            raise ConfigurationError("max_handlers must be 1 to 256: each has a thread and a connection.")
        if self.poll_seconds < 0.1:
            raise ConfigurationError("poll_seconds must be at least 0.1: each poll is a statement on the server.")


@dataclass
class ConsumeResult:
    """Counts of consuming, so far or in all.

    ``handled`` messages were committed. ``failed`` messages went to the error queue, among them those with malformed
    headers. ``delayed`` messages wait for another round. ``forwarded`` messages were due for another queue and were
    sent there. ``rolled_back`` counts failed attempts, which put their messages back. ``handlers`` is the highest
    number of handlers at the same time.
    """

    handled: int = 0
    failed: int = 0
    delayed: int = 0
    forwarded: int = 0
    rolled_back: int = 0
    handlers: int = 0
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Number of messages that have left the queue."""
        return self.handled + self.failed + self.delayed + self.forwarded

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {**asdict(self), "messages": self.messages, "seconds": round(self.seconds, 3)}
