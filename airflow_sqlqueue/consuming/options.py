"""Options and result of consuming."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_sqlqueue.budget import Limits, check_limits
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.envelope.payloads import PayloadSource
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.transactions import MODES, NONE, SENDS_ATOMIC_WITH_RECEIVE

FAIL, SLOW_DOWN = "fail", "slow_down"
"""Reactions to failures in a row."""


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
    :param max_failed: end with :class:`~airflow_sqlqueue.errors.TooManyFailuresError` when more than this number of
        messages has gone to the error queue; 0: at the first one; None: no limit.
    :param max_consecutive_failures: number of failed attempts in a row, of any messages, after which
        ``on_consecutive_failures`` takes effect; None: no limit. An attempt that succeeds resets the count.
    :param on_consecutive_failures: ``fail`` ends with the same error; the messages that have retries left stay.
        ``slow_down`` handles one message at a time, after a pause, until one succeeds, like the rate limit of
        endpoints. ``fail`` requires a limit of more than the attempts in one round of as many messages as there are
        handlers: otherwise a few messages could end every run.
    :param slow_down_seconds: seconds of the first pause of ``slow_down``; each further one is twice as long, up to 60.
    :param inbox: handle each message id once: ids are entered in the table ``Inbox`` beside the ledger, in the
        transaction of the handling, and further messages with the same id are deleted and counted as ``duplicates``.
        The table is created if it is missing. Not in the mode ``none``.
    :param inbox_days: days after which an id is removed from the inbox; a later message with this id is handled.
    :param wait_for_server: True: wait for a server that is away until it is back; False: raise the error after 8
        failures in a row, some 30 seconds. A login that is refused is raised in both cases.
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
    max_failed: int | None = None
    max_consecutive_failures: int | None = None
    on_consecutive_failures: str = FAIL
    slow_down_seconds: float = 1.0
    inbox: bool = False
    inbox_days: float = 7.0
    wait_for_server: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transaction_mode not in MODES:
            raise ConfigurationError(
                f"There is no transaction mode {self.transaction_mode!r}: choose one of {', '.join(MODES)}."
            )
        if self.audit_queue is not None and not self.audit_queue.strip():
            raise ConfigurationError("audit_queue is blank: name a queue, or leave it out.")
        self._check_failure_limits()
        if self.inbox and self.transaction_mode == NONE:
            raise ConfigurationError(
                "An inbox needs a transaction in which the handler's effects commit: choose another transaction_mode."
            )
        if not 0 < self.inbox_days <= 10_000:
            raise ConfigurationError("inbox_days must be more than 0, up to 10,000.")
        if not 1 <= self.max_handlers <= 256:
            raise ConfigurationError("max_handlers must be 1 to 256: each has a thread and a connection.")
        if self.poll_seconds < 0.1:
            raise ConfigurationError("poll_seconds must be at least 0.1: each poll is a statement on the server.")

    def _check_failure_limits(self) -> None:
        limit = self.max_consecutive_failures
        if self.max_failed is not None and self.max_failed < 0:
            raise ConfigurationError("max_failed must be 0 or more: leave it out for no limit.")
        check_limits(max_consecutive_failures=limit, slow_down_seconds=self.slow_down_seconds)
        if self.on_consecutive_failures not in (FAIL, SLOW_DOWN):
            raise ConfigurationError(
                f"on_consecutive_failures is {self.on_consecutive_failures!r}: choose {FAIL!r} or {SLOW_DOWN!r}."
            )
        attempts = self.max_handlers * (self.recoverability.immediate_retries + 1)
        is_short = limit is not None and limit <= attempts
        if is_short and self.on_consecutive_failures == FAIL and self.transaction_mode != NONE:
            raise ConfigurationError(
                f"max_consecutive_failures must be more than {attempts}, which is max_handlers times the attempts in a "
                "round: a few messages that always fail would end every run before they leave the queue."
            )


@dataclass
class ConsumeResult:
    """Counts of consuming, so far or in all.

    ``handled`` messages were committed. ``failed`` messages went to the error queue, among them those with malformed
    headers. ``delayed`` messages wait for another round. ``forwarded`` messages were due for another queue and were
    sent there. ``duplicates`` were deleted because the inbox had their ids, ``discarded`` ones because no function
    handles their types. ``rolled_back`` counts failed attempts, which put their messages back. ``handlers`` is the
    highest number of handlers at the same time.
    """

    handled: int = 0
    failed: int = 0
    delayed: int = 0
    forwarded: int = 0
    duplicates: int = 0
    discarded: int = 0
    rolled_back: int = 0
    handlers: int = 0
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Number of messages that have left the queue."""
        return self.handled + self.failed + self.delayed + self.forwarded + self.duplicates + self.discarded

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {**asdict(self), "messages": self.messages, "seconds": round(self.seconds, 3)}
