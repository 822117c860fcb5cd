"""What becomes of a message that could not be handled: tried again, at once or after a while, or given up.

Source: docs/transport/transactions.md, "Recoverability".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames, Headers

_LONGEST = timedelta(days=1)
"""After a delayed retry that lies further back there is no other."""


class RecoverabilityAction(Enum):
    """What is done with a message that has failed before, when it is received again."""

    RETRY = "retry"
    DELAY = "delay"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class RecoverabilityOptions:
    """How often a message is tried, and where it goes then. The defaults are those of endpoints.

    Immediate retries are counted in memory, as endpoints count them: another process, or another run, begins from
    zero. Delayed retries are counted in the message's header ``NServiceBus.Retries``.

    :param immediate_retries: how often a message is tried again at once, in each round.
    :param delayed_retries: how many further rounds there are, each after a delay; 0: none.
    :param delayed_retry_seconds: the delay before the first of these rounds, and what each one after it waits longer.
    :param error_queue: the address of the queue for messages that are given up.
    :param unrecoverable: exceptions after which a message is given up at once.
    """

    immediate_retries: int = 5
    delayed_retries: int = 3
    delayed_retry_seconds: float = 10.0
    error_queue: str = "error"
    unrecoverable: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        for name in ("immediate_retries", "delayed_retries", "delayed_retry_seconds"):
            if not 0 <= getattr(self, name) <= 1_000_000:
                raise ConfigurationError(f"{name} must be 0 to 1,000,000.")
        if not self.error_queue:
            raise ConfigurationError("error_queue names no queue: messages that are given up have to go somewhere.")


def action_for(
    options: RecoverabilityOptions, attempts: int, envelope: Envelope, *, can_delay: bool
) -> RecoverabilityAction:
    """What to do with a message that has failed ``attempts`` times since it came; ``can_delay``: there is a table."""
    if attempts <= options.immediate_retries:
        return RecoverabilityAction.RETRY
    delayed_at = envelope.recoverability.delayed_at
    recent = delayed_at is None or datetime.now(timezone.utc) - delayed_at <= _LONGEST
    if can_delay and recent and rounds_of(envelope) < options.delayed_retries:
        return RecoverabilityAction.DELAY
    return RecoverabilityAction.GIVE_UP


def rounds_of(envelope: Envelope) -> int:
    """How many delayed retries the message has behind it."""
    return max(0, envelope.recoverability.delayed_retries or 0)


def delay_of(options: RecoverabilityOptions, envelope: Envelope) -> timedelta:
    """How long the message waits for its next round."""
    return timedelta(seconds=options.delayed_retry_seconds * (rounds_of(envelope) + 1))


def delayed_headers(headers: Headers, envelope: Envelope) -> dict[str, str | None]:
    """The headers of a message that waits for its next round: its own input queue is where it goes then."""
    kept = {name: value for name, value in headers.items() if name != HeaderNames.FORWARD_DESTINATION}
    return {
        **kept,
        HeaderNames.DELAYED_RETRIES: str(rounds_of(envelope) + 1),
        HeaderNames.DELAYED_RETRIES_TIMESTAMP: format_time(datetime.now(timezone.utc)),
    }
