# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Constraints: keys, checks, defaults and foreign keys."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.datatypes.sqltypes import is_text
from fakemssql.tsql.definitions.catalog_text import catalog_text
from fakemssql.tsql.definitions.columns import check_sql, default_of_identity, default_sql, nullable_key
from fakemssql.tsql.definitions.definer import Definer, ObjectPlace
from fakemssql.tsql.definitions.indexes import add_index, drop_index
from fakemssql.tsql.definitions.metadata import add_object
from fakemssql.tsql.names import fold, literal, pg_name, quoted
from fakemssql.tsql.parser.nodes import Constraint, Expr, IndexDefinition
from fakemssql.tsql.pg import PgError
from fakemssql.tsql.security import errors


def add_default(
    d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, info: ColumnInfo, default: tuple[str, Expr, str]
) -> None:
    name, expression, text = default
    full = name or f"DF__{table.name[:9]}__{info.name[:5]}__{secrets.token_hex(4).upper()}"
    identifier = add_object(
        d, place, "D", full, object_id, definition=catalog_text(expression, text), system_named=not name
    )
    d.run(
        f"UPDATE mssql.columns SET default_object_id = {identifier}"
        f" WHERE object_id = {object_id} AND column_id = {info.column_id}"
    )


_FOLLOWED = frozenset([1752, 1767, 1768, 1769, 1770, 1773, 1774, 1781, 1902, 1911, 1913, 1919, 2714])
"""Errors of a constraint that error 1750 follows; 1505 as well."""


@contextmanager
def making_a_constraint() -> Iterator[None]:
    """Have error 1750 follow the error of a constraint that is made in the block."""
    try:
        yield
    except SqlError as error:
        if error.number in _FOLLOWED:
            error.then = errors.not_created()
        raise
    except PgError as error:
        error.is_of_constraint = True
        raise


def add_constraint(d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, c: Constraint) -> None:
    with making_a_constraint():
        _add_constraint(d, place, object_id, table, c)


def _add_constraint(d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, c: Constraint) -> None:
    if c.kind in ("primary", "unique"):
        _key(d, place, object_id, table, c)
    elif c.kind == "check":
        _check(d, place, object_id, table, c)
    elif c.kind == "default":
        assert c.expression is not None
        add_default(d, place, object_id, table, bind_default(d, table, c), (c.name, c.expression, c.text))
    else:
        _foreign(d, place, object_id, table, c)


def _key(d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, c: Constraint) -> None:
    code = "PK" if c.kind == "primary" else "UQ"
    name = c.name or f"{code}__{table.name[:9]}__{secrets.token_hex(8).upper()}"
    clustered = c.clustered if c.clustered is not None else c.kind == "primary"
    index = IndexDefinition(name, (), c.columns, True, clustered, options=c.options)
    d.check_new(place, name)
    add_index(d, object_id, table, index, c.kind)
    add_object(d, place, code, name, object_id, system_named=not c.name)


def _check(d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, c: Constraint) -> None:
    name = c.name or f"CK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
    d.check_new(place, name)
    assert c.expression is not None
    text = check_sql(d, table, c.expression)
    pg = pg_name(f"ck{object_id}.{name}")
    d.run(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} CHECK ({text})")
    text = catalog_text(c.expression, c.text)
    add_object(d, place, "C", name, object_id, pg, definition=text, system_named=not c.name)


def check_key(d: Definer, table: TableInfo, c: Constraint) -> None:
    """Raise error 8111 for a primary key over a nullable column."""
    for key in c.columns:
        if d.known(table, key.name).nullable:
            raise nullable_key(table.name)


def bind_default(d: Definer, table: TableInfo, c: Constraint) -> ColumnInfo:
    """Set the default of a column in PostgreSQL; errors 1752 and 1781."""
    assert c.expression is not None
    info = table.column(c.columns[0].name)
    if info is None or info.computed:
        raise SqlError(
            1752,
            f"Column '{c.columns[0].name}' in table '{table.name}' is invalid for creating a default constraint.",
            state=0,
        )
    if info.identity:
        raise default_of_identity(table.name, info.name)
    if info.default:
        raise SqlError(1781, "Column already has a DEFAULT bound to it.")
    d.run(f"ALTER TABLE {table.pg} ALTER COLUMN {quoted(info.pg)} SET DEFAULT {default_sql(d, c.expression, info)}")
    return info


def _known_key(table: TableInfo, column: str, key: str, number: int, role: str) -> ColumnInfo:
    found = table.column(column)
    if found is None:
        raise SqlError(
            number, f"Foreign key '{key}' references invalid column '{column}' in {role} table '{table.name}'.", state=0
        )
    return found


def _foreign(d: Definer, place: ObjectPlace, object_id: str, table: TableInfo, c: Constraint) -> None:
    other = d.catalog.find(c.reference, place.database)
    if fold(c.reference[-1]) == fold(table.name) and other is None:
        other = table
    if other is not None and other.type != "U":
        raise SqlError(
            1768,
            f"Foreign key '{c.name}' references object '{'.'.join(c.reference)}' which is not a user table.",
            state=0,
        )
    if other is None:
        raise SqlError(1767, f"Foreign key '{c.name}' references invalid table '{'.'.join(c.reference)}'.", state=0)
    name = c.name or f"FK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
    d.check_new(place, name)
    own = [_known_key(table, key.name, name, 1769, "referencing") for key in c.columns]
    if any(column.computed for column in own):
        raise SqlError(40517, "A foreign key over a computed column is not supported by fakemssql.")
    names = c.reference_columns
    if not names:
        rows = d.pg.query(
            "SELECT c.name FROM mssql.indexes i JOIN mssql.index_columns"
            " k USING (object_id, index_id) JOIN mssql.columns c"
            " USING (object_id, column_id) WHERE i.object_id ="
            " $1::int AND i.is_primary_key = 1 ORDER BY k.key_ordinal",
            other.object_id,
        )
        names = [str(row[0]) for row in rows]
        if not names:
            raise SqlError(
                1773,
                f"Foreign key '{name}' has implicit reference to object '{other.name}' which does not have a primary"
                " key defined on it.",
                state=0,
            )
    if len(names) != len(own):
        raise SqlError(
            1774,
            f"The number of columns in the referencing column list for foreign key '{name}' does not match those of the"
            f" primary key in the referenced table '{other.name}'.",
            state=0,
        )
    theirs = [_known_key(other, each, name, 1770, "referenced") for each in names]
    if any(is_text(column.type) for column in [*own, *theirs]):
        raise SqlError(40517, "A foreign key over text columns is not supported by fakemssql.")
    pg = pg_name(f"fk{object_id}.{name}")
    target = ", ".join(quoted(c.pg) for c in theirs)
    unique = pg_name(f"fk target {other.object_id} " + ",".join(c.pg for c in theirs))
    d.run(
        "DO $do$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname"
        f" = {literal(unique)} AND conrelid = {literal(other.pg)}::regclass)"
        f" THEN ALTER TABLE {other.pg} ADD CONSTRAINT {quoted(unique)} UNIQUE ({target}); END IF; END $do$"
    )
    changes = (("DELETE", c.on_delete), ("UPDATE", c.on_update))
    actions = "".join(f" ON {change} {action}" for change, action in changes if action)
    d.run(
        f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} FOREIGN KEY ({', '.join(quoted(k.pg) for k in own)})"
        f" REFERENCES {other.pg} ({target}){actions}"
    )
    add_object(d, place, "F", name, object_id, pg, system_named=not c.name, extra={"target": other.object_id})


def drop_constraint(d: Definer, table: TableInfo, name: str, exists: bool) -> None:
    rows = d.pg.query(
        "DELETE FROM mssql.objects WHERE parent_object_id = $1::int"
        " AND folded = $2 AND type IN ('PK', 'UQ', 'C', 'F', 'D')"
        " RETURNING type, pg_name, object_id",
        table.object_id,
        fold(name),
    )
    if not rows:
        if exists:
            return
        raise SqlError(3728, f"'{name}' is not a constraint.")
    kind, pg, identifier = rows[0]
    if kind in ("PK", "UQ"):
        drop_index(d, table, name, True)
    elif kind == "D":
        changed = d.pg.query(
            "UPDATE mssql.columns SET default_object_id = 0 WHERE default_object_id = $1::int RETURNING pg_name",
            identifier,
        )
        d.run(f"ALTER TABLE {table.pg} ALTER COLUMN {quoted(str(changed[0][0]))} DROP DEFAULT")
    else:
        d.run(f"ALTER TABLE {table.pg} DROP CONSTRAINT {quoted(str(pg))}")
