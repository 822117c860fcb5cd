"""Options and result of consuming."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.endpoint.databus.options import PAYLOAD_BYTES, SIZE_OF_A_PAYLOAD
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import argument, describe_fields, option
from airflow_sqlqueue.options.budget import Limits
from airflow_sqlqueue.options.secondary import secondary
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.server.transactions import MODES, NONE, SENDS_ATOMIC_WITH_RECEIVE

if TYPE_CHECKING:
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

FAIL, SLOW_DOWN = "fail", "slow_down"
"""Reactions to failures in a row."""


@dataclass(frozen=True, kw_only=True)
class ConsumeOptions(RecoverabilityOptions, Limits):
    """Options of consuming: limits, number of handlers, transaction mode and retries.

    Without a limit and with ``until_empty`` False, consuming ends only when it is stopped. In the mode ``none`` a
    message is tried once. An attempt that succeeds resets the count of ``max_consecutive_failures``, whose limit must
    be more than the attempts in one round of as many messages as there are handlers if ``on_consecutive_failures`` is
    ``fail``: otherwise a few messages could end every run. With ``secondary`` each queue has handlers and limits on
    failures of its own.
    """

    max_messages: int | None = option(None, "end after this many messages have left the queue", above=0)
    max_seconds: float | None = option(None, "receive no message after this many seconds", above=0)
    until_empty: bool = option(True, "end when the queue is empty; else wait for messages until a limit is reached")
    max_handlers: int = option(
        4,
        "largest number of messages handled at the same time, each in a thread with a connection",
        least=1,
        most=256,
        because="each has a thread and a connection",
    )
    poll_seconds: float = option(
        1.0, "seconds between two polls of an empty queue", least=0.1, because="each poll is a statement on the server"
    )
    transaction_mode: str = option(SENDS_ATOMIC_WITH_RECEIVE, "transaction mode", choices=MODES)
    audit_queue: str | None = option(
        None, "address of the queue that gets a copy of each handled message, in the transaction of its handling"
    )
    max_failed: int | None = option(
        None, "end with an error when more messages than this went to the error queue; 0: at the first one", least=0
    )
    max_consecutive_failures: int | None = option(
        None,
        "number of failed attempts in a row, of any messages, before ``on_consecutive_failures`` takes effect",
        above=0,
    )
    on_consecutive_failures: str = option(
        FAIL,
        "``fail``: end with an error; ``slow_down``: handle one message at a time, after pauses, until one succeeds",
        choices=(FAIL, SLOW_DOWN),
    )
    slow_down_seconds: float = option(
        1.0, "seconds of the first pause of ``slow_down``; each further one is twice as long, up to 60", above=0
    )
    inbox: bool = option(
        False,
        "handle each message id once: ids are kept in a table beside the ledger, and a further message with the same "
        "id is deleted; not in the mode ``none``",
    )
    inbox_days: float = option(7.0, "days for which the inbox keeps an id", above=0, most=10_000)
    payload_bytes: int = option(
        PAYLOAD_BYTES, "the largest payload that is fetched; each handler holds one in memory", **SIZE_OF_A_PAYLOAD
    )
    secondary: bool = secondary("handle the messages of")
    where: MessageFilter | None = argument(
        None,
        "handle only messages that match this filter; all others stay, expired ones too. The filter reads the headers "
        "of the whole queue, repeatedly if few messages match",
    )
    endpoint: str | None = argument(
        None, "name of the endpoint in the headers of failed, audited and sent messages, by default the queue's name"
    )
    data_bus: DataBus | None = argument(
        None, "the data bus from which :meth:`.Envelope.payload` fetches; None: no payloads are fetched", repr=False
    )
    wait_for_server: bool = argument(
        False,
        "wait for a server that is away until it is back; else its error is raised after 8 failures in a row, some 30 "
        "seconds. A login that is refused is raised in both cases",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.audit_queue is not None and not self.audit_queue.strip():
            raise ConfigurationError("audit_queue is blank: name a queue, or leave it out.")
        if self.inbox and self.transaction_mode == NONE:
            raise ConfigurationError(
                "An inbox needs a transaction in which the handler's effects commit: choose another transaction_mode."
            )
        limit, attempts = self.max_consecutive_failures, self.max_handlers * (self.immediate_retries + 1)
        is_short = limit is not None and limit <= attempts
        if is_short and self.on_consecutive_failures == FAIL and self.transaction_mode != NONE:
            raise ConfigurationError(
                f"max_consecutive_failures must be more than {attempts}, which is max_handlers times the attempts in a "
                "round: a few messages that always fail would end every run before they leave the queue."
            )


@dataclass
@describe_fields
class ConsumeResult:
    """Counts of consuming, so far or in all; ``handlers`` is the highest number of handlers at the same time."""

    handled: int = option(0, "messages that were handled and committed")
    failed: int = option(0, "messages that went to the error queue, those with malformed headers included")
    delayed: int = option(0, "messages that went to the table of delayed messages, for another round")
    forwarded: int = option(0, "messages that were forwarded to another queue")
    duplicates: int = option(0, "messages that were deleted because the inbox had their ids")
    discarded: int = option(0, "messages that were deleted because no function handles their types")
    rolled_back: int = option(0, "attempts that failed and put their messages back")
    handlers: int = 0
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """Number of messages that have left the queue."""
        return self.handled + self.failed + self.delayed + self.forwarded + self.duplicates + self.discarded

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return {**asdict(self), "messages": self.messages, "seconds": round(self.seconds, 3)}
