"""Data types of SQL Server: the declared type of a column, a variable or a parameter.

The engine decides how PostgreSQL stores a type, the TDS front how it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX = -1
"""Length of ``varchar(max)``, ``nvarchar(max)`` and ``varbinary(max)``."""


@dataclass(frozen=True)
class SqlType:
    """A declared type: its lower-case base name and, where the type has them, length, precision and scale.

    ``length`` counts characters for the character types (UTF-16 units for the ``n`` ones) and bytes for the binary
    ones; :data:`MAX` is ``max``. ``scale`` is the number of fraction digits of ``decimal``, ``time``,
    ``datetime2`` and ``datetimeoffset``.
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        # Types are parts of keys: the key of a bulk insert's plan has thousands of them.
        object.__setattr__(self, "_hash", hash((self.name, self.length, self.precision, self.scale)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    @property
    def is_string(self) -> bool:
        return self.name in {"char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml", "sysname"}

    @property
    def is_binary(self) -> bool:
        return self.name in {"binary", "varbinary", "image", "timestamp"}

    def __str__(self) -> str:
        if self.length is not None:
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        if self.precision is not None:
            return f"{self.name}({self.precision},{self.scale or 0})"
        if self.scale is not None:
            return f"{self.name}({self.scale})"
        return self.name
