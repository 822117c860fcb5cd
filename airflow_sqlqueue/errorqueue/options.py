"""How messages are to be returned, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_sqlqueue.budget import MIB, Limits, check_limits
from airflow_sqlqueue.errors import ConfigurationError


@dataclass(frozen=True)
class ReturnOptions(Limits):
    """The limits of a return. Rows and bytes of a transaction bound its locks and the memory it takes.

    :param redirect_to: send them to this queue instead of those where they failed.
    :param malformed: redirect messages with malformed headers too, their text unchanged; needs ``redirect_to``.
    :param rate: messages per second; None: as fast as it goes.
    :param max_messages: stop after this many were returned; None: no limit.
    :param max_seconds: begin no transaction after this many seconds; None: no limit.
    :param dry_run: return nothing, only report what would be returned.
    :param rows_per_transaction: the most messages that one transaction moves, 1 to 1,000.
    :param bytes_per_transaction: bytes of headers and bodies after which a transaction takes no further message.
    """

    redirect_to: str | None = None
    malformed: bool = False
    rate: float | None = None
    dry_run: bool = False
    rows_per_transaction: int = 128
    bytes_per_transaction: int = 8 * MIB

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.malformed and self.redirect_to is None:
            raise ConfigurationError("Malformed messages name no queue: say with redirect_to where they are to go.")
        check_limits(rate=self.rate, bytes_per_transaction=self.bytes_per_transaction)
        if not 1 <= self.rows_per_transaction <= 1_000:
            raise ConfigurationError("rows_per_transaction must be 1 to 1,000: locks would escalate.")


@dataclass
class ReturnResult:
    """What a return did so far.

    ``returned`` counts messages by the queue they went to, ``left`` those that stay by the reason. ``unseen`` messages
    were held by others all the time, so that nobody could look at them; where others receive from the error queue it is
    an estimate. ``complete`` is False where a budget ended the return before all were handled, and says nothing of
    those that stay.
    """

    returned: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    unseen: int = 0
    complete: bool = False
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        """How many messages were returned."""
        return sum(self.returned.values())

    def count(self, into: dict[str, int], key: str, messages: int) -> None:
        """Add to one of the two counts; nothing is not mentioned."""
        if messages:
            into[key] = into.get(key, 0) + messages

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain JSON values."""
        return {
            "messages": self.messages,
            "returned": dict(self.returned),
            "left": dict(self.left),
            "unseen": self.unseen,
            "complete": self.complete,
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 3),
        }
