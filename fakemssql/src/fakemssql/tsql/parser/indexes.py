"""Parsing of indexes and of the options of indexes and tables ("CREATE INDEX", "ALTER INDEX", "index_option")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.expressions import condition
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import (
    Binary,
    Cast,
    Column,
    Expr,
    In,
    IndexDefinition,
    IsNull,
    KeyColumn,
    Literal,
    Unary,
)
from fakemssql.tsql.parser.parser import Parser

_KEPT = frozenset(
    [
        *("PAD_INDEX", "FILLFACTOR", "IGNORE_DUP_KEY", "STATISTICS_NORECOMPUTE", "ALLOW_ROW_LOCKS"),
        *("ALLOW_PAGE_LOCKS", "OPTIMIZE_FOR_SEQUENTIAL_KEY", "DATA_COMPRESSION"),
    ]
)
_BUILDING = frozenset(["SORT_IN_TEMPDB", "ONLINE", "MAXDOP"])

_OPTIONS = {
    "CREATE INDEX": _KEPT | _BUILDING | {"DROP_EXISTING"},
    "REBUILD": _KEPT | _BUILDING,
    "REORGANIZE": {"LOB_COMPACTION"},
    "SET": _KEPT - {"PAD_INDEX", "FILLFACTOR", "DATA_COMPRESSION"},
    "RESUME": {"MAXDOP"},
    "CREATE TABLE": {"DATA_COMPRESSION"},
    "CREATE TABLE key": _KEPT,
    "ALTER TABLE key": _KEPT | _BUILDING,
    "ALTER COLUMN": {"ONLINE"},
    "DROP INDEX": {"ONLINE", "MAXDOP", "MOVE"},
}
"""The options that each statement takes ("CREATE INDEX", "ALTER INDEX", "ALTER TABLE index_option", "DROP INDEX")."""

_UNSUPPORTED = (
    *("MEMORY_OPTIMIZED", "SYSTEM_VERSIONING", "LEDGER", "DURABILITY", "BUCKET_COUNT", "RESUMABLE", "MAX_DURATION"),
    *("WAIT_AT_LOW_PRIORITY", "XML_COMPRESSION", "COMPRESSION_DELAY", "COMPRESS_ALL_ROW_GROUPS"),
    "STATISTICS_INCREMENTAL",
)


def storage_options(p: Parser, statement: str, *, places: bool = True) -> dict[str, str]:
    """``WITH (...)`` and, with ``places``, ``ON filegroup``: options of storage, which change no result."""
    options: dict[str, str] = {}
    table = statement == "CREATE TABLE"
    if places and table:
        _filegroups(p, "ON", "TEXTIMAGE_ON", "FILESTREAM_ON")
    if p.upper == "WITH" and p.peek().value == "(":
        p.next()
        options = option_list(p, statement)
    elif p.upper == "WITH" and p.peek().upper in ("FILLFACTOR", "PAD_INDEX", "DROP_EXISTING") and places:
        p.next()
        name = p.next().upper
        if name != "FILLFACTOR":
            p.unsupported(f"WITH {name} without parentheses", p.peek(-1))
        p.expect_op("=")
        options[name] = _option_number(p, name)
    if places and not table:
        _filegroups(p, "ON", "FILESTREAM_ON")
    return options


def _filegroups(p: Parser, *words: str) -> None:
    for word in words:
        if not p.accept(word):
            continue
        if p.is_string():
            p.next()
            continue
        p.identifier()
        if p.is_op("("):
            p.unsupported("Partitioning")


def option_list(p: Parser, statement: str) -> dict[str, str]:
    options: dict[str, str] = {}
    p.expect_op("(")
    while True:
        token = p.next()
        name = token.upper
        if name in _UNSUPPORTED:
            p.unsupported(name, token)
        if name not in _OPTIONS[statement]:
            p.fail(token)
        if name == "MOVE":
            p.expect("TO")
            p.identifier()
        else:
            p.expect_op("=")
            options[name] = _option_value(p, name)
        if name == "IGNORE_DUP_KEY" and options[name] == "ON":
            p.unsupported("IGNORE_DUP_KEY = ON", token)
        if p.accept_op(")"):
            return options
        p.expect_op(",")


def _option_value(p: Parser, name: str) -> str:
    if name in ("FILLFACTOR", "MAXDOP"):
        return _option_number(p, name)
    if name == "DATA_COMPRESSION":
        value = p.expect_any("NONE", "ROW", "PAGE")
        if p.upper == "ON":
            p.unsupported("Partitioning")
        return value
    on = p.switch()
    if name == "ONLINE" and on and p.is_op("("):
        p.unsupported("WAIT_AT_LOW_PRIORITY")
    return "ON" if on else "OFF"


def _option_number(p: Parser, name: str) -> str:
    line, number = p.token.line, p.digits()
    if name == "FILLFACTOR" and int(number) > 100:
        raise syntax_error(
            129, f"Fillfactor {number} is not a valid percentage; fillfactor must be between 1 and 100.", line=line
        )
    return number


def key_columns(p: Parser) -> list[KeyColumn]:
    return p.list_in_parentheses(_key_column)


def _key_column(p: Parser) -> KeyColumn:
    return KeyColumn(p.identifier(), p.accept_any("ASC", "DESC") == "DESC")


def index_tail(p: Parser, index: IndexDefinition) -> None:
    if p.accept("INCLUDE"):
        index.include = p.column_list()
    if p.accept("WHERE"):
        mark = p.index
        index.where = condition(p)
        index.where_text = p.source_text(mark)
        if not _is_filter(index.where):
            raise syntax_error(
                10735,
                f"Incorrect WHERE clause for filtered index '{index.name}' on table '{'.'.join(index.table)}'.",
                line=index.line,
            )
    index.options = storage_options(p, "CREATE INDEX")


def _is_filter(node: Expr) -> bool:
    """Return whether a condition is one that a filtered index may have.

    That is ``column comparison constant``, ``column IN (constants)`` or ``column IS [NOT] NULL``, or several with AND.
    """
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


def create_index(p: Parser) -> nodes.IndexDefinition:
    line = p.token.line
    unique = p.accept("UNIQUE")
    clustered = p.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
    if p.upper in ("COLUMNSTORE", "XML", "SPATIAL"):
        p.unsupported(f"A {p.token.value} index")
    p.expect("INDEX")
    index = nodes.IndexDefinition(p.identifier(), (), [], unique, clustered, line=line)
    p.expect("ON")
    index.table = p.name()
    index.columns = key_columns(p)
    index_tail(p, index)
    return index


def alter_index(p: Parser) -> nodes.AlterIndex:
    line = p.expect("INDEX").line
    name = None if p.accept("ALL") else p.identifier()
    p.expect("ON")
    table = p.name()
    action = p.next().upper
    if action not in ("DISABLE", "REBUILD", "REORGANIZE", "SET", "RESUME", "PAUSE", "ABORT"):
        p.fail(p.peek(-1))
    if action == "REBUILD" and p.accept("PARTITION"):
        p.expect_op("=")
        if not p.accept("ALL"):
            raise SqlError(
                7729,
                f"Cannot specify partition number in the ALTER INDEX statement as the index '{name or table[-1]}' is"
                " not partitioned.",
                line=line,
            )
    if action == "SET":
        options = option_list(p, action)
    elif action in ("REBUILD", "REORGANIZE", "RESUME"):
        options = storage_options(p, action, places=False)
    else:
        options = {}
    return nodes.AlterIndex(name, table, action.lower(), options, line=line)
