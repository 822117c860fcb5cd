"""How messages are to be consumed, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_sqlqueue.budget import Limits
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.transactions import MODES, SENDS_ATOMIC_WITH_RECEIVE


@dataclass(frozen=True)
class ConsumeOptions(Limits):
    """When consuming ends, how many messages are handled side by side, and what happens to those that fail.

    Where no limit is given and ``until_empty`` is False, consuming ends when it is stopped.

    :param max_messages: end after this many messages were handled, delayed or given up; None: no limit.
    :param max_seconds: receive no message after this many seconds; None: no limit. A handler at work is not cut short.
    :param until_empty: end when nothing is left to receive; False: wait for more until a limit is reached.
    :param max_handlers: the most messages handled at the same time, each in a thread with a connection of its own.
    :param poll_seconds: how long to wait before an empty queue is looked at again, at least 0.1.
    :param where: handle the messages that match alone; all others stay, expired ones too. Headers of the whole queue
        are read for it, again and again where few match.
    :param transaction_mode: ``sends_atomic_with_receive``, ``receive_only`` or ``none``, as for
        :func:`airflow_sqlqueue.transactions.transaction`.
    :param endpoint: who handles the messages, for the headers of those that fail; the queue's name unless given.
    :param recoverability: how often a message is tried, and where it goes then; in the mode ``none`` it is tried once.
    """

    until_empty: bool = True
    max_handlers: int = 4
    poll_seconds: float = 1.0
    where: MessageFilter | None = None
    transaction_mode: str = SENDS_ATOMIC_WITH_RECEIVE
    endpoint: str | None = None
    recoverability: RecoverabilityOptions = field(default_factory=RecoverabilityOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transaction_mode not in MODES:
            raise ConfigurationError(
                f"There is no transaction mode {self.transaction_mode!r}: choose one of {', '.join(MODES)}."
            )
        if not 1 <= self.max_handlers <= 256:
            raise ConfigurationError("max_handlers must be 1 to 256: each has a thread and a connection.")
        if self.poll_seconds < 0.1:
            raise ConfigurationError("poll_seconds must be at least 0.1: each look is a statement on the server.")


@dataclass
class ConsumeResult:
    """What consuming did so far.

    ``handled`` messages were committed. ``failed`` ones went to the error queue, those with malformed headers among
    them, ``delayed`` ones wait for another round, ``forwarded`` ones were due for another queue and are there.
    ``rolled_back`` counts attempts that failed, each of which put its message back. ``handlers`` is how many there were
    at the same time, at most.
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
        """How many messages have left the queue."""
        return self.handled + self.failed + self.delayed + self.forwarded

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain JSON values."""
        return {**asdict(self), "messages": self.messages, "seconds": round(self.seconds, 3)}
