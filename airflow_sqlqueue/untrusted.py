r"""Untrusted text from rows, made safe for logs, errors, events, terminals, pages and other rows.

The sender of a message chooses its headers: halves of surrogate pairs, NUL, control characters, texts of any length.
Such a text may get only through this module into a log or an error (:func:`quoted`), an event or XCom
(:func:`event_value`), a terminal (:func:`printable`), a page (:func:`label`), a metric (:func:`metric_labels`) and
another row (:func:`row_text`, :func:`cut`, for a single header :func:`header_value`). ASCII JSON, which
``json.dumps`` writes by default, is safe.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

QUOTED = 200
"""The most characters of a value in a log line or in an error."""

EVENT = 1_000
"""The most characters of a value in an event or in XCom."""

HEADER = 8_192
"""The most characters of a value that is copied into another message: W3C's limit for the header ``baggage``."""

LABEL = 500
"""The most characters of a name on a page."""

SENTENCE = 4_000
"""The most characters of an error's text."""

_HALVES = re.compile("[\ud800-\udfff]")
_INVISIBLE = "\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
_CONTROL_OR_BREAK = re.compile(f"[\x00-\x1f{_INVISIBLE}]")


def is_text(value: str) -> bool:
    """Return whether a text can be encoded, that is, contains no half of a surrogate pair."""
    return value.isascii() or _HALVES.search(value) is None


def quoted(value: str | None, most: int = QUOTED) -> str:
    """Return a value in quotes for a log line or an error: one line of at most ``most`` printable characters."""
    if value is None or len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}..."


def event_value(value: str | None) -> str | None:
    """Return a value for an event or XCom, which Airflow writes as msgpack, as JSON and into its database.

    The result is None for a value of more than :data:`EVENT` characters, and for a value with a NUL or half a surrogate
    pair, which these formats cannot hold.
    """
    if value is None or len(value) > EVENT or "\0" in value or not is_text(value):
        return None
    return value


def header_value(value: str | None) -> str | None:
    """Return a header's value for another message, into which a handled message's ids are copied.

    The result is None for an empty value, for more than :data:`HEADER` characters, and for half a surrogate pair.
    """
    return value if value and len(value) <= HEADER and is_text(value) else None


def label(value: str | None, most: int = LABEL) -> str | None:
    """Return a name for a page, cut after ``most`` characters."""
    return value if value is None or len(value) <= most else f"{value[:most]}…"


def printable(text: str) -> str:
    r"""Return a text for a terminal, with control characters as ``\x1b`` or ``\u202e``; line feeds and tabs stay.

    A header may contain sequences that clear the screen, set the title, write to the clipboard or reverse the direction
    of writing. Half a surrogate pair cannot be encoded for a terminal. A carriage return at the end of a line is
    dropped.
    """
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def sentence(text: str) -> str:
    """Return the text of an error: one line of printable characters, cut after :data:`SENTENCE` of them.

    An error's text contains names of tables and addresses, which may come from headers of messages.
    """
    cut = text if len(text) <= SENTENCE else f"{text[:SENTENCE]}..."
    return _CONTROL_OR_BREAK.sub(_escape, cut)


def metric_labels(labels: Mapping[str, str]) -> str:
    """Return the labels of a metric in the text formats of Prometheus and of OpenMetrics."""
    escaped = {name: re.sub(r'[\\"]', r"\\\g<0>", text).replace("\n", r"\n") for name, text in labels.items()}
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())


def row_text(text: str) -> str:
    """Return headers for another row, with ``\\uXXXX`` for halves of surrogate pairs, which no driver accepts.

    JSON stays the same JSON, because only strings contain such characters. Text that is not JSON does not become JSON.
    """
    return text if is_text(text) else _HALVES.sub(lambda found: json.dumps(found[0])[1:-1], text)


def units(text: str) -> int:
    """Return the length of a text as SQL Server counts it, in units of UTF-16: an emoji is two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, most: int) -> str:
    """Return :func:`row_text` for a column ``nvarchar(most)``, cut after as many :func:`units`, not within a pair."""
    # No character takes less than a unit, so the rest of a long text need not be read.
    return row_text(text[:most]).encode("utf-16-le")[: 2 * most].decode("utf-16-le", "ignore")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
