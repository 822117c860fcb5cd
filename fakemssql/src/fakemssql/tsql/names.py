"""Names of T-SQL as names of PostgreSQL, and texts as literals of PostgreSQL."""

from __future__ import annotations

import hashlib

from fakemssql.text import to_pg

_SYSTEM_COLUMNS = frozenset(["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])


def fold(name: str) -> str:
    """Fold a name as it is compared: without case and without trailing blanks."""
    return name.rstrip(" ").lower()


def pg_name(name: str) -> str:
    """Return the PostgreSQL name for ``name``: folded, or with a hash if it is longer than 58 bytes."""
    folded = to_pg(fold(name)).decode()
    if len(folded.encode()) <= 58 and folded not in _SYSTEM_COLUMNS and not folded.startswith("_"):
        return folded
    digest = hashlib.sha256(folded.encode()).hexdigest()[:24]
    return folded.encode()[:30].decode(errors="ignore").lstrip("_") + "~" + digest


def quoted(name: str) -> str:
    """Return a quoted PostgreSQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a PostgreSQL text literal (``standard_conforming_strings`` is on)."""
    return "'" + to_pg(text).decode().replace("'", "''") + "'"


def bracketed(name: str) -> str:
    """Return a name in the brackets of T-SQL."""
    return "[" + name.replace("]", "]]") + "]"
