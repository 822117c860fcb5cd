"""SET STATISTICS XML: after each statement over rows a result set with its plan, as PostgreSQL explains it.

EXPLAIN goes out in the same transaction just before the statement, with the same parameters and after the same table
locks; the statement is then planned anew as well, so that both are planned alike.

Source: "SET STATISTICS XML (Transact-SQL)".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fakemssql.contract import Column
from fakemssql.text import from_pg
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.datatypes.sqltypes import nvarchar, oid
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.cursors import Page
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.showplan import COLUMN, Relation, document, places

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session

_NAMES = """
SELECT d.name, s.name, o.name, i.pg_name, i.name, i.type
FROM mssql.objects o JOIN mssql.schemas s ON s.database_id = o.database_id AND s.schema_id = o.schema_id
  JOIN mssql.databases d ON d.database_id = o.database_id LEFT JOIN mssql.indexes i ON i.object_id = o.object_id
WHERE s.pg_name = $1 AND o.pg_name = $2 AND o.type = 'U'
"""


class Explaining:
    """The plans of the statement that runs, while the session asks for them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._plans: list[dict[str, Any]] | None = None

    @property
    def active(self) -> bool:
        return self._plans is not None

    def request(self, request: Request) -> Request:
        """What has a request explained; its answer is kept."""

        def keep(result: Any) -> None:
            if result.ntuples and self._plans is not None:
                self._plans.append(json.loads(from_pg(result.get_value(0, 0)))[0]["Plan"])

        sql = f"EXPLAIN (VERBOSE, FORMAT JSON) {request.sql}"
        return Request(sql, request.values, request.oids, rows=keep)

    @contextmanager
    def statement(self, node: nodes.Statement, frame: Frame) -> Iterator[None]:
        """Run a statement with its plan after it, where that is asked for; those of triggers in it have their own."""
        outer, self._plans = self._plans, None
        try:
            if self.session.options.statistics_xml and isinstance(node, _EXPLAINED):
                self._require(node)
                self._plans = []
            yield
            if self._plans:
                self._put_out(_type(node), self._plans, frame)
        finally:
            self._plans = outer

    def _require(self, node: nodes.Statement) -> None:
        """Error 262 without SHOWPLAN in the database of a table that the statement names."""
        session = self.session
        if session.security.powerful:
            return
        names = [each.name for each in walk(node) if isinstance(each, nodes.TableSource)]
        names += [each.target for each in [node] if isinstance(each, nodes.Insert | nodes.Update | nodes.Delete)]
        found = [session.catalog.find(name, session.database) for name in names if not name[0].startswith("@")]
        for database in sorted({table.database for table in found if table is not None and not table.local}):
            session.security.require_database(database, "SHOWPLAN")

    def _put_out(self, kind: str, plans: list[dict[str, Any]], frame: Frame) -> None:
        relations = {}
        for place in set().union(*(places(plan) for plan in plans)):
            relation = self._relation(*place, frame)
            if relation is not None:
                relations[place] = relation
        text = nvarchar(-1)
        frame.output.columns([Column(COLUMN, text, oid(text))])
        frame.output.rows(Page([(encode(text, document(kind, plans, relations)),)]))
        frame.output.done(None if self.session.options.nocount else 1)

    def _relation(self, schema: str, name: str, frame: Frame) -> Relation | None:
        """The table of T-SQL that PostgreSQL knows by this name; None for its own and for those behind system views."""
        if schema.startswith("pg_temp"):
            local = {**self.session.catalog.temporary, **frame.tables}
            found = [key for key, table in local.items() if table.pg.endswith(quoted(name))]
            return Relation({"Table": f"[{found[0]}]"}) if found else None
        rows = self.session.pg.query(_NAMES, schema, name)
        if not rows:
            return None
        names = dict(zip(("Database", "Schema", "Table"), (f"[{each}]" for each in rows[0][:3]), strict=True))
        return Relation(names, {str(row[3]): (str(row[4]), row[5] == "1") for row in rows if row[3]})


_EXPLAINED = (nodes.SelectStatement, nodes.Insert, nodes.Update, nodes.Delete, nodes.Merge)


def _type(node: nodes.Statement) -> str:
    if isinstance(node, nodes.SelectStatement):
        return "SELECT"
    return type(node).__name__.upper()
