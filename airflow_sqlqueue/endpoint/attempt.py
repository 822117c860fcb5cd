"""Attempts of handlers: the messages of one, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from airflow_sqlqueue.endpoint.recoverability import FailedAttempts
from airflow_sqlqueue.errors import is_of_a_message
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import ReceivedMessage

OnReceived = Callable[[Callable[[int], int]], None]
"""Is called after each receive that found a message, with a function that counts the waiting ones up to a limit."""


class Outcome(Enum):
    """Outcome of a message that was received. After ``ROLLED_BACK`` the message, or its batch, is in the queue again,
    and so it is after ``WAITED``, which is no failure: another handler has a message with its id.

    After ``GIVEN_UP`` it is in the error queue without another attempt, and after ``FAILED`` because of this attempt.
    """

    HANDLED = "handled"
    FAILED = "failed"
    GIVEN_UP = "given up"
    DELAYED = "delayed"
    FORWARDED = "forwarded"
    DUPLICATE = "duplicate"
    DISCARDED = "discarded"
    ROLLED_BACK = "rolled_back"
    WAITED = "waited"

    @property
    def stays(self) -> bool:
        """Whether the message, or its batch, is in the queue again."""
        return self in (Outcome.ROLLED_BACK, Outcome.WAITED)


@dataclass
class Attempt:
    """An attempt to handle a message or a batch.

    ``message`` was received first, with ``envelope`` if it goes to the function. ``batch`` are the messages that go to
    the function together, and ``received`` has these and the ``duplicates``, whose ids the inbox has. ``at_risk``: from
    now on every error counts as caused by the message. ``waits``: another handler has a message with the same id, so
    the attempt counts as none. ``giving_up``: the message is on its way to the error queue. ``started`` is the time at
    which the function was called.
    """

    message: ReceivedMessage | None = None
    envelope: Envelope | None = None
    received: list[ReceivedMessage] = field(default_factory=list)
    batch: list[tuple[ReceivedMessage, Envelope]] = field(default_factory=list)
    duplicates: int = 0
    at_risk: bool = False
    waits: bool = False
    giving_up: bool = False
    failed: FailedAttempts | None = None
    started: datetime | None = None

    @property
    def is_shared(self) -> bool:
        """Whether several messages go to the function, so that a failure is of none of them in particular."""
        return len(self.received) > 1

    def is_to_blame(self, error: Exception) -> bool:
        """Return whether the message causes an error, and not the server, a table or a setting."""
        return self.message is not None and (self.at_risk or is_of_a_message(error))
