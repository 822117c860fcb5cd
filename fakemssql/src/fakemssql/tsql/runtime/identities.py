"""The identity values that a session made, for @@IDENTITY and SCOPE_IDENTITY()."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.tsql.pg import Pg


@dataclass
class MadeIdentity:
    """An identity value that was made: the sequence (table and column) it came from, and the value once it is read."""

    sequence: tuple[str, str]
    value: int | None = None


def identity_value(pg: Pg, made: MadeIdentity | None) -> int | None:
    """The value of an identity that was made; it is read from PostgreSQL when it is first asked for."""
    if made is not None and made.value is None:
        rows = pg.query(
            # Another session may have dropped the table meanwhile, or made another one with its name.
            "SELECT mssql.attempt($1, format('currval(pg_get_serial_sequence($1, %L))', $2))",
            *made.sequence,
        )
        made.value = int(rows[0][0]) if rows and rows[0][0] is not None else None
    return made.value if made is not None else None
