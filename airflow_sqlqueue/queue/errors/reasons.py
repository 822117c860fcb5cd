"""Reasons why failed messages stay where they are."""

from __future__ import annotations

from enum import Enum


class StayReason(str, Enum):
    """Reason why a message stays in the error queue."""

    MALFORMED = "malformed headers"
    NO_FAILED_QUEUE = "no failed queue"
    NOT_AN_ADDRESS = "the failed queue's address cannot be used"
    OUTSIDE = "outside of the allowed databases and schemas"
    NOT_FOUND = "the failed queue does not exist"
    NOT_A_QUEUE = "the failed queue cannot be sent to"
    DENIED = "no permission on the failed queue"
    ERROR_QUEUE = "the failed queue is the error queue"
    SATELLITE = "the failed queue is a .Retries satellite"
    LOCKED = "the failed queue is locked"
    REFUSED = "the server refused the message"
    NOT_AVAILABLE = "not there, or locked by others"


NO_DESTINATION = frozenset(StayReason) - {
    StayReason.MALFORMED,
    StayReason.LOCKED,
    StayReason.REFUSED,
    StayReason.NOT_AVAILABLE,
}
"""Reasons for which a message stays until it is redirected to another queue."""
