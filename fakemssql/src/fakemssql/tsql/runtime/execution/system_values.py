"""Values of @@variables and of functions of the session."""

from __future__ import annotations

import operator
from typing import Any

from fakemssql.contract import SERVER_VERSION
from fakemssql.tsql.compiler.functions.system import VERSION
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.state import identity_value
from fakemssql.types import SqlType

_VERSION_TEXT = (
    f"Microsoft SQL Server 2022 (RTM) - {VERSION} (X64) compatible:"
    " this is fakemssql, T-SQL translated"
    " for an embedded PostgreSQL 18"
)


_COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COUNTS = ("@@trancount", "@@rowcount", "@@error")


def system_value(session: Session, name: str, frame: Frame) -> Any:
    """Return the value of ``@@name``, or of a session function, which is compiled to such a name."""
    options, account = session.options, session.security.account
    if name == "@@db_id":
        entry = session.catalog.database(session.database)
        return entry[0] if entry else 0
    if name in ("@@user", "@@user_id"):
        identity = session.security.identity(session.database)
        return identity.name if name == "@@user" else identity.user_id
    if name in ("@@identity", "@@scope_identity"):
        return identity_value(session.pg, session.identity if name == "@@identity" else session.scope_identity)
    if name.startswith("@@error_"):
        error = None
        level: Frame | None = frame
        while level is not None and error is None:
            error = level.caught[-1] if level.caught else None
            level = level.parent
        if error is None:
            return None
        error = error.then or error
        return {
            "@@error_number": error.number,
            "@@error_message": error.message,
            "@@error_severity": error.severity,
            "@@error_state": error.state,
            "@@error_line": error.line,
            "@@error_procedure": error.procedure or None,
        }[name]
    simple = {
        "@@login": account.name,
        "@@original_login": account.name,
        "@@login_id": account.login_id,
        "@@rowcount": session.rowcount,
        "@@error": session.error_number,
        "@@trancount": session.transaction_count,
        "@@xact_state": session.transactions.state(),
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
        "@@microsoftversion": SERVER_VERSION[0] << 24 | SERVER_VERSION[2],
        "@@textsize": options.textsize,
        "@@dbts": bytes(8),
        "@@cpu_busy": 0,
        "@@connections": 1,
        "@@cursor_rows": 0,
        "@@timeticks": 31250,
        "@@app_name": session.activity.client.program,
        "@@host_name": session.activity.client.host,
        "@@transaction_id": (session.spid << 32) + session.transaction_descriptor,
        "@@nestlevel": _depth(frame),
    }
    return simple[name]


def _depth(frame: Frame) -> int:
    depth, level = 0, frame.parent
    while level is not None:
        depth, level = depth + 1, level.parent
    return depth


def quick_value(node: nodes.Expr, kind: SqlType | None, frame: Frame) -> tuple[SqlType, bytes | None] | None:
    """Return the value of a literal or variable that needs neither conversion nor PostgreSQL; None for other
    expressions.
    """
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


def quick_condition(session: Session, node: nodes.Expr, frame: Frame) -> bool | None:
    """Return the truth of a comparison of integers, such as ``@@TRANCOUNT = 0``, which needs no PostgreSQL; None for
    other conditions.
    """
    if not isinstance(node, nodes.Binary) or node.op not in _COMPARISONS:
        return None
    left, right = (_integer(session, side, frame) for side in (node.left, node.right))
    return None if left is None or right is None else _COMPARISONS[node.op](left, right)


def _integer(session: Session, node: nodes.Expr, frame: Frame) -> int | None:
    if isinstance(node, nodes.Literal) and node.kind == "int":
        return int(node.value)
    if not isinstance(node, nodes.Variable):
        return None
    if node.name in _COUNTS:
        return int(system_value(session, node.name, frame))
    kind = frame.types.get(node.name)
    value = frame.values[node.name] if kind is not None and kind.name in ("int", "bigint") else None
    return None if kind is None or value is None else int(decode(kind, value))
