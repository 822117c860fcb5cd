"""Parsing of tables: columns and inline indexes ("CREATE TABLE", "ALTER TABLE")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.constraints import Constraints
from fakemssql.tsql.parser.nodes import (
    ColumnDefinition,
    Constraint,
    IndexDefinition,
    KeyColumn,
)


class Tables(Constraints):
    """Adds CREATE TABLE and ALTER TABLE."""

    def create_table(self) -> nodes.CreateTable:
        line = self.expect("TABLE").line
        name = self.name(3)
        if self.accept("AS"):
            self.unsupported("CREATE TABLE AS")
        table = nodes.CreateTable(name, [], [], [], line=line)
        self.table_elements(table)
        table.options = self.storage_options("CREATE TABLE")
        return table

    def table_elements(self, table: nodes.CreateTable, *, variable: bool = False) -> None:
        """``(column, constraint, ...)``; constraints of a table ``variable`` have no names and refer to no table."""
        self.expect_op("(")
        while True:
            start = self.index
            self.table_element(table.columns, table.constraints, table.indexes, table.name)
            if variable:
                for token in self.tokens[start : self.index]:
                    if token.upper in ("CONSTRAINT", "REFERENCES"):
                        self.fail(token)
            if self.accept_op(","):
                if not variable and self.accept_op(")"):
                    return
                continue
            self.expect_op(")")
            return

    def table_element(
        self,
        columns: list[ColumnDefinition],
        constraints: list[Constraint],
        indexes: list[IndexDefinition],
        table: nodes.Name,
    ) -> None:
        if self.upper == "INDEX" or (self.upper == "PERIOD"):
            if self.upper == "PERIOD":
                self.unsupported("PERIOD FOR SYSTEM_TIME")
            indexes.append(self._inline_index(table, []))
            return
        constraint = self.constraint(None)
        if constraint is not None:
            constraints.append(constraint)
            self._one_primary(constraints, table)
            return
        try:
            columns.append(self.column(constraints, indexes, table))
        except SqlError as error:
            if error.number == 2715:
                error.message = error.message.replace("#1", f"#{len(columns) + 1}")
            raise
        self._one_primary(constraints, table)

    @staticmethod
    def _one_primary(constraints: list[Constraint], table: nodes.Name) -> None:
        if sum(constraint.kind == "primary" for constraint in constraints) > 1:
            raise SqlError(8110, f"Cannot add multiple PRIMARY KEY constraints to table '{table[-1]}'.", state=0)

    def _inline_index(self, table: nodes.Name, columns: list[KeyColumn]) -> IndexDefinition:
        line = self.expect("INDEX").line
        index = IndexDefinition(self.identifier(), table, columns, line=line)
        index.unique = self.accept("UNIQUE")
        index.clustered = self.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
        if self.upper == "COLUMNSTORE":
            self.unsupported("A columnstore index")
        if self.is_op("("):
            index.columns = self.key_columns()
        self._index_tail(index)
        return index

    def column(
        self, constraints: list[Constraint], indexes: list[IndexDefinition], table: nodes.Name
    ) -> ColumnDefinition:
        column = ColumnDefinition(self.identifier(), None)
        if self.accept("AS"):
            mark = self.index
            expression = self.expression()
            column.computed = (expression, self.source_text(mark))
            column.persisted = self.accept("PERSISTED")
        else:
            column.type = self.type()
        seen: set[str] = set()
        while True:
            if self.upper == "CONSTRAINT" and self.peek(2).upper in ("NULL", "NOT"):
                self.next()
                self.identifier()
            word = self.upper
            if word in ("IDENTITY", "COLLATE", "ROWGUIDCOL", "SPARSE", "DEFAULT"):
                if word in seen or column.computed is not None:
                    self.fail()
                seen.add(word)
            if word == "NULL" and column.computed is None:
                self.next()
                column.nullable = True
            elif word == "NOT" and (column.computed is None or column.persisted):
                self.next()
                self.expect("NULL")
                column.nullable = False
            elif word == "IDENTITY":
                self.next()
                column.identity = (1, 1)
                if self.accept_op("("):
                    seed = self.integer()
                    self.expect_op(",")
                    column.identity = (seed, self.integer())
                    self.expect_op(")")
                if self.accept("NOT", "FOR"):
                    self.expect("REPLICATION")
            elif word == "COLLATE":
                self.next()
                column.collation = self.identifier()
            elif word == "ROWGUIDCOL":
                self.next()
                column.rowguid = True
            elif word in ("SPARSE", "FILESTREAM", "GENERATED", "MASKED", "ENCRYPTED", "HIDDEN"):
                if word == "SPARSE":
                    self.next()
                    continue
                self.unsupported(f"The column option {word}")
            elif word == "INDEX":
                indexes.append(self._inline_index(table, [KeyColumn(column.name)]))
            else:
                constraint = self.constraint(column)
                if constraint is None:
                    return column
                if constraint.kind == "default":
                    if column.default is not None or column.computed is not None:
                        self.fail(self.peek(-1))
                    assert constraint.expression is not None
                    column.default = (constraint.name, constraint.expression, constraint.text)
                else:
                    if constraint.kind in ("foreign", "check") and column.computed is not None and not column.persisted:
                        self.fail(self.peek(-1))
                    constraints.append(constraint)

    def _altered_column(self) -> ColumnDefinition:
        column = ColumnDefinition(self.identifier(), self.type())
        if self.accept("COLLATE"):
            column.collation = self.identifier()
        if self.accept("NOT"):
            self.expect("NULL")
            column.nullable = False
        elif self.accept("NULL"):
            column.nullable = True
        if self.upper in ("SPARSE", "MASKED", "ENCRYPTED"):
            self.unsupported(f"The column option {self.upper}")
        return column

    def alter_table(self) -> nodes.AlterTable:
        line = self.expect("TABLE").line
        alter = nodes.AlterTable(self.name(3), "", line=line)
        if self.accept("WITH"):
            if not self.accept_any("CHECK", "NOCHECK"):
                self.fail()
            if self.upper not in ("ADD", "CHECK", "NOCHECK"):
                self.fail()
        if self.accept("ADD"):
            alter.action, self.adding = "add", True
            while True:
                self.table_element(alter.columns, alter.constraints, alter.indexes, alter.name)
                if not self.accept_op(","):
                    break
            self.adding = False
        elif self.accept("ALTER"):
            self.expect("COLUMN")
            alter.action = "alter"
            if self.peek().upper in ("ADD", "DROP"):
                self.unsupported("ALTER COLUMN ... ADD and DROP")
            alter.columns.append(self._altered_column())
            self.storage_options("ALTER COLUMN", places=False)
        elif self.accept("DROP"):
            alter.action = "drop"
            kind = "CONSTRAINT"
            while True:
                if self.upper in ("COLUMN", "CONSTRAINT"):
                    kind = self.next().upper
                exists = self.peek(-1).upper == kind and self.accept("IF", "EXISTS")
                alter.names.append((kind, self.identifier(), exists))
                if kind == "CONSTRAINT":
                    self.storage_options("DROP INDEX", places=False)
                if not self.accept_op(","):
                    break
        elif self.upper in ("CHECK", "NOCHECK") and self.peek().upper == "CONSTRAINT":
            self.unsupported("ALTER TABLE ... CHECK and NOCHECK CONSTRAINT")
        elif self.upper in ("ENABLE", "DISABLE") and self.peek().upper == "TRIGGER":
            alter.action = self.next().upper.lower() + "_trigger"
            self.next()
            alter.names.append(("TRIGGER", "" if self.accept("ALL") else self.identifier(), False))
        elif self.accept("SET"):
            alter.action = "options"
            self.expect_op("(")
            option = self.next()
            if option.upper != "LOCK_ESCALATION":
                self.unsupported(f"ALTER TABLE ... SET ({option.value})", option)
            self.expect_op("=")
            alter.options[option.upper] = self.accept_any("AUTO", "TABLE", "DISABLE") or self.fail()
            self.expect_op(")")
        elif self.accept("REBUILD"):
            alter.action, alter.rebuilds = "options", True
            if self.accept("PARTITION"):
                self.expect_op("=")
                if not self.accept("ALL"):
                    self.unsupported("Partitioning")
            alter.options = self.storage_options("REBUILD", places=False)
        else:
            self.unsupported(f"ALTER TABLE ... {self.token.value}")
        return alter
