"""Parsing of constraints, keys and index options."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.modifications import Modifications
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

_KEPT = frozenset(
    [
        *("PAD_INDEX", "FILLFACTOR", "IGNORE_DUP_KEY", "STATISTICS_NORECOMPUTE", "STATISTICS_INCREMENTAL"),
        *("ALLOW_ROW_LOCKS", "ALLOW_PAGE_LOCKS", "OPTIMIZE_FOR_SEQUENTIAL_KEY", "DATA_COMPRESSION", "XML_COMPRESSION"),
    ]
)
_BUILDING = frozenset(["SORT_IN_TEMPDB", "ONLINE", "MAXDOP", "RESUMABLE", "MAX_DURATION"])

_OPTIONS = {
    "CREATE INDEX": _KEPT | _BUILDING | {"DROP_EXISTING"},
    "REBUILD": _KEPT | _BUILDING,
    "REORGANIZE": {"LOB_COMPACTION", "COMPRESS_ALL_ROW_GROUPS"},
    "SET": {
        *("ALLOW_ROW_LOCKS", "ALLOW_PAGE_LOCKS", "OPTIMIZE_FOR_SEQUENTIAL_KEY"),
        *("IGNORE_DUP_KEY", "STATISTICS_NORECOMPUTE", "COMPRESSION_DELAY"),
    },
    "RESUME": {"MAXDOP", "MAX_DURATION", "WAIT_AT_LOW_PRIORITY"},
    "CREATE TABLE": {"DATA_COMPRESSION", "XML_COMPRESSION"},
    "CREATE TABLE key": _KEPT,
    "ALTER TABLE key": _KEPT | _BUILDING,
    "ALTER COLUMN": {"ONLINE"},
    "DROP INDEX": {"ONLINE", "MAXDOP", "MOVE"},
}
"""The options that each statement takes ("CREATE INDEX", "ALTER INDEX", "ALTER TABLE index_option", "DROP INDEX")."""

_UNSUPPORTED = ("MEMORY_OPTIMIZED", "SYSTEM_VERSIONING", "LEDGER", "DURABILITY", "BUCKET_COUNT")
_NUMBERS = ("FILLFACTOR", "MAXDOP", "MAX_DURATION", "COMPRESSION_DELAY")
_WORDS = {
    "DATA_COMPRESSION": ("NONE", "ROW", "PAGE"),
    "MAX_DURATION": ("MINUTES",),
    "COMPRESSION_DELAY": ("MINUTES",),
    "ABORT_AFTER_WAIT": ("NONE", "SELF", "BLOCKERS"),
}


class Constraints(Modifications):
    """Adds constraints and index options."""

    def storage_options(self, statement: str, *, places: bool = True) -> dict[str, str]:
        """``WITH (...)`` and, with ``places``, ``ON filegroup``: how data is stored, which no result depends on."""
        options: dict[str, str] = {}
        table = statement == "CREATE TABLE"
        if places and table:
            self._filegroups("ON", "TEXTIMAGE_ON", "FILESTREAM_ON")
        if self.upper == "WITH" and self.peek().value == "(":
            self.next()
            options = self._option_list(statement)
        elif self.upper == "WITH" and self.peek().upper in ("FILLFACTOR", "PAD_INDEX", "DROP_EXISTING") and places:
            self.next()
            name = self.next().upper
            if name != "FILLFACTOR":
                self.unsupported(f"WITH {name} without parentheses", self.peek(-1))
            self.expect_op("=")
            options[name] = self._option_number(name)
        if places and not table:
            self._filegroups("ON", "FILESTREAM_ON")
        return options

    def _filegroups(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                continue
            if self.token.kind in (lexer.STRING, lexer.NSTRING):
                self.next()
                continue
            self.identifier()
            if self.is_op("("):
                self.unsupported("Partitioning")

    def _option_list(self, statement: str) -> dict[str, str]:
        options: dict[str, str] = {}
        self.expect_op("(")
        while True:
            token = self.next()
            name = token.upper
            if name in _UNSUPPORTED:
                self.unsupported(name, token)
            if name not in _OPTIONS[statement]:
                self.fail(token)
            if name == "MOVE":
                self.expect("TO")
                self.identifier()
            elif name == "WAIT_AT_LOW_PRIORITY":
                self._low_priority()
            else:
                self.expect_op("=")
                options[name] = self._option_value(name)
            if name == "IGNORE_DUP_KEY" and options[name] == "ON":
                self.unsupported("IGNORE_DUP_KEY = ON", token)
            if self.accept_op(")"):
                return options
            self.expect_op(",")

    def _option_value(self, name: str) -> str:
        if name in _NUMBERS:
            return self._option_number(name)
        if name in _WORDS:
            value = self.accept_any(*_WORDS[name]) or self.fail()
            if self.upper == "ON":
                self.unsupported("Partitioning")
            return value
        on = self.switch()
        if name == "ONLINE" and on and self.accept_op("("):
            self.expect("WAIT_AT_LOW_PRIORITY")
            self._low_priority()
            self.expect_op(")")
        return "ON" if on else "OFF"

    def _option_number(self, name: str) -> str:
        token = self.next()
        if token.kind != lexer.NUMBER or not token.value.isdigit():
            self.fail(token)
        if name == "FILLFACTOR" and int(token.value) > 100:
            raise SqlError(
                129,
                f"Fillfactor {token.value} is not a valid percentage; fillfactor must be between 1 and 100.",
                severity=15,
                line=token.line,
            )
        if name in _WORDS:
            self.accept_any(*_WORDS[name])
        return str(token.value)

    def _low_priority(self) -> None:
        """``(MAX_DURATION = 1 MINUTES, ABORT_AFTER_WAIT = SELF)``."""
        self.expect_op("(")
        self.expect("MAX_DURATION")
        self.expect_op("=")
        self._option_number("MAX_DURATION")
        self.expect_op(",")
        self.expect("ABORT_AFTER_WAIT")
        self.expect_op("=")
        self._option_value("ABORT_AFTER_WAIT")
        self.expect_op(")")

    def key_columns(self) -> list[KeyColumn]:
        self.expect_op("(")
        columns = []
        while True:
            name = self.identifier()
            columns.append(KeyColumn(name, self.accept_any("ASC", "DESC") == "DESC"))
            if self.accept_op(")"):
                return columns
            self.expect_op(",")

    def constraint(self, column: ColumnDefinition | None) -> Constraint | None:
        """A column's or a table's constraint, or None if none starts here."""
        name = ""
        if self.accept("CONSTRAINT"):
            name = self.identifier()
        word = self.upper
        own = [KeyColumn(column.name)] if column else []
        if word == "DEFAULT" and (column is not None or self.adding):
            self.next()
            mark = self.index
            expression = self.expression()
            text = self.source_text(mark)
            found = Constraint("default", name, own, expression=expression, text=text)
            if column is None:
                self.expect("FOR")
                found.columns = [KeyColumn(self.identifier())]
            if self.adding and self.accept("WITH"):
                self.expect("VALUES")
            return found
        if word in ("PRIMARY", "UNIQUE"):
            self.next()
            if word == "PRIMARY":
                self.expect("KEY")
            found = Constraint(word.lower(), name, own)
            clustering = self.accept_any("CLUSTERED", "NONCLUSTERED")
            found.clustered = None if not clustering else clustering == "CLUSTERED"
            if self.upper == "HASH":
                self.unsupported("A hash index")
            if self.is_op("("):
                found.columns = self.key_columns()
            elif column is None:
                self.fail()
            found.options = self.storage_options("ALTER TABLE key" if self.adding else "CREATE TABLE key")
            return found
        if word in ("FOREIGN", "REFERENCES"):
            return self._foreign(name, own)
        if word == "CHECK":
            self.next()
            if self.accept("NOT"):
                self.expect("FOR", "REPLICATION")
            self.expect_op("(")
            mark = self.index
            condition = self.condition()
            text = self.source_text(mark)
            self.expect_op(")")
            return Constraint("check", name, own, expression=condition, text=text)
        if name:
            self.fail()
        return None

    def _foreign(self, name: str, own: list[KeyColumn]) -> Constraint:
        found = Constraint("foreign", name, own)
        if self.accept("FOREIGN"):
            self.expect("KEY")
            if self.is_op("("):
                found.columns = self.key_columns()
        self.expect("REFERENCES")
        found.reference = self.name()
        if self.is_op("("):
            found.reference_columns = self.column_list()
        seen: set[str] = set()
        while self.upper in ("ON", "NOT"):
            if self.accept("NOT"):
                self.expect("FOR", "REPLICATION")
                break
            event = self.peek().upper
            if event not in ("DELETE", "UPDATE"):
                break
            self.next()
            if event in seen:
                self.fail()
            seen.add(self.next().upper)
            if self.accept("SET"):
                action = "SET " + ("NULL" if self.accept("NULL") else self.expect("DEFAULT").upper)
            elif self.accept("CASCADE"):
                action = "CASCADE"
            elif self.accept("NO"):
                if self.next().upper != "ACTION":
                    self.fail(self.peek(-1))
                action = "NO ACTION"
            else:
                self.fail()
            if event == "DELETE":
                found.on_delete = action
            else:
                found.on_update = action
        return found

    def _index_tail(self, index: IndexDefinition) -> None:
        if self.accept("INCLUDE"):
            index.include = self.column_list()
        if self.accept("WHERE"):
            mark = self.index
            index.where = self.condition()
            index.where_text = self.source_text(mark)
            if not _is_filter(index.where):
                raise SqlError(
                    10735,
                    f"Incorrect WHERE clause for filtered index '{index.name}' on table '{'.'.join(index.table)}'.",
                    severity=15,
                    line=index.line,
                )
        index.options = self.storage_options("CREATE INDEX")


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
