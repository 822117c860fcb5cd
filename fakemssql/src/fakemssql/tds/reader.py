"""Reader of the fields of a request, in order and without copies."""

from __future__ import annotations

import struct

_PLP_NULL = 0xFFFFFFFFFFFFFFFF
_SHORT, _LONG, _LONGLONG = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")


class Truncated(ValueError):
    """A request ends before the length that it announces."""


class Reader:
    """Position in the data of a message. Every method raises :class:`Truncated` at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)
        self._end = len(data)
        self.position = 0

    @property
    def left(self) -> int:
        return self._end - self.position

    def has_next(self, separators: frozenset[int]) -> bool:
        """Return whether there is a next byte that is not a separator."""
        return self.position < self._end and self._view[self.position] not in separators

    def take(self, size: int) -> memoryview:
        start = self.position
        end = start + size
        if end > self._end:
            raise Truncated
        self.position = end
        return self._view[start:end]

    def _number(self, form: struct.Struct) -> int:
        # No slice of the view, for speed: a bulk insert has thousands of numbers.
        start = self.position
        try:
            number: int = form.unpack_from(self._view, start)[0]
        except struct.error as error:
            raise Truncated from error
        self.position = start + form.size
        return number

    def byte(self) -> int:
        position = self.position
        if position >= self._end:
            raise Truncated
        self.position = position + 1
        return self._view[position]

    def short(self) -> int:
        return self._number(_SHORT)

    def long(self) -> int:
        return self._number(_LONG)

    def longlong(self) -> int:
        return self._number(_LONGLONG)

    def b_varchar(self) -> str:
        size = self.byte()
        return str(self.take(2 * size), "utf-16-le", "surrogatepass") if size else ""

    def us_varchar(self) -> str:
        return str(self.take(2 * self.short()), "utf-16-le", "surrogatepass")

    def rest(self) -> memoryview:
        return self.take(self.left)

    def plp(self) -> memoryview | None:
        """Read a partially length-prefixed value (MS-TDS 2.2.5.2.3) of any total length; None for NULL."""
        if self.longlong() == _PLP_NULL:
            return None
        parts: list[memoryview] = []
        while size := self.long():
            parts.append(self.take(size))
        if len(parts) == 1:
            return parts[0]
        return memoryview(b"".join(parts))
