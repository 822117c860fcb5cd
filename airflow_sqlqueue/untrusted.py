r"""Untrusted text: what a row holds, made safe for where it goes.

Whoever can send a message chooses its headers: halves of surrogate pairs, NUL, control characters, texts of any length.
This module is the only way for such a text into a log or an error (:func:`quoted`), an event or XCom
(:func:`event_value`), a terminal (:func:`printable`), a page (:func:`label`) and another row (:func:`row_text`).
JSON is safe by itself where it is ASCII, as ``json.dumps`` writes it by default.
"""

from __future__ import annotations

import json
import re

QUOTED = 200
"""Characters of a value in a log line or in an error."""

EVENT = 1_000
"""Characters of a value in an event or in XCom."""

LABEL = 500
"""Characters of a value that names something on a page."""

SENTENCE = 4_000
"""Characters of an error's text."""

_HALVES = re.compile("[\ud800-\udfff]")
_INVISIBLE = "\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
_CONTROL_OR_BREAK = re.compile(f"[\x00-\x1f{_INVISIBLE}]")


def is_text(value: str) -> bool:
    """Whether a text can be encoded: it holds no half of a surrogate pair."""
    return value.isascii() or _HALVES.search(value) is None


def quoted(value: str | None, most: int = QUOTED) -> str:
    """A value in quotes for a log line or an error: one line of printable characters, cut after ``most`` of them."""
    if value is None or len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}..."


def event_value(value: str | None) -> str | None:
    """A value for an event or XCom, which Airflow writes as msgpack, as JSON and into its database.

    None stands for a value of more than :data:`EVENT` characters, and for one with a NUL or half a surrogate pair,
    which these cannot hold.
    """
    if value is None or len(value) > EVENT or "\0" in value or not is_text(value):
        return None
    return value


def label(value: str | None, most: int = LABEL) -> str | None:
    """A value that names something on a page, cut after ``most`` characters."""
    return value if value is None or len(value) <= most else f"{value[:most]}…"


def printable(text: str) -> str:
    r"""The text with control characters as ``\x1b`` or ``\u202e``; line feeds and tabs stay.

    A header may hold sequences that clear the screen, set the title, write to the clipboard or turn the direction of
    writing around. Half a surrogate pair cannot be encoded for a terminal. A carriage return at the end of a line is
    dropped.
    """
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def sentence(text: str) -> str:
    """An error's text: one line of printable characters, cut after :data:`SENTENCE` of them.

    Names of tables and addresses are part of it, and headers of messages may name these.
    """
    cut = text if len(text) <= SENTENCE else f"{text[:SENTENCE]}..."
    return _CONTROL_OR_BREAK.sub(_escape, cut)


def row_text(text: str) -> str:
    """Headers for another row: halves of surrogate pairs, which no driver takes, as ``\\uXXXX``.

    What is JSON stays the same JSON, as such characters only stand in strings; what is not JSON does not become it.
    """
    return text if is_text(text) else _HALVES.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
