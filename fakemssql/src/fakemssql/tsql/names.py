"""How T-SQL names become PostgreSQL names, and texts become PostgreSQL literals."""

from __future__ import annotations

import hashlib

from fakemssql.text import to_pg

_SYSTEM_COLUMNS = frozenset(["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])


def fold(name: str) -> str:
    """Names compare without case, and trailing blanks do not count."""
    return name.rstrip(" ").lower()


def pg_name(name: str) -> str:
    """The PostgreSQL name for ``name``: folded, and by hash where 63 bytes do not suffice."""
    folded = to_pg(fold(name)).decode()
    if len(folded.encode()) <= 58 and folded not in _SYSTEM_COLUMNS and not folded.startswith("_"):
        return folded
    digest = hashlib.sha256(folded.encode()).hexdigest()[:24]
    return folded.encode()[:30].decode(errors="ignore").lstrip("_") + "~" + digest


def quoted(name: str) -> str:
    """A quoted PostgreSQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A PostgreSQL text literal (``standard_conforming_strings`` is on)."""
    return "'" + to_pg(text).decode().replace("'", "''") + "'"


def bracketed(name: str) -> str:
    """The name in T-SQL's brackets."""
    return "[" + name.replace("]", "]]") + "]"
