"""Bodies as text for the page, which runs and loads nothing from them; JSON is only indented."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from airflow_sqlqueue.messages.envelope import Envelope

MAX_CHARACTERS = 200_000
MAX_BYTES = 1024 * 1024
"""Bytes of a body that the page reads from the server."""

_HEX_BYTES = 32 * 1024
_OPENING, _CLOSING = {"{", "["}, {"}", "]"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def shown_body(envelope: Envelope, body: bytes, size: int) -> dict[str, object]:
    """Return the beginning of a body of ``size`` bytes, as text by its content type and its bytes."""
    kind, text = _text(envelope, body, is_whole=len(body) == size)
    cut = len(body) < size or len(text) > MAX_CHARACTERS or (kind == "hex" and size > _HEX_BYTES)
    return {"kind": kind, "text": text[:MAX_CHARACTERS], "bytes": size, "cut": cut}


def _text(envelope: Envelope, body: bytes, *, is_whole: bool) -> tuple[str, str]:
    if not body:
        return "empty", ""
    text = replace(envelope, body=body).text()
    if text is None and not is_whole:
        # The piece may end inside a character of several bytes.
        text = next((t for n in (1, 2, 3) if (t := replace(envelope, body=body[:-n]).text()) is not None), None)
    if text is None or "\0" in text:
        return "hex", _hex(body[:_HEX_BYTES])
    if is_whole and text.lstrip()[:1] in {"{", "["} and _is_json(text):
        return "json", indented(text)
    return ("xml" if text.lstrip().startswith("<") else "text"), text


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str) -> str:
    """Indented JSON with each value unchanged: numbers keep their digits, and repeated names stay."""
    pieces: list[str] = []
    depth = length = 0
    before = ""
    for found in _TOKEN.finditer(text):
        written = found[0]
        closes, is_first = written in _CLOSING, before in _OPENING
        depth -= closes
        if closes != is_first or before == ",":
            pieces.append("\n" + "  " * depth)
        pieces.append(": " if written == ":" else written)
        depth += written in _OPENING
        before = written
        length += len(written) + 2 * depth
        if length > 2 * MAX_CHARACTERS:
            break
    return "".join(pieces)


def _hex(body: bytes) -> str:
    lines = []
    for start in range(0, len(body), 16):
        row = body[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines)
