"""Parsing of constraints, keys and index options."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.modifications import Modifications
from fakemssql.tsql.parser.nodes import (
    ColumnDefinition,
    Constraint,
    IndexDefinition,
    KeyColumn,
)

_INDEX_OPTIONS = frozenset(
    [
        "PAD_INDEX",
        "FILLFACTOR",
        "SORT_IN_TEMPDB",
        "STATISTICS_NORECOMPUTE",
        "STATISTICS_INCREMENTAL",
        "DROP_EXISTING",
        "ONLINE",
        "RESUMABLE",
        "MAX_DURATION",
        "ALLOW_ROW_LOCKS",
        "ALLOW_PAGE_LOCKS",
        "OPTIMIZE_FOR_SEQUENTIAL_KEY",
        "MAXDOP",
        "DATA_COMPRESSION",
        "XML_COMPRESSION",
        "WAIT_AT_LOW_PRIORITY",
        "LOB_COMPACTION",
        "COMPRESS_ALL_ROW_GROUPS",
        "COMPRESSION_DELAY",
        "IGNORE_DUP_KEY",
    ]
)


class Constraints(Modifications):
    """Adds constraints and index options."""

    def storage_options(self) -> dict[str, str]:
        """``WITH (...)`` and ``ON filegroup``: where and how data is stored, which no result depends on."""
        options: dict[str, str] = {}
        while True:
            if self.upper == "WITH" and self.peek().value == "(":
                self.next()
                options.update(self._option_list())
            elif self.upper == "WITH" and self.peek().upper == "FILLFACTOR":
                self.next()
                self.next()
                self.expect_op("=")
                options["FILLFACTOR"] = str(self.integer())
            elif self.accept("ON") or self.accept_any("TEXTIMAGE_ON", "FILESTREAM_ON"):
                if self.token.kind in (lexer.STRING, lexer.NSTRING) or (
                    self.token.kind == lexer.WORD and self.upper == "DEFAULT"
                ):
                    self.next()
                else:
                    self.identifier()
                    if self.is_op("("):
                        self.unsupported("Partitioning")
            else:
                return options

    def _option_list(self) -> dict[str, str]:
        options: dict[str, str] = {}
        self.expect_op("(")
        while True:
            token = self.next()
            if token.upper == "MOVE" and self.accept("TO"):
                self.identifier()
                if self.accept_op(")"):
                    return options
                self.expect_op(",")
                continue
            if token.upper not in _INDEX_OPTIONS:
                if token.upper in ("MEMORY_OPTIMIZED", "SYSTEM_VERSIONING", "LEDGER", "DURABILITY", "BUCKET_COUNT"):
                    self.unsupported(token.upper, token)
                self.fail(token)
            self.accept_op("=")
            value = self.next()
            if self.is_op("("):
                self.skip_parentheses()
            if self.accept("ON"):
                self.unsupported("Partitioning")
            self.accept("MINUTES")
            options[token.upper] = str(value.value).upper()
            if token.upper == "IGNORE_DUP_KEY" and options[token.upper] == "ON":
                self.unsupported("IGNORE_DUP_KEY = ON", token)
            if self.accept_op(")"):
                return options
            self.expect_op(",")

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
        if word == "DEFAULT" and (column is not None or name or self.peek().value == "("):
            self.next()
            mark = self.index
            expression = self.expression()
            text = self.source_text(mark)
            found = Constraint("default", name, own, expression=expression, text=text)
            if column is None:
                self.expect("FOR")
                found.columns = [KeyColumn(self.identifier())]
                if self.accept("WITH"):
                    self.expect("VALUES")
            elif self.accept("WITH"):
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
            found.options = self.storage_options()
            return found
        if word in ("FOREIGN", "REFERENCES"):
            return self._foreign(name, own)
        if word == "CHECK":
            self.next()
            if self.accept("NOT"):
                self.expect("FOR", "REPLICATION")
            self.expect_op("(")
            mark = self.index
            condition = self.predicate()
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
        while self.upper in ("ON", "NOT"):
            if self.accept("NOT"):
                self.expect("FOR", "REPLICATION")
                continue
            if self.peek().upper not in ("DELETE", "UPDATE"):
                break
            self.next()
            event = self.next().upper
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
            index.where = self.predicate()
            index.where_text = self.source_text(mark)
        index.options = self.storage_options()
