"""Ids and names by their beginnings, as people copy them from a list."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import FailedMessages, scan
from airflow_sqlqueue.untrusted import quoted

LEAST = 4
"""The fewest characters of a beginning: fewer are a slip rather than a name."""

_LISTED = 5
_HEX = re.compile(r"[0-9A-Fa-f-]+")
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def whole_batch_id(text: str) -> uuid.UUID | None:
    """Return the id that a text has in full; None for a beginning of one. Raises :class:`ConfigurationError`."""
    text = str(text)
    try:
        return uuid.UUID(text)
    except ValueError:
        if _HEX.fullmatch(text) and LEAST <= len(text.replace("-", "")) < 32:
            return None
    raise ConfigurationError(
        f"{quoted(text)} is no id of a batch: give the id, or at least {LEAST} characters of its beginning."
    )


def id_beginning(text: str) -> str:
    """Return the beginning of an id in the form that the server's ids have: upper case, with hyphens."""
    digits = text.replace("-", "").upper()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(part for part in parts if part)


def name_beginning(beginning: str, known: Iterable[str]) -> str | None:
    """Return the known name that a text is, or the only one that begins with it; None if none does.

    Raises :class:`ConfigurationError` for several, and for a beginning of less than :data:`LEAST` characters.
    """
    found = sorted({name for name in known if name.startswith(beginning)})
    if beginning in found:
        return beginning
    if found and len(beginning) < LEAST:
        raise ConfigurationError(f"{quoted(beginning)} is too short a beginning: give at least {LEAST} characters.")
    return only_one(beginning, found) if found else None


def only_one(beginning: str, found: list[str]) -> str:
    """Return the only name of a list. Raises :class:`ConfigurationError` if there are more."""
    if len(found) > 1:
        listed = ", ".join([*map(quoted, found[:_LISTED]), *(["..."] if len(found) > _LISTED else [])])
        raise ConfigurationError(f"{quoted(beginning)} is the beginning of {listed}: give more characters.")
    return found[0]


def whole_message_ids(source: FailedMessages, texts: Iterable[str]) -> frozenset[str]:
    """Return the ids of messages that texts are, or that they alone begin: see :meth:`.ErrorManager.message_ids`."""
    if isinstance(texts, str):
        raise ConfigurationError(f"The beginnings are a list of texts, not the text {quoted(texts)}: give such a list.")
    wanted = frozenset(texts)
    candidates: dict[str, set[str]] = {text: set() for text in wanted if not _UUID.fullmatch(text)}
    whole = wanted - candidates.keys()
    if not candidates:
        return whole
    window, seen = source.window(ErrorFilter()), 0
    for message in scan(source, window):
        seen += 1
        for text, known in candidates.items():
            found = message.message_id or ""
            if found == text or (found.startswith(text) and len(known) <= _LISTED):
                known.add(found)
    locked = source.count_left(window.up_to) - seen
    for text, known in candidates.items():
        only = name_beginning(text, known)
        if only != text and locked > 0:
            raise ConfigurationError(
                f"Others have locked {count_of(locked, 'message')} of {source.name}, whose ids cannot be compared "
                f"with {quoted(text)}: give the id in full, or try again."
            )
        if only is None:
            raise MessageNotFoundError(f"No id of a message in {source.name} begins with {quoted(text)}: check the id.")
        whole |= {only}
    return whole
