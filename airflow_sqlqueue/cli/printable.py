"""Text from messages, made safe for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with control characters as ``\x1b`` or ``\u202e``; line feeds and tabs stay.

    A header may hold sequences that clear the screen, set the title, write to the clipboard or turn the direction of
    writing around, and whoever sends a message chooses its headers. Half a surrogate pair is no text that a terminal
    takes. A carriage return at the end of a line is dropped.
    """
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
