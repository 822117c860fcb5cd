# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling INSERT."""

from __future__ import annotations

from dataclasses import replace

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.compiler.locks import check_hints, locking
from fakemssql.tsql.compiler.outputs import Outputs, shown
from fakemssql.tsql.compiler.plan import MADE, Plan
from fakemssql.tsql.compiler.typed import Names
from fakemssql.tsql.datatypes.sqltypes import BIGINT
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes


class Inserts(Outputs):
    """Compiles INSERT."""

    def insert(self, node: nodes.Insert) -> Plan:
        self.statement = "insert"
        parent = self.with_ctes(node.ctes, None)
        table = self.lookup(node.target, node.line)
        self.env.require(table, "INSERT")
        if shown(node.outputs):
            self.env.require(table, "SELECT")
        base = table
        if table.type == "V":
            table, base = self._view_target(table)
        self._check_target(table, node.outputs, "INSERT")
        check_hints(node.hints, table, True)
        reading = self.reading(table, True)
        if reading.isolation == "SERIALIZABLE":
            # An INSERT locks no range but the key that it inserts.
            reading = replace(reading, isolation="READ COMMITTED")
        how = locking(
            [h for h in node.hints if h.name in ("TABLOCK", "TABLOCKX", "HOLDLOCK", "SERIALIZABLE", "XLOCK", "NOWAIT")],
            table,
            reading,
        )
        if how.table_mode:
            self.table_locks.append((how.table_sql(table.pg), False))
        explicit = [self._writable(table, name, False) for name in node.columns]
        if len({column.pg for column in explicit}) != len(explicit):
            name = next(c.name for c in explicit if [d.pg for d in explicit].count(c.pg) > 1)
            raise SqlError(
                264,
                f"The column name '{name}' is specified more than once in the SET clause or column list of an INSERT.",
            )
        columns = explicit or [c for c in table.columns if c.computed is None and not c.identity]
        identity = table.identity
        if identity is not None:
            if identity in explicit and not self._identity_on(table) and node.source is not None:
                self._refuse_identity(table)
            if self._identity_on(table) and identity not in explicit:
                if not explicit:
                    raise SqlError(
                        8101,
                        "An explicit value for the identity column in table"
                        f" '{table.full_name}' can only be specified when a"
                        " column list is used and IDENTITY_INSERT is ON.",
                    )
                raise SqlError(
                    545,
                    f"Explicit value must be specified for identity column in table '{table.name}' either"
                    " when IDENTITY_INSERT is set to ON or when a replication user"
                    " is inserting into a NOT FOR REPLICATION identity column.",
                )
        target = f"INSERT INTO {table.pg} AS d ({', '.join(quoted(c.pg) for c in columns)})"
        if node.source is None:
            change = f"INSERT INTO {table.pg} AS d DEFAULT VALUES"
        elif isinstance(node.source, nodes.Execute):
            raise SqlError(40517, "INSERT ... EXECUTE is not supported by fakemssql.")
        elif isinstance(node.source.body, nodes.Values) and node.top is None:
            change = f"{target} VALUES {self._value_rows(node.source.body, table, columns, parent, bool(explicit))}"
        else:
            change = f"{target} {self._insert_query(node, node.source, table, columns, parent)}"
        scope = self.table_scope(table, "inserted", "d")
        names = Names([scope])
        given = identity is not None and self._identity_on(table) and not node.outputs
        extra = [f"d.{quoted(identity.pg)}::int8"] if identity is not None and given else []
        plan = self._with_outputs(
            change, node.outputs, names, extra, identity=base if base.identity else None, table=base
        )
        plan.assign = [(MADE, BIGINT)] if given else []
        return plan

    def _value_rows(
        self,
        values: nodes.Values,
        table: TableInfo,
        columns: list[ColumnInfo],
        parent: Names | None,
        explicit: bool,
    ) -> str:
        rows = []
        if len({len(row) for row in values.rows}) > 1:
            raise SqlError(
                10709, "The number of columns for each row in a table value constructor must be the same.", severity=15
            )
        if not explicit and len(values.rows[0]) != len(columns):
            raise SqlError(213, "Column name or number of supplied values does not match table definition.")
        for row in values.rows:
            if len(row) != len(columns):
                if len(row) > len(columns):
                    raise SqlError(
                        110,
                        "There are fewer columns in the INSERT statement than values specified in the VALUES"
                        " clause. The number of values in the VALUES clause must match"
                        " the number of columns specified in the INSERT statement.",
                        severity=15,
                    )
                raise SqlError(
                    109,
                    "There are more columns in the INSERT statement than values specified in the VALUES"
                    " clause. The number of values in the VALUES clause must match"
                    " the number of columns specified in the INSERT statement.",
                    severity=15,
                )
            cells = []
            for node, column in zip(row, columns, strict=True):
                if isinstance(node, nodes.Literal) and node.kind == "default":
                    cells.append("DEFAULT")
                else:
                    cells.append(self.to_column(self.scalar(node, Names([], parent)), table, column))
            rows.append(f"({', '.join(cells)})")
        return ", ".join(rows)

    def _insert_query(
        self, node: nodes.Insert, query: nodes.Query, table: TableInfo, columns: list[ColumnInfo], parent: Names | None
    ) -> str:
        if node.top is not None and isinstance(query.body, nodes.Select) and query.body.top is None:
            query.body.top = node.top
        self.depth -= 1
        compiled = self.compile_query(query, parent)
        self.depth += 1
        if len(compiled.columns) != len(columns):
            if not node.columns:
                raise SqlError(213, "Column name or number of supplied values does not match table definition.")
            number, word = (121, "more") if len(compiled.columns) > len(columns) else (120, "fewer")
            raise SqlError(
                number,
                f"The select list for the INSERT statement contains {word} items than the insert"
                " list. The number of SELECT values must match the number of INSERT columns.",
            )
        cells = [
            self.to_column(value.with_(sql=f"s.c{i}", constant=None), table, column)
            for i, (value, column) in enumerate(zip(compiled.columns, columns, strict=True), 1)
        ]
        return f"SELECT {', '.join(cells)} FROM ({compiled.sql}) AS s"
