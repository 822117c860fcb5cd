"""What table hints and the isolation level ask of PostgreSQL's locks.

Source: "Table hints (Transact-SQL)". A shared lock is FOR KEY SHARE while it lasts for the statement and FOR SHARE when
it is held, an update lock FOR NO KEY UPDATE, an exclusive one FOR UPDATE, which is what PostgreSQL's DELETE takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser.nodes import Hint


@dataclass(slots=True)
class Locking:
    """How rows of one table source are locked: a FOR clause (or none), and a table lock before."""

    strength: str = ""
    wait: str = ""
    transient: bool = False
    table_mode: str = ""
    table_transient: bool = False
    nowait: bool = False

    def table_sql(self, pg: str) -> str:
        """The statement that locks the table ``pg``."""
        return f"LOCK TABLE {pg} IN {self.table_mode} MODE{' NOWAIT' if self.nowait else ''}"


def check_hints(hints: list[Hint], table: TableInfo, target: bool) -> set[str]:
    """The names of the hints, checked against each other and the table's indexes."""
    names = {hint.name for hint in hints}
    for hint in hints:
        for arg in hint.args:
            if not arg.isdigit() and table.type == "U" and not table.local:
                if fold(arg) not in {fold(index.name) for index in table.indexes}:
                    raise SqlError(
                        308,
                        f"Index '{arg}' on table '{table.schema}.{table.name}'"
                        " (specified in the FROM clause) does not exist.",
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
        raise SqlError(
            1065,
            "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of INSERT, UPDATE, DELETE or"
            " MERGE statements.",
            severity=15,
        )
    strict = names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "READCOMMITTED", "READCOMMITTEDLOCK", "SNAPSHOT"}
    if (loose and (strict or names & {"UPDLOCK", "XLOCK", "READPAST", "TABLOCKX"})) or (
        "READCOMMITTED" in names and names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "READCOMMITTEDLOCK"}
    ):
        raise SqlError(1047, "Conflicting locking hints specified.", severity=15)
    return names


def _check_readpast(names: set[str], isolation: str) -> None:
    """Msg 650 where READPAST is not allowed.

    SQL Server also wants READCOMMITTEDLOCK beside it where READ_COMMITTED_SNAPSHOT is ON. That option is OFF on a new
    database, and old endpoints' statements rely on it, so they are taken here.
    """
    level = isolation
    if names & {"HOLDLOCK", "SERIALIZABLE"}:
        level = "SERIALIZABLE"
    elif isolation != "SNAPSHOT":
        if names & {"READCOMMITTED", "READCOMMITTEDLOCK"}:
            level = "READ COMMITTED"
        elif "REPEATABLEREAD" in names:
            level = "REPEATABLE READ"
    if level not in ("READ COMMITTED", "REPEATABLE READ"):
        raise SqlError(
            650, "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels."
        )


def locking(hints: list[Hint], table: TableInfo, isolation: str, in_transaction: bool, target: bool) -> Locking:
    """The locks that reading ``table`` with ``hints`` takes. ``target``: the rows are about to be changed."""
    names = check_hints(hints, table, target)
    if "READPAST" in names:
        _check_readpast(names, isolation)
    result = Locking(nowait="NOWAIT" in names)
    if table.type != "U" or table.local:
        if target and not table.local:
            result.strength = "UPDATE"
        return result
    held = names & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"} or (
        isolation == "REPEATABLE READ"
        and in_transaction
        and not names & {"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK"}
    )
    if "XLOCK" in names:
        result.strength = "UPDATE"
    elif "UPDLOCK" in names:
        result.strength = "NO KEY UPDATE"
    elif target:
        result.strength = "UPDATE"
    elif held:
        result.strength = "SHARE"
    elif names & {"READPAST", "READCOMMITTEDLOCK"}:
        result.strength, result.transient = "KEY SHARE", True
    if result.strength:
        result.wait = " SKIP LOCKED" if "READPAST" in names else " NOWAIT" if "NOWAIT" in names else ""
    if "TABLOCKX" in names or ("TABLOCK" in names and names & {"XLOCK", "UPDLOCK"}):
        result.table_mode = "ACCESS EXCLUSIVE"
    elif names & {"HOLDLOCK", "SERIALIZABLE"}:
        # Key ranges cannot be locked: no other transaction may write to the table instead.
        result.table_mode = "SHARE ROW EXCLUSIVE" if target or names & {"UPDLOCK", "XLOCK"} else "SHARE"
    elif "TABLOCK" in names:
        result.table_mode, result.table_transient = ("EXCLUSIVE", False) if target else ("SHARE", not held)
    return result
