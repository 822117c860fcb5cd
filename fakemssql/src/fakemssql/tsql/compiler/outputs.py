# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling OUTPUT clauses: to the client and INTO a table."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.base_tables import lookup
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.order import output_sql
from fakemssql.tsql.compiler.plan import Plan, finish
from fakemssql.tsql.compiler.scalars import starred
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.compiler.targets import check_count, identity_on, listed, refuse_identity, to_column
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error


def shown(outputs: list[nodes.Output]) -> bool:
    """Return whether a statement has an OUTPUT clause other than those that collect rows for triggers."""
    return not all(map(collects, outputs))


def collects(output: nodes.Output) -> bool:
    """Return whether an OUTPUT clause collects rows for triggers."""
    return output.into is not None and output.into[0].startswith("@@")


def with_outputs(
    c: Compilation,
    change: str,
    outputs: list[nodes.Output],
    names: Names,
    extra: list[str],
    whole: Names | None = None,
    *,
    table: TableInfo,
    identity: TableInfo | None = None,
) -> Plan:
    """Attach OUTPUT clauses to ``change`` (a statement text without RETURNING).

    ``whole`` has every column of the table, for triggers; ``names`` has the columns that a CTE shows.
    """
    # A leading ``WITH m AS MATERIALIZED (...)`` must precede other items of WITH.
    prefix, _, change = change.rpartition("\x00")

    def plan(sql: str, columns: list[Typed] | None = None) -> Plan:
        return finish(c, sql, columns=columns, writes=True, table=table, identity=identity)

    if not outputs:
        returning = f" RETURNING {', '.join(extra)}" if extra else ""
        return plan(prefix + change + returning)
    lists = [_output_items(c, output, (whole or names) if collects(output) else names) for output in outputs]
    if len(outputs) == 1 and outputs[0].into is None:
        texts = [f"{output_sql(value)} AS c{i}" for i, value in enumerate(lists[0], 1)]
        return plan(f"{prefix}{change} RETURNING {', '.join(texts)}", lists[0])
    returned: list[str] = []
    for number, values in enumerate(lists):
        returned += [f"{output_sql(value)} AS o{number}_{i}" for i, value in enumerate(values, 1)]
    returned += [f"{value} AS e{i}" for i, value in enumerate(extra)]
    head = (prefix + ", " if prefix else "WITH ") + f"w AS ({change} RETURNING {', '.join(returned)})"
    inserts = []
    client: list[Typed] | None = None
    for number, (output, values) in enumerate(zip(outputs, lists, strict=True)):
        if output.into is None:
            client = values
            continue
        inserts.append(_into(c, output, values, number))
    if client is None and not extra and len(inserts) == 1:
        return plan(f"{head} {inserts[0]}")
    head += "".join(f", i{n} AS ({text})" for n, text in enumerate(inserts))
    number = next((n for n, output in enumerate(outputs) if output.into is None), len(outputs) - 1)
    final = ", ".join(
        [f"w.o{number}_{i} AS c{i}" for i in range(1, len(client or []) + 1)] + [f"w.e{i}" for i in range(len(extra))]
    )
    return plan(f"{head} SELECT {final} FROM w", client)


def _output_items(c: Compilation, output: nodes.Output, names: Names) -> list[Typed]:
    items = []
    for item in output.items:
        node = item.value
        if isinstance(node, nodes.Star):
            items += starred(names, node, bare=False)[0].columns
            continue
        if any(isinstance(each, nodes.Subquery | nodes.Exists) for each in walk([node])):
            raise syntax_error(10706, "Subqueries are not allowed in the OUTPUT clause.")
        value = c.scalar(node, names)
        items.append(
            value.with_(name=item.alias or (value.name if isinstance(node, nodes.Column) else ""), identity=False)
        )
    return items


def _into(c: Compilation, output: nodes.Output, values: list[Typed], number: int) -> str:
    assert output.into is not None
    table = lookup(c, output.into)
    c.env.require(table, "INSERT")
    if table.triggers:
        raise SqlError(
            331, f"The target table '{table.name}' of the OUTPUT INTO clause cannot have any enabled triggers."
        )
    if table.foreign_key:
        raise SqlError(
            332,
            f"The target table '{table.name}' of the OUTPUT INTO clause cannot be on either side of a (primary key,"
            f" foreign key) relationship. Found reference constraint '{table.foreign_key}'.",
        )
    if table.check:
        raise SqlError(
            333,
            f"The target table '{table.name}' of the OUTPUT INTO clause cannot have any enabled check constraints or"
            f" any enabled rules. Found check constraint or rule '{table.check}'.",
        )
    if table.type not in ("U", "TT"):
        raise SqlError(
            330, f"The target '{table.name}' of the OUTPUT INTO clause cannot be a view or common table expression."
        )
    columns = listed(table, output.columns, with_identity=identity_on(c, table))
    check_count(len(values), len(columns))
    for column in columns:
        if column.identity and not identity_on(c, table):
            refuse_identity(table)
    parts = [
        to_column(value.with_(sql=f"w.o{number}_{i}", constant=None), table, column)
        for i, (value, column) in enumerate(zip(values, columns, strict=True), 1)
    ]
    target = ", ".join(quoted(column.pg) for column in columns)
    return f"INSERT INTO {table.pg} ({target}) SELECT {', '.join(parts)} FROM w"
