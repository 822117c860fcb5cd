"""Parsing of other data definition statements: indexes, views, schemas, databases; DROP of all."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import (
    IndexDefinition,
    Statement,
)
from fakemssql.tsql.parser.tables import Tables


class Definitions(Tables):
    """Adds CREATE, ALTER and DROP of other objects."""

    def create_index(self) -> IndexDefinition:
        line = self.token.line
        unique = self.accept("UNIQUE")
        clustered = self.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
        if self.upper in ("COLUMNSTORE", "XML", "SPATIAL"):
            self.unsupported(f"A {self.token.value} index")
        self.expect("INDEX")
        index = IndexDefinition(self.identifier(), (), [], unique, clustered, line=line)
        self.expect("ON")
        index.table = self.name()
        index.columns = self.key_columns()
        self._index_tail(index)
        return index

    def alter_index(self) -> nodes.AlterIndex:
        line = self.expect("INDEX").line
        name = None if self.accept("ALL") else self.identifier()
        self.expect("ON")
        table = self.name()
        action = self.next().upper
        if action not in ("DISABLE", "REBUILD", "REORGANIZE", "SET", "RESUME", "PAUSE", "ABORT"):
            self.fail(self.peek(-1))
        if self.accept("PARTITION"):
            self.expect_op("=")
            if not self.accept("ALL"):
                raise SqlError(
                    7729,
                    "Cannot specify partition number in the ALTER INDEX statement as the index"
                    f" '{name or table[-1]}' is not partitioned.",
                    line=line,
                )
        options = self._option_list() if action == "SET" else self.storage_options()
        return nodes.AlterIndex(name, table, action.lower(), options, line=line)

    def drop(self) -> nodes.Drop:
        line = self.expect("DROP").line
        kind = self.next().upper
        if kind == "PROC":
            kind = "PROCEDURE"
        known = (
            "TABLE",
            "INDEX",
            "VIEW",
            "PROCEDURE",
            "SCHEMA",
            "DATABASE",
            "SYNONYM",
            "TRIGGER",
            "FUNCTION",
        )
        if kind not in known:
            if kind in ("TYPE", "STATISTICS", "CERTIFICATE", "APPLICATION", "ASSEMBLY", "SEQUENCE"):
                self.unsupported(f"DROP {kind}")
            self.fail(self.peek(-1))
        drop = nodes.Drop(kind, [], self.accept("IF", "EXISTS"), line=line)
        while True:
            name = self.name()
            if kind == "INDEX":
                if self.accept("ON"):
                    drop.table = self.name()
                elif len(name) > 1:
                    drop.table, name = name[:-1], name[-1:]
                else:
                    self.fail()
                self.storage_options()
            drop.names.append(name)
            if not self.accept_op(","):
                return drop

    def create_view(self, mode: str) -> Statement:
        line = self.expect("VIEW").line
        name = self.name()
        columns = self.column_list() if self.is_op("(") else []
        if self.accept("WITH"):
            while self.accept_any("SCHEMABINDING", "VIEW_METADATA", "ENCRYPTION"):
                self.accept_op(",")
        self.expect("AS")
        query = self.query()
        if self.accept("WITH"):
            self.unsupported("WITH CHECK OPTION")
        return nodes.CreateView(name, columns, query, mode, line=line)

    def create_schema(self) -> nodes.CreateSchema:
        line = self.expect("SCHEMA").line
        name = "" if self.upper == "AUTHORIZATION" else self.identifier()
        owner = None
        if self.accept("AUTHORIZATION"):
            owner = self.identifier()
            name = name or owner
        return nodes.CreateSchema(name, owner, line=line)

    def create_database(self) -> nodes.CreateDatabase:
        line = self.expect("DATABASE").line
        name = self.identifier()
        if self.upper in ("ON", "LOG", "FOR", "AS", "CONTAINMENT", "WITH"):
            self.unsupported("A file, snapshot or containment option of CREATE DATABASE")
        if self.accept("COLLATE"):
            self.identifier()
        return nodes.CreateDatabase(name, line=line)

    def alter_database(self) -> nodes.AlterDatabase:
        line = self.expect("DATABASE").line
        name = "" if self.accept("CURRENT") else self.identifier()
        self.expect("SET")
        words = []
        while self.token.kind in (lexer.WORD, lexer.OPERATOR, lexer.NUMBER) and not self.is_op(";"):
            words.append(str(self.next().value).upper())
        return nodes.AlterDatabase(name, words, line=line)

    def create_synonym(self) -> nodes.CreateSynonym:
        line = self.expect("SYNONYM").line if self.upper == "SYNONYM" else self.next().line
        name = self.name()
        self.expect("FOR")
        return nodes.CreateSynonym(name, self.name(), line=line)

    def first_in_batch(self, line: int, kind: str) -> SqlError:
        return SqlError(111, f"'CREATE {kind}' must be the first statement in a query batch.", severity=15, line=line)
