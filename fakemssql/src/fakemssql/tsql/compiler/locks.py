"""Row and table locks of PostgreSQL for table hints and isolation levels.

Source: "Table hints (Transact-SQL)", "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)".

A shared lock is FOR KEY SHARE. An update lock is FOR NO KEY UPDATE, which is compatible with FOR KEY SHARE. An
exclusive lock is FOR UPDATE, as PostgreSQL's DELETE takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Hint


@dataclass(slots=True)
class Locking:
    """Locks of one table source: a FOR clause or none, and a table lock before it."""

    strength: str = ""
    wait: str = ""
    transient: bool = False
    table_mode: str = ""
    table_transient: bool = False
    nowait: bool = False

    def table_sql(self, pg: str) -> str:
        """Return the statement that locks the table ``pg``."""
        return f"LOCK TABLE {pg} IN {self.table_mode} MODE{' NOWAIT' if self.nowait else ''}"


_SIZES = {"PAGLOCK", "ROWLOCK", "TABLOCK", "TABLOCKX"}
"""Hints that exclude each other. READCOMMITTEDLOCK is documented as one of them, but goes with ROWLOCK."""


def check_hints(hints: list[Hint], table: TableInfo, target: bool) -> set[str]:
    """Return the names of the hints. Raises errors for conflicting hints and for indexes that do not exist."""
    names = {hint.name for hint in hints}
    for hint in hints:
        for arg in hint.args:
            if not arg.isdigit() and table.type == "U" and not table.local:
                if fold(arg) not in {fold(index.name) for index in table.indexes}:
                    raise SqlError(
                        308,
                        f"Index '{arg}' on table '{table.schema}.{table.name}' (specified in the FROM clause) does not"
                        " exist.",
                    )
                if any(index.disabled and fold(index.name) == fold(arg) for index in table.indexes):
                    raise SqlError(
                        315,
                        f'Index "{arg}" on table "{table.schema}.{table.name}"'
                        " (specified in the FROM clause) is disabled"
                        " or resides in a filegroup which is not online.",
                    )
    loose = names & {"NOLOCK", "READUNCOMMITTED"}
    if loose and target:
        raise syntax_error(
            1065,
            "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of INSERT, UPDATE, DELETE or"
            " MERGE statements.",
        )
    strict = names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "READCOMMITTED", "READCOMMITTEDLOCK", "SNAPSHOT"}
    sizes = names & _SIZES
    if (
        (loose and (strict or names & {"UPDLOCK", "XLOCK", "READPAST", "TABLOCKX"}))
        or ("READCOMMITTED" in names and names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "READCOMMITTEDLOCK"})
        or len(sizes) > 1
        or ("READCOMMITTEDLOCK" in names and sizes - {"ROWLOCK"})
    ):
        raise syntax_error(1047, "Conflicting locking hints specified.")
    return names


@dataclass(frozen=True, slots=True)
class Reading:
    """Conditions, other than hints, under which a table source takes locks.

    ``versioned``: READ_COMMITTED_SNAPSHOT is ON in the table's database; ``snapshots``: ALLOW_SNAPSHOT_ISOLATION is.
    ``target``: the rows are about to be changed. ``bare``: locks may be taken without a hint. ``pages``: see
    :class:`fakemssql.switches.Switches`.
    """

    isolation: str
    in_transaction: bool
    versioned: bool
    snapshots: bool = True
    pages: bool = False
    target: bool = False
    bare: bool = False


_LOCKING = frozenset(("READCOMMITTEDLOCK", "REPEATABLEREAD", "UPDLOCK", "XLOCK", "TABLOCK", "TABLOCKX"))
"""Hints that take locks, so that READPAST is allowed whatever READ_COMMITTED_SNAPSHOT is."""

_LEVELS = {
    "HOLDLOCK": "SERIALIZABLE",
    "SERIALIZABLE": "SERIALIZABLE",
    "REPEATABLEREAD": "REPEATABLE READ",
    "READCOMMITTED": "READ COMMITTED",
    "READCOMMITTEDLOCK": "READ COMMITTED",
    "NOLOCK": "READ UNCOMMITTED",
    "READUNCOMMITTED": "READ UNCOMMITTED",
    "SNAPSHOT": "SNAPSHOT",
}
"""Hints that name an isolation level, the strictest first."""


def _level(names: set[str], isolation: str) -> str:
    """Return the isolation level at which a source is read: that of its hints, else that of the session."""
    return next((level for name, level in _LEVELS.items() if name in names), isolation)


def _check_readpast(names: set[str], reading: Reading) -> None:
    """Raise error 650 if READPAST is not allowed."""
    level = _level(names, reading.isolation)
    unlocked = level == "READ COMMITTED" and reading.versioned and not reading.target and not names & _LOCKING
    if reading.isolation == "SNAPSHOT":
        refused = not names & {*_LOCKING, "HOLDLOCK", "SERIALIZABLE"}
    else:
        refused = unlocked or level not in ("READ COMMITTED", "REPEATABLE READ")
    if refused:
        raise SqlError(
            650, "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels."
        )


def is_dirty(hints: list[Hint], isolation: str) -> bool:
    """Return whether rows are read uncommitted, without locks and versions."""
    names = {hint.name for hint in hints}
    locked = names & {"READCOMMITTED", "HOLDLOCK", "SERIALIZABLE", "XLOCK", *_LOCKING}
    return bool(names & {"NOLOCK", "READUNCOMMITTED"}) or (isolation == "READ UNCOMMITTED" and not locked)


def locking(hints: list[Hint], table: TableInfo, reading: Reading) -> Locking:
    """Return the locks that a read of ``table`` with ``hints`` takes."""
    target = reading.target
    names = check_hints(hints, table, target)
    if "READPAST" in names:
        _check_readpast(names, reading)
    result = Locking(nowait="NOWAIT" in names)
    if table.type != "U" or table.local:
        if target and not table.local:
            result.strength = "UPDATE"
        return result
    level = _level(names, reading.isolation)
    if level == "SNAPSHOT" and not reading.snapshots:
        raise SqlError(
            3952,
            f"Snapshot isolation transaction failed accessing database '{table.database}' because snapshot isolation"
            " is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
        )
    serial = level == "SERIALIZABLE"
    if names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"}:
        held = True
    else:
        held = (level == "REPEATABLE READ" and reading.in_transaction) or (serial and reading.bare)
    if "XLOCK" in names:
        result.strength = "UPDATE"
    elif target:
        # SQL Server reads with update locks first, so READPAST does not skip rows that others only read.
        result.strength = "NO KEY UPDATE" if "READPAST" in names else "UPDATE"
    elif "UPDLOCK" in names:
        result.strength = "NO KEY UPDATE"
    elif held:
        result.strength = "KEY SHARE"
    elif names & {"READPAST", "READCOMMITTEDLOCK"} or (reading.bare and _reads_with_locks(names, reading)):
        result.strength, result.transient = "KEY SHARE", True
    if result.strength:
        # READPAST waits for a page that has rows locked by others.
        pages = "PAGLOCK" in names or (reading.pages and "ROWLOCK" not in names)
        result.wait = " SKIP LOCKED" if "READPAST" in names and not pages else " NOWAIT" if "NOWAIT" in names else ""
    if "TABLOCKX" in names or ("TABLOCK" in names and names & {"XLOCK", "UPDLOCK"}):
        result.table_mode = "EXCLUSIVE"
    elif serial:
        # PostgreSQL cannot lock ranges of keys: lock the table against writers instead.
        result.table_mode = "SHARE ROW EXCLUSIVE" if target or names & {"UPDLOCK", "XLOCK"} else "SHARE"
    elif "TABLOCK" in names:
        result.table_mode, result.table_transient = ("EXCLUSIVE", False) if target else ("SHARE", not held)
    return result


def _reads_with_locks(names: set[str], reading: Reading) -> bool:
    """Return whether a read without a hint takes shared locks while it reads."""
    level = _level(names, reading.isolation)
    return level == "REPEATABLE READ" or (level == "READ COMMITTED" and not reading.versioned)
