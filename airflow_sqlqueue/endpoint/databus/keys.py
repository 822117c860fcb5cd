"""Keys of the data bus: the sender of a message chooses them, so they are checked before they become paths.

Source: docs/transport/messages.md, "Data bus".
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from airflow_sqlqueue.errors import PayloadKeyError
from airflow_sqlqueue.messages.envelope.payloads import label

MAX_KEY = 512
"""The most characters of a key. Those of NServiceBus have up to 50."""

_STEP = re.compile(r"[A-Za-z0-9_.-]{0,254}[A-Za-z0-9_-]", re.ASCII)
"""A step of a path, the name of a file or a folder: neither ``.`` nor ``..``, no pattern, no query, no drive."""

_KEPT_UNTIL = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2})", re.ASCII)


def path_of(key: str | None, property_name: str | None = None) -> str:
    r"""Return the path of a key below the location of the data bus, with slashes.

    Both slashes separate steps, as in NServiceBus: ``2026-04-29_22\<guid>`` has two steps. Raises
    :class:`PayloadKeyError`, without the key, for a path that leads elsewhere, and for characters that no data bus of
    NServiceBus writes.
    """
    steps = re.split(r"[/\\]", key) if key is not None and len(key) <= MAX_KEY else []
    if not steps or not all(map(_STEP.fullmatch, steps)):
        raise PayloadKeyError(
            f"{label(property_name)} has a key that was not used: a key is a path below the data bus, of up to "
            f"{MAX_KEY} letters, digits, dots, dashes and underscores, without '..'."
        )
    return "/".join(steps)


def kept_until(path: str) -> datetime | None:
    """Return the time until which the sender asked a file share to keep a payload; None for a key without a time.

    The time is in full hours, and the last hour of the year 9999 means that the message has no time to live.
    """
    found = _KEPT_UNTIL.fullmatch(path.partition("/")[0])
    if found is None:
        return None
    try:
        return datetime(int(found[1]), int(found[2]), int(found[3]), int(found[4]), tzinfo=timezone.utc)
    except ValueError:
        return None
