"""SET options of a session."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

ISOLATION_BY_NUMBER = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
BITS = {
    "IMPLICIT_TRANSACTIONS": 2,
    "CURSOR_CLOSE_ON_COMMIT": 4,
    "ANSI_WARNINGS": 8,
    "ANSI_PADDING": 16,
    "ANSI_NULLS": 32,
    "ARITHABORT": 64,
    "ARITHIGNORE": 128,
    "QUOTED_IDENTIFIER": 256,
    "NOCOUNT": 512,
    "ANSI_NULL_DFLT_ON": 1024,
    "ANSI_NULL_DFLT_OFF": 2048,
    "CONCAT_NULL_YIELDS_NULL": 4096,
    "NUMERIC_ROUNDABORT": 8192,
    "XACT_ABORT": 16384,
}
ANSI = (
    "ANSI_WARNINGS",
    "ANSI_PADDING",
    "ANSI_NULLS",
    "QUOTED_IDENTIFIER",
    "ANSI_NULL_DFLT_ON",
    "CONCAT_NULL_YIELDS_NULL",
    "ARITHABORT",
)


@dataclass
class Options:
    """SET options of a session; the defaults are those of Microsoft's drivers."""

    on: set[str] = field(default_factory=lambda: set(ANSI))
    isolation: str = "READ COMMITTED"
    lock_timeout: int = -1
    deadlock_priority: int = 0
    textsize: int = 2147483647
    fmtonly: bool = False

    @property
    def nocount(self) -> bool:
        return "NOCOUNT" in self.on

    @property
    def xact_abort(self) -> bool:
        return "XACT_ABORT" in self.on

    @property
    def quoted_identifier(self) -> bool:
        return "QUOTED_IDENTIFIER" in self.on

    @property
    def implicit(self) -> bool:
        return "IMPLICIT_TRANSACTIONS" in self.on

    def copy(self) -> Options:
        return replace(self, on=set(self.on))

    def to_bytes(self) -> bytes:
        """Return all options as bytes, for :meth:`of_bytes`."""
        return _to_bytes(**{**vars(self), "on": frozenset(self.on)})

    @classmethod
    def of_bytes(cls, data: bytes) -> Options:
        values = json.loads(data)
        return cls(**{**values, "on": set(values["on"])})

    def bits(self) -> int:
        return sum(bit for name, bit in BITS.items() if name in self.on)


@lru_cache
def _to_bytes(**values: Any) -> bytes:
    """Return options as bytes; cached, because each request compares them with the last ones."""
    return json.dumps({**values, "on": sorted(values["on"])}).encode()
