"""Conversion of text between SQL Server (any UTF-16 code units) and PostgreSQL (UTF-8, no NUL or lone surrogates).

Characters that PostgreSQL cannot hold are moved into the last 2,049 code points of Unicode, a private use area: U+0000
becomes U+10F7FF and the lone surrogate U+D800+i becomes U+10F800+i. The way back reverses it. Only text that uses those
private code points comes back changed. ``varchar`` is Windows code page 1252: a byte without a character is the
control character of the same number, and a character outside the page becomes ``?``, one for each UTF-16 unit.
"""

from __future__ import annotations

import codecs
import re

_NUL = "\U0010f7ff"
_SURROGATE_SHIFT = 0x10F800 - 0xD800
_MOVED = re.compile("[\U0010f7ff-\U0010ffff]")
_MOVED_UTF8_START = b"\xf4\x8f"
"""First two bytes of U+10F000 and above in UTF-8: a value without them has no moved characters."""

_UNDEFINED_1252 = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))


def to_pg(text: str) -> bytes:
    """UTF-8 for PostgreSQL. Never fails: NUL and lone surrogates are moved (see the module)."""
    if "\0" not in text:
        try:
            return text.encode()
        except UnicodeEncodeError:
            # Two surrogates joined from two strings are one character, as on SQL Server.
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text.replace("\0", _NUL).encode("utf-8", "fakemssql.surrogates")


def from_pg(data: bytes) -> str:
    """Return the text of a value in PostgreSQL's UTF-8; reverses :func:`to_pg`."""
    text = data.decode()
    if _MOVED_UTF8_START in data:
        text = _MOVED.sub(_restore, text)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def utf16_from_pg(data: bytes) -> bytes:
    """UTF-16LE, the form of ``nvarchar`` in TDS, of a value in PostgreSQL's UTF-8."""
    if _MOVED_UTF8_START in data:
        return _MOVED.sub(_restore, data.decode()).encode("utf-16-le", "surrogatepass")
    return data.decode().encode("utf-16-le")


def cp1252_from_pg(data: bytes) -> bytes:
    """Code page 1252, the form of ``varchar`` in TDS, of a value in PostgreSQL's UTF-8."""
    return data if data.isascii() else to_cp1252(from_pg(data))


def to_cp1252(text: str) -> bytes:
    """Code page 1252 of a text, with ``?`` for characters outside of it."""
    return text.encode("cp1252", "fakemssql.cp1252")


def from_cp1252(data: bytes | memoryview) -> str:
    """Return the text of a ``varchar`` in code page 1252."""
    data = bytes(data)
    return data.decode("ascii") if data.isascii() else data.decode("cp1252", "fakemssql.cp1252")


def _restore(match: re.Match[str]) -> str:
    found = match[0]
    return "\0" if found == _NUL else chr(ord(found) - _SURROGATE_SHIFT)


def _move_surrogates(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(chr(ord(char) + _SURROGATE_SHIFT) for char in found).encode(), error.end


def _handle_1252(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return "".join(map(chr, error.object[error.start : error.end])), error.end
    if isinstance(error, UnicodeEncodeError):
        found = map(ord, error.object[error.start : error.end])
        replaced = (bytes((c,)) if c in _UNDEFINED_1252 else b"??" if c > 0xFFFF else b"?" for c in found)
        return b"".join(replaced), error.end
    raise error


codecs.register_error("fakemssql.surrogates", _move_surrogates)
codecs.register_error("fakemssql.cp1252", _handle_1252)
