"""Parsing of constraints and of what indexes have: keys, and a filter."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.parser.expressions import condition, expression
from fakemssql.tsql.parser.index_options import storage_options
from fakemssql.tsql.parser.nodes import (
    Binary,
    Cast,
    Column,
    ColumnDefinition,
    Constraint,
    Expr,
    In,
    IndexDefinition,
    IsNull,
    KeyColumn,
    Literal,
    Unary,
)
from fakemssql.tsql.parser.parser import Parser


def key_columns(p: Parser) -> list[KeyColumn]:
    return p.list_in_parentheses(_key_column)


def _key_column(p: Parser) -> KeyColumn:
    return KeyColumn(p.identifier(), p.accept_any("ASC", "DESC") == "DESC")


def constraint(p: Parser, column: ColumnDefinition | None, *, adding: bool = False) -> Constraint | None:
    """A column's or a table's constraint, or None if none starts here; ``adding``: in ALTER TABLE ... ADD."""
    name = p.identifier() if p.accept("CONSTRAINT") else ""
    own = [KeyColumn(column.name)] if column else []
    rule = _RULES.get(p.upper)
    if rule is not None and (rule is not _default or own or adding):
        return rule(p, name, own, adding)
    if name:
        p.fail()
    return None


def _default(p: Parser, name: str, own: list[KeyColumn], adding: bool) -> Constraint:
    p.expect("DEFAULT")
    mark = p.index
    value = expression(p)
    found = Constraint("default", name, own, expression=value, text=p.source_text(mark))
    if not own:
        p.expect("FOR")
        found.columns = [KeyColumn(p.identifier())]
    if adding and p.accept("WITH"):
        p.expect("VALUES")
    return found


def _key(p: Parser, name: str, own: list[KeyColumn], adding: bool) -> Constraint:
    word = p.word()
    if word == "PRIMARY":
        p.expect("KEY")
    found = Constraint(word.lower(), name, own)
    clustering = p.accept_any("CLUSTERED", "NONCLUSTERED")
    found.clustered = None if not clustering else clustering == "CLUSTERED"
    if p.upper == "HASH":
        p.unsupported("A hash index")
    if p.is_op("("):
        found.columns = key_columns(p)
    elif not own:
        p.fail()
    found.options = storage_options(p, "ALTER TABLE key" if adding else "CREATE TABLE key")
    return found


def _check(p: Parser, name: str, own: list[KeyColumn], _: bool) -> Constraint:
    p.expect("CHECK")
    if p.accept("NOT"):
        p.expect("FOR", "REPLICATION")
    p.expect_op("(")
    mark = p.index
    checked = condition(p)
    text = p.source_text(mark)
    p.expect_op(")")
    return Constraint("check", name, own, expression=checked, text=text)


def _foreign(p: Parser, name: str, own: list[KeyColumn], _: bool) -> Constraint:
    found = Constraint("foreign", name, own)
    if p.accept("FOREIGN"):
        p.expect("KEY")
        if p.is_op("("):
            found.columns = key_columns(p)
    p.expect("REFERENCES")
    found.reference = p.name()
    if p.is_op("("):
        found.reference_columns = p.column_list()
    seen: set[str] = set()
    while p.upper in ("ON", "NOT"):
        if p.accept("NOT"):
            p.expect("FOR", "REPLICATION")
            break
        event = p.peek().upper
        if event not in ("DELETE", "UPDATE"):
            break
        p.next()
        if event in seen:
            p.fail()
        seen.add(p.next().upper)
        if event == "DELETE":
            found.on_delete = _referential_action(p)
        else:
            found.on_update = _referential_action(p)
    return found


def _referential_action(p: Parser) -> str:
    if p.accept("SET"):
        return "SET " + ("NULL" if p.accept("NULL") else p.expect("DEFAULT").upper)
    if p.accept("CASCADE"):
        return "CASCADE"
    p.expect("NO")
    if p.next().upper != "ACTION":
        p.fail(p.peek(-1))
    return "NO ACTION"


_RULES: dict[str, Callable[[Parser, str, list[KeyColumn], bool], Constraint]] = {
    **dict.fromkeys(["PRIMARY", "UNIQUE"], _key),
    **dict.fromkeys(["FOREIGN", "REFERENCES"], _foreign),
    "CHECK": _check,
    "DEFAULT": _default,
}
"""What reads a constraint, by its first word: its name, the column that it is on, and whether it is added are given."""


def index_tail(p: Parser, index: IndexDefinition) -> None:
    if p.accept("INCLUDE"):
        index.include = p.column_list()
    if p.accept("WHERE"):
        mark = p.index
        index.where = condition(p)
        index.where_text = p.source_text(mark)
        if not _is_filter(index.where):
            raise SqlError(
                10735,
                f"Incorrect WHERE clause for filtered index '{index.name}' on table '{'.'.join(index.table)}'.",
                severity=15,
                line=index.line,
            )
    index.options = storage_options(p, "CREATE INDEX")


def _is_filter(node: Expr) -> bool:
    """``column comparison constant``, ``column IN (constants)`` or ``column IS [NOT] NULL``, several with AND."""
    if isinstance(node, Binary) and node.op == "and":
        return _is_filter(node.left) and _is_filter(node.right)
    if isinstance(node, Binary):
        return isinstance(node.left, Column) and _is_constant(node.right)
    if isinstance(node, In):
        return isinstance(node.value, Column) and not node.negated and all(map(_is_constant, node.items or [node]))
    return isinstance(node, IsNull) and isinstance(node.value, Column)


def _is_constant(node: Expr) -> bool:
    if isinstance(node, Unary | Cast):
        node = node.value
    return isinstance(node, Literal)
