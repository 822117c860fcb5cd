"""Catalog: look-ups in the metadata tables, cached until the catalog changes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, IndexInfo, TableFunction, TableInfo, is_binary_collation
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.pg import Pg
from fakemssql.types import SqlType

_TABLE_SQL = """
SELECT json_build_object('id', o.object_id, 'name', o.name, 'type', o.type, 'pg', o.pg_name, 'definition', o.definition,
  'schema', s.name, 'schema_pg', s.pg_name, 'owner', s.principal_id, 'database', d.name, 'extra', o.extra,
  'triggers', (SELECT json_agg(DISTINCT e) FROM mssql.objects t, jsonb_array_elements_text(t.extra->'declared') e
    WHERE t.parent_object_id = o.object_id AND t.type = 'TR' AND t.disabled = 0),
  'foreign_key', COALESCE(
    (SELECT min(k.name) FROM mssql.objects k WHERE k.parent_object_id = o.object_id AND k.type = 'F'),
    (SELECT min(k.name) FROM mssql.objects k WHERE k.extra->>'target' = o.object_id::text AND k.type = 'F')),
  'check', (SELECT min(k.name) FROM mssql.objects k WHERE k.parent_object_id = o.object_id AND k.type = 'C'),
  'filtered', EXISTS (SELECT FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.filter IS NOT NULL),
  'columns', (SELECT json_agg(json_build_array(c.name, c.pg_name,
      json_build_array(c.type_name, c.length, c.num_precision, c.num_scale), c.nullable, c.identity, c.computed,
      c.collation_name, c.column_id, c.default_object_id <> 0, COALESCE(c.seed, 1), COALESCE(c.increment, 1))
      ORDER BY c.column_id)
    FROM mssql.columns c WHERE c.object_id = o.object_id),
  'indexes', (SELECT json_agg(json_build_array(i.name, i.index_id, i.type, i.pg_name, i.disabled, c.folded)
      ORDER BY i.index_id)
    FROM mssql.indexes i
      LEFT JOIN mssql.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id AND k.key_ordinal = 1
      LEFT JOIN mssql.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id
    WHERE i.object_id = o.object_id))
FROM mssql.objects o JOIN mssql.schemas s ON s.database_id = o.database_id AND s.schema_id = o.schema_id
  JOIN mssql.databases d ON d.database_id = o.database_id
WHERE d.folded = $1 AND s.folded = $2 AND o.folded = $3
"""


_SYSTEM_SQL = """
SELECT a.attname, CASE WHEN t.typtype = 'd' THEN t.typname ELSE format_type(a.atttypid, NULL) END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


_FUNCTION_SQL = """
SELECT a.mode, a.name, CASE WHEN t.typtype = 'd' THEN t.typname ELSE format_type(t.oid, NULL) END
FROM pg_proc p CROSS JOIN LATERAL unnest(p.proallargtypes, p.proargnames, p.proargmodes)
  WITH ORDINALITY AS a(type, name, mode, n) JOIN pg_type t ON t.oid = a.type
WHERE p.pronamespace = 'mssql_sys'::regnamespace AND p.proname = $1 ORDER BY a.n
"""


_DOMAINS = {
    "sysname": SqlType("nvarchar", length=128),
    "bit": SqlType("bit"),
    "tinyint": SqlType("tinyint"),
    "char1": SqlType("char", length=1),
    "char2": SqlType("char", length=2),
    "char4": SqlType("char", length=4),
    "nmax": SqlType("nvarchar", length=-1),
    "n60": SqlType("nvarchar", length=60),
    "n260": SqlType("nvarchar", length=260),
    "datetime": SqlType("datetime"),
    "smallint": SqlType("smallint"),
    "integer": SqlType("int"),
    "bigint": SqlType("bigint"),
    "uuid": SqlType("uniqueidentifier"),
    "timestamp without time zone": SqlType("datetime"),
    "bytea": SqlType("varbinary", length=-1),
    "double precision": SqlType("float"),
    "numeric": SqlType("numeric", precision=38, scale=0),
}


_LOADED = 256
"""Limit of tables that are kept over a change of the catalog: most are the same after it."""

Method = TypeVar("Method", bound=Callable[..., Any])
Answers = dict[tuple[Callable[..., Any], tuple[Any, ...]], Any]
"""Answers of the catalog, by method and arguments."""


def _noted(method: Method) -> Method:
    """Note the answers of a method for the plan that is being compiled."""

    @wraps(method)
    def noting(self: Catalog, *args: Any) -> Any:
        answer = method(self, *args)
        if self._answers is not None:
            self._answers[method, args] = answer
        return answer

    return cast("Method", noting)


class Catalog:
    """Catalog of a connection: look-ups by name, with a cache that :meth:`forget` empties."""

    def __init__(self, pg: Pg) -> None:
        self.pg = pg
        self.tables: dict[tuple[str, str, str], TableInfo] = {}
        self.databases: dict[str, tuple[int, str, bool]] = {}
        self.schemas: dict[tuple[str, str], tuple[int, str, str]] = {}
        self.temporary: dict[str, TableInfo] = {}
        self.functions: dict[str, TableFunction | None] = {}
        self._loaded: OrderedDict[tuple[str, str, str], tuple[str, TableInfo]] = OrderedDict()
        self._views: dict[str, list[list[str | None]]] = {}
        self._answers: Answers | None = None
        self.version = 0
        self.generation = 0  # as version, but only for changes that other sessions see too
        self.is_changed = False  # by this session, before the other sessions are notified
        self.default_schema: Callable[[str], str] = lambda database: "dbo"

    def forget(self) -> None:
        self.tables.clear()
        self.databases.clear()
        self.schemas.clear()
        self.version += 1
        self.generation += 1

    @contextmanager
    def noting(self) -> Iterator[Answers]:
        """Note the catalog's answers in the block."""
        outer, self._answers = self._answers, {}
        try:
            yield self._answers
        finally:
            self._answers = outer

    def is_as_before(self, answers: Answers) -> bool:
        """Return whether the catalog would still give these answers."""
        return all(method(self, *args) == answer for (method, args), answer in answers.items())

    def _database(self, name: str) -> tuple[int, str, bool] | None:
        folded = fold(name)
        if folded not in self.databases:
            rows = self.pg.query(
                "SELECT database_id, name, read_committed_snapshot FROM mssql.databases WHERE folded = $1", folded
            )
            if not rows:
                return None
            self.databases[folded] = (int(rows[0][0] or 0), str(rows[0][1]), rows[0][2] == "1")
        return self.databases[folded]

    @_noted
    def database(self, name: str) -> tuple[int, str] | None:
        """Return the id of a database and its name as written; None if it does not exist."""
        found = self._database(name)
        return None if found is None else found[:2]

    @_noted
    def versioned(self, database: str) -> bool:
        """Return whether READ_COMMITTED_SNAPSHOT is ON in a database: its readers take no locks."""
        found = self._database(database)
        return found is not None and found[2]

    @_noted
    def snapshots(self, database: str) -> bool:
        """Return whether ALLOW_SNAPSHOT_ISOLATION is ON in a database."""
        rows = self.pg.query(
            "SELECT 1 FROM mssql.databases WHERE folded = $1 AND snapshot_isolation = 1", fold(database)
        )
        return bool(rows)

    def schema(self, database: str, name: str) -> tuple[int, str, str] | None:
        """Return the id of a schema, its name as written and its PostgreSQL name; None if it does not exist."""
        key = (fold(database), fold(name))
        if key not in self.schemas:
            rows = self.pg.query(
                "SELECT s.schema_id, s.name, s.pg_name FROM mssql.schemas s JOIN mssql.databases d USING (database_id)"
                " WHERE d.folded = $1 AND s.folded = $2",
                *key,
            )
            if not rows:
                return None
            self.schemas[key] = (int(rows[0][0] or 0), str(rows[0][1]), str(rows[0][2]))
        return self.schemas[key]

    def split(self, name: Name, database: str) -> tuple[str, str, str]:
        """Split a name of one to three parts into database, schema (default: the user's default schema) and object."""
        if len(name) > 3:
            if name[0]:
                raise SqlError(
                    7202,
                    f"Could not find server '{name[0]}' in sys.servers. Verify that the correct server name was"
                    " specified.",
                    severity=11,
                    state=2,
                )
            name = name[1:]
        parts = ("",) * (3 - len(name)) + name
        return parts[0] or database, parts[1] or self.default_schema(parts[0] or database), parts[2]

    def find(self, name: Name, database: str) -> TableInfo | None:
        """Return the object with a name, with synonyms resolved; None if it does not exist."""
        found = self.named(name, database)
        if found is None or found.type != "SN":
            return found
        base = self.named(tuple(found.extra["target"]), found.database)
        if base is not None and base.type == "SN":
            raise SqlError(
                470,
                f'The synonym "{".".join(name)}" referenced synonym "{base.name}". Synonym chaining is not allowed.',
            )
        return base

    def named(self, name: Name, database: str) -> TableInfo | None:
        """Return the object with a name, which may be a synonym; None if it does not exist.

        A name without a schema is searched in the default schema, then in dbo.
        """
        if name[-1].startswith("#"):
            return self._temporary(fold(name[-1]))
        catalog, schema, table = self.split(name, database)
        found = self._named(catalog, schema, table)
        if found is None and fold(schema) != "dbo" and (len(name) == 1 or not name[-2]):
            found = self._named(catalog, "dbo", table)
        return found

    @_noted
    def _temporary(self, folded: str) -> TableInfo | None:
        return self.temporary.get(folded)

    @_noted
    def _named(self, catalog: str, schema: str, table: str) -> TableInfo | None:
        key = (fold(catalog), fold(schema), fold(table))
        found = self.tables.get(key)
        if found is None:
            found = (
                self._system(key[1], key[2], catalog) if key[1] in ("sys", "information_schema") else self._load(key)
            )
            if found is None and key[1] == "dbo" and key[2].startswith("sys"):
                # SQL Server finds the views of SQL Server 2000 without their schema too.
                found = self._system("sys", key[2], catalog)
            if found is None:
                return None
            self.tables[key] = found
        return found

    def table_function(self, folded: str) -> TableFunction | None:
        """Return the table-valued function ``sys.<name>``; None if it does not exist."""
        if folded not in self.functions:
            rows = self.pg.query(_FUNCTION_SQL, folded)
            types = [(mode, str(name), _DOMAINS.get(str(kind), _DOMAINS["nmax"])) for mode, name, kind in rows]
            arguments = [kind for mode, _, kind in types if mode == "i"]
            columns = [ColumnInfo(name, name, kind) for mode, name, kind in types if mode == "t"]
            found = TableFunction(f"mssql_sys.{quoted(folded)}", arguments, columns) if rows else None
            self.functions[folded] = found
        return self.functions[folded]

    def _load(self, key: tuple[str, str, str]) -> TableInfo | None:
        rows = self.pg.query(_TABLE_SQL, *key)
        if not rows or rows[0][0] is None:
            return None
        text, found = self._loaded.pop(key, ("", None))
        if found is None or text != rows[0][0]:
            text, found = rows[0][0], self._table(json.loads(rows[0][0]))
        self._loaded[key] = text, found
        if len(self._loaded) > _LOADED:
            self._loaded.popitem(last=False)
        return found

    @staticmethod
    def _table(data: dict[str, Any]) -> TableInfo:
        columns = [
            ColumnInfo(
                name,
                pg,
                SqlType(*kind),
                bool(nullable),
                bool(identity),
                computed,
                is_binary_collation(collation),
                number,
                default,
                seed,
                increment,
                collation or "",
            )
            for name, pg, kind, nullable, identity, computed, collation, number, default, seed, increment in (
                data["columns"] or []
            )
        ]
        indexes = [IndexInfo(i[0] or "", i[1], i[2], i[3] or "", bool(i[4]), i[5] or "") for i in data["indexes"] or []]
        pg = f"{quoted(data['schema_pg'])}.{quoted(data['pg'] or '')}"
        return TableInfo(
            data["name"],
            data["schema"],
            data["database"],
            pg,
            columns,
            data["type"].strip(),
            data["id"],
            frozenset(data["triggers"] or ()),
            data["definition"] or "",
            indexes,
            extra=data["extra"],
            owner=data["owner"],
            foreign_key=data["foreign_key"] or "",
            check=data["check"] or "",
            filtered=data["filtered"],
        )

    def _system(self, schema: str, table: str, catalog: str) -> TableInfo | None:
        entry = self.database(catalog)
        if entry is None:
            return None
        pg = f'"mssql_{schema}".{quoted(table)}'
        rows = self._views.get(pg) or self.pg.query(_SYSTEM_SQL, pg)
        if not rows:
            return None
        self._views[pg] = rows
        filtered = rows[0][0] == "_db"
        columns = [
            ColumnInfo(
                str(name).lower() if schema == "sys" else str(name).upper(),
                str(name),
                _DOMAINS.get(str(kind), _DOMAINS["sysname"]),
            )
            for name, kind in rows
            if name != "_db"
        ]
        return TableInfo(
            table, schema, entry[1], pg, columns, "S", extra={"database_id": entry[0]}, database_filter=filtered
        )
