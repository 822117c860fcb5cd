"""Parsing of other data definition statements: indexes, views, schemas, databases; DROP of all."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import (
    IndexDefinition,
    Statement,
)
from fakemssql.tsql.parser.tables import Tables

_PARTS = {"TABLE": 3, "INDEX": 4, "SYNONYM": 3, "SCHEMA": 1, "DATABASE": 1}
"""How many parts a name to drop may have, where that is not two."""

_DATABASE_WORDS = {
    "DELAYED_DURABILITY": ("DISABLED", "ALLOWED", "FORCED"),
    "RECOVERY": ("FULL", "BULK_LOGGED", "SIMPLE"),
}


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
        if action == "REBUILD" and self.accept("PARTITION"):
            self.expect_op("=")
            if not self.accept("ALL"):
                raise SqlError(
                    7729,
                    "Cannot specify partition number in the ALTER INDEX statement as the index"
                    f" '{name or table[-1]}' is not partitioned.",
                    line=line,
                )
        if action == "SET":
            options = self._option_list(action)
        elif action in ("REBUILD", "REORGANIZE", "RESUME"):
            options = self.storage_options(action, places=False)
        else:
            options = {}
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
            if kind in ("TYPE", "STATISTICS", "CERTIFICATE", "APPLICATION", "ASSEMBLY", "SEQUENCE", "DEFAULT", "RULE"):
                self.unsupported(f"DROP {kind}")
            self.fail(self.peek(-1))
        drop = nodes.Drop(kind, [], self.accept("IF", "EXISTS"), line=line)
        while True:
            name = self.name(_PARTS.get(kind, 2))
            if kind == "INDEX":
                if self.accept("ON"):
                    drop.table = self.name()
                    self.storage_options("DROP INDEX", places=False)
                elif len(name) > 1:
                    drop.table, name = name[:-1], name[-1:]
                else:
                    self.fail()
            drop.names.append(name)
            if kind == "TRIGGER" and self.upper == "ON":
                self.unsupported("A DDL trigger")
            if kind == "SCHEMA" or not self.accept_op(","):
                return drop

    def create_view(self, mode: str) -> Statement:
        line = self.expect("VIEW").line
        name = self.name(2)
        columns = self.column_list() if self.is_op("(") else []
        if self.accept("WITH"):
            while True:
                if not self.accept_any("SCHEMABINDING", "VIEW_METADATA", "ENCRYPTION"):
                    self.fail()
                if not self.accept_op(","):
                    break
        self.expect("AS")
        ctes = self.with_clause()
        query = self.nested_query()
        query.ctes = ctes
        if self.accept("WITH"):
            self.unsupported("WITH CHECK OPTION")
        self._alone()
        return nodes.CreateView(name, columns, query, mode, line=line)

    def _alone(self) -> None:
        """The end of a batch that has one statement."""
        while self.accept_op(";"):
            pass
        if self.token.kind != lexer.END:
            self.fail()

    def create_schema(self) -> nodes.CreateSchema:
        line = self.expect("SCHEMA").line
        name = "" if self.upper == "AUTHORIZATION" else self.identifier()
        owner = None
        if self.accept("AUTHORIZATION"):
            owner = self.identifier()
            name = name or owner
        if self.upper in ("CREATE", "GRANT", "DENY", "REVOKE"):
            self.unsupported("What CREATE SCHEMA makes in the schema")
        self._alone()
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
        if self.upper in ("COLLATE", "MODIFY", "ADD", "REMOVE"):
            self.unsupported(f"ALTER DATABASE ... {self.upper}")
        self.expect("SET")
        option = self.next().upper
        words = [option]
        if option in ("READ_COMMITTED_SNAPSHOT", "ALLOW_SNAPSHOT_ISOLATION"):
            words.append("ON" if self.switch() else "OFF")
        elif option in _DATABASE_WORDS:
            if option != "RECOVERY":
                self.expect_op("=")
            words.append(self.accept_any(*_DATABASE_WORDS[option]) or self.fail())
        elif option == "COMPATIBILITY_LEVEL":
            self.expect_op("=")
            words.append(str(self.integer()))
        elif option != "MULTI_USER":
            if not option:
                self.fail(self.peek(-1))
            self.unsupported(f"ALTER DATABASE ... SET {option}", self.peek(-1))
        if self.is_op(","):
            self.unsupported("ALTER DATABASE ... SET of several options")
        if self.accept("WITH"):
            self._termination()
        return nodes.AlterDatabase(name, words, line=line)

    def _termination(self) -> None:
        if self.accept("NO_WAIT") or self.accept("ROLLBACK", "IMMEDIATE"):
            return
        self.expect("ROLLBACK")
        self.expect("AFTER")
        self.integer()
        self.accept("SECONDS")

    def create_synonym(self) -> nodes.CreateSynonym:
        line = self.expect("SYNONYM").line if self.upper == "SYNONYM" else self.next().line
        name = self.name(2)
        self.expect("FOR")
        return nodes.CreateSynonym(name, self.name(), line=line)

    def first_in_batch(self, line: int, what: str) -> SqlError:
        return SqlError(111, f"'{what}' must be the first statement in a query batch.", severity=15, line=line)
