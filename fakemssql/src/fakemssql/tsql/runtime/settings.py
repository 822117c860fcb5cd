"""SET options, and the values of @@variables and session functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.functions.system import VERSION
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame, Identity
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import OBJECT
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session

ISOLATION_BY_NUMBER = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
_BITS = {
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
_ANSI = (
    "ANSI_WARNINGS",
    "ANSI_PADDING",
    "ANSI_NULLS",
    "QUOTED_IDENTIFIER",
    "ANSI_NULL_DFLT_ON",
    "CONCAT_NULL_YIELDS_NULL",
    "ARITHABORT",
)
_PRIORITIES = {"LOW": -5, "NORMAL": 0, "HIGH": 5}
_NEEDED_ON = ("ANSI_WARNINGS", "ANSI_PADDING", "ANSI_NULLS", "CONCAT_NULL_YIELDS_NULL")
_VERSION_TEXT = (
    f"Microsoft SQL Server 2022 (RTM) - {VERSION} (X64) compatible:"
    " this is fakemssql, T-SQL translated"
    " for an embedded PostgreSQL 18"
)


@dataclass
class Options:
    """The SET options of a session, as the drivers of Microsoft start with."""

    on: set[str] = field(default_factory=lambda: set(_ANSI))
    isolation: str = "READ COMMITTED"
    lock_timeout: int = -1
    deadlock_priority: int = 0
    textsize: int = 2147483647
    context_info: bytes | None = None
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

    def bits(self) -> int:
        return sum(bit for name, bit in _BITS.items() if name in self.on)


def _switch(options: Options, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise SqlError(102, f"Incorrect syntax near '{name}'.", severity=15)
    if name == "ANSI_DEFAULTS":
        for each in (*_ANSI[:5], "IMPLICIT_TRANSACTIONS", "CURSOR_CLOSE_ON_COMMIT"):
            _switch(options, each, value)
        return
    if not value and name in _NEEDED_ON:
        raise SqlError(40517, f"SET {name} OFF is not supported by fakemssql.")
    if value and name in ("NUMERIC_ROUNDABORT", "ARITHIGNORE"):
        raise SqlError(40517, f"SET {name} ON is not supported by fakemssql.")
    if value:
        options.on.add(name)
    else:
        options.on.discard(name)


def set_option(session: Session, node: nodes.SetOption, frame: Frame) -> None:
    """Carry out SET for one or more options."""
    try:
        _set_options(session, node, frame)
    finally:
        session.activity.update(session)


def _set_options(session: Session, node: nodes.SetOption, frame: Frame) -> None:
    options = session.options
    for name in node.options:
        value = node.value
        if name == "ISOLATION":
            session.transactions.isolate(value)
        elif name == "IDENTITY_INSERT":
            _identity_insert(session, *value)
        elif name.startswith("STATISTICS "):
            continue
        elif name in _BITS or name == "ANSI_DEFAULTS":
            _switch(options, name, value)
        elif name == "LOCK_TIMEOUT":
            set_lock_timeout(session, _number(session, value, frame))
        elif name == "TEXTSIZE":
            size = _number(session, value, frame)
            options.textsize = size if size > 0 else 4096 if size == 0 else 2147483647
            if 0 < options.textsize < 2147483647 and size != 0:
                raise SqlError(40517, "SET TEXTSIZE below 2147483647 is not supported by fakemssql.")
        elif name == "ROWCOUNT":
            if _number(session, value, frame) != 0:
                raise SqlError(40517, "SET ROWCOUNT other than 0 is not supported by fakemssql.")
        elif name == "CONTEXT_INFO":
            options.context_info = session.evaluate(value, SqlType("varbinary", length=128), frame)[1]
        elif name == "FMTONLY":
            options.fmtonly = bool(value)
        elif name in (
            "NOEXEC",
            "PARSEONLY",
            "SHOWPLAN_TEXT",
            "SHOWPLAN_ALL",
            "SHOWPLAN_XML",
            "REMOTE_PROC_TRANSACTIONS",
            "OFFSETS",
        ):
            if value is True:
                raise SqlError(40517, f"SET {name} ON is not supported by fakemssql.")
        elif name in ("LANGUAGE", "DATEFORMAT", "DATEFIRST"):
            _only(session, name, value, frame)
        elif name == "DEADLOCK_PRIORITY":
            named = _PRIORITIES.get(str(value.value).upper()) if isinstance(value, nodes.Literal) else None
            options.deadlock_priority = _number(session, value, frame) if named is None else named
        elif name in ("QUERY_GOVERNOR_COST_LIMIT", "FORCEPLAN", "FIPS_FLAGGER"):
            continue
        else:
            raise SqlError(195, f"'{name}' is not a recognized SET option.", severity=15, state=5)


def _number(session: Session, value: Any, frame: Frame) -> int:
    return int(decode(SqlType("int"), session.evaluate(value, SqlType("int"), frame)[1]) or 0)


def _only(session: Session, name: str, value: Any, frame: Frame) -> None:
    allowed = {"LANGUAGE": ("us_english", "english"), "DATEFORMAT": ("mdy",), "DATEFIRST": ("7",)}[name]
    given = str(
        value.value
        if isinstance(value, nodes.Literal)
        else decode(SqlType("nvarchar", length=-1), session.evaluate(value, SqlType("nvarchar", length=-1), frame)[1])
    )
    if given.lower() not in allowed:
        raise SqlError(40517, f"SET {name} {given} is not supported by fakemssql.")


def set_lock_timeout(session: Session, milliseconds: int) -> None:
    """-1 waits for ever, 0 not at all (PostgreSQL's shortest wait is 1 ms)."""
    session.options.lock_timeout = max(milliseconds, -1)
    value = 0 if milliseconds < 0 else max(milliseconds, 1)
    session.pg.execute(f"SET lock_timeout = {value}")


def _identity_insert(session: Session, name: nodes.Name, on: bool) -> None:
    table = session.catalog.find(name, session.database)
    if table is None:
        raise SqlError(
            1088,
            f'Cannot find the object "{".".join(name)}" because it does not exist or you do not have permissions.',
            state=11,
        )
    if not table.local and not session.security.allowed(table.database, OBJECT, table.object_id, "ALTER"):
        raise errors.no_object(".".join(name), 11)
    if table.identity is None:
        raise SqlError(8106, f"Table '{table.name}' does not have the identity property. Cannot perform SET operation.")
    if on and session.identity_insert[0] not in ("", table.pg):
        raise SqlError(
            8107,
            "IDENTITY_INSERT is already ON for table"
            f" '{session.identity_insert[1]}'. Cannot perform SET operation for table"
            f" '{table.name}'.",
        )
    session.identity_insert = (table.pg, table.full_name) if on else ("", "")


def identity_value(session: Session, made: Identity | None) -> int | None:
    """The value of an identity that was made; it is read from PostgreSQL when it is first asked for."""
    if made is not None and made.value is None:
        rows = session.pg.query(
            # Another session may have dropped the table meanwhile, or made another one with its name.
            "SELECT mssql.attempt($1, format('currval(pg_get_serial_sequence($1, %L))', $2))",
            *made.sequence,
        )
        made.value = int(rows[0][0]) if rows and rows[0][0] is not None else None
    return made.value if made is not None else None


_WHO = frozenset(["@@user", "@@user_id", "@@login", "@@login_id", "@@original_login"])


def _who(session: Session, name: str) -> str | int | None:
    """What a function tells of the user or login as whom the session acts."""
    security = session.security
    if name == "@@original_login":
        return security.account.name
    if name == "@@login":
        return security.account.name
    if name == "@@login_id":
        return security.account.login_id or None
    identity = security.identity(session.database)
    return identity.name if name == "@@user" else identity.user_id


def system_value(session: Session, name: str, frame: Frame) -> Any:
    """The value of ``@@name`` or of what a session function asks for."""
    options, transactions = session.options, session.transactions
    if name == "@@db_id":
        entry = session.catalog.database(session.database)
        return entry[0] if entry else 0
    if name in _WHO:
        return _who(session, name)
    if name in ("@@identity", "@@scope_identity"):
        return identity_value(session, session.identity if name == "@@identity" else session.scope_identity)
    if name.startswith("@@error_"):
        error = None
        level: Frame | None = frame
        while level is not None and error is None:
            error = level.caught[-1] if level.caught else None
            level = level.parent
        if error is None:
            return None
        return {
            "@@error_number": error.number,
            "@@error_message": error.message,
            "@@error_severity": error.severity,
            "@@error_state": error.state,
            "@@error_line": error.line,
            "@@error_procedure": error.procedure or None,
        }[name]
    simple = {
        "@@rowcount": session.rowcount,
        "@@rowcount_big": session.rowcount,
        "@@error": session.error_number,
        "@@trancount": transactions.count,
        "@@xact_state": transactions.state(),
        "@@spid": session.spid % 32768,
        "@@options": options.bits(),
        "@@lock_timeout": options.lock_timeout,
        "@@version": _VERSION_TEXT,
        "@@servername": "fakemssql",
        "@@servicename": "MSSQLSERVER",
        "@@language": "us_english",
        "@@langid": 0,
        "@@datefirst": 7,
        "@@max_precision": 38,
        "@@max_connections": 32767,
        "@@procid": 0,
        "@@fetch_status": 0,
        "@@microsoftversion": 0x10001026,
        "@@textsize": options.textsize,
        "@@dbts": bytes(8),
        "@@cpu_busy": 0,
        "@@connections": 1,
        "@@cursor_rows": 0,
        "@@timeticks": 31250,
        "@@app_name": session.activity.client.program,
        "@@host_name": session.activity.client.host,
        "@@transaction_id": (session.spid << 32) + transactions.descriptor,
        "@@context_info": options.context_info,
        "@@nestlevel": _depth(frame),
    }
    return simple[name]


def _depth(frame: Frame) -> int:
    depth, level = 0, frame.parent
    while level is not None:
        depth, level = depth + 1, level.parent
    return depth


def quick_value(node: nodes.Expr, kind: SqlType | None, frame: Frame) -> tuple[SqlType, bytes | None] | None:
    """The value of a literal or variable that needs no conversion, without asking PostgreSQL."""
    if isinstance(node, nodes.Variable):
        own = frame.types.get(node.name)
        if own is not None and (kind is None or kind == own):
            return own, frame.values[node.name]
        return None
    if not isinstance(node, nodes.Literal) or kind is None:
        return None
    if node.kind == "null":
        return kind, None
    if node.kind == "int" and kind.name in ("int", "bigint"):
        return kind, encode(kind, node.value)
    if node.kind in ("varchar", "nvarchar") and kind.name in ("varchar", "nvarchar") and node.value.isascii():
        assert kind.length is not None
        if kind.length < 0 or len(node.value) <= kind.length:
            return kind, encode(kind, node.value)
    return None
