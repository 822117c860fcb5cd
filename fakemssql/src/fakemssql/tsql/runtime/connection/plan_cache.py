"""Cache of parsed texts and the plans of their statements, for one connection to PostgreSQL."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable

from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.compiler.plan import Plan, PreparedStatement
from fakemssql.tsql.parser import batches
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.frames import Code

_CODES, _PLANS = 256, 64


class PlanCache:
    """Cache of the last texts with their plans; the second use of a plan's SQL prepares it in PostgreSQL."""

    def __init__(self, catalog: Catalog) -> None:
        self._pg, self._catalog = catalog.pg, catalog
        self._codes: OrderedDict[tuple[object, ...], Code] = OrderedDict()
        self._prepared: dict[tuple[object, ...], PreparedStatement] = {}
        self._names = itertools.count(1)
        self._garbage: list[bytes] = []

    def code(self, text: str, signature: tuple[object, ...], quoted_identifier: bool) -> Code:
        """Parsed batch for ``text``."""
        key = (text, signature, quoted_identifier)
        code = self._codes.get(key)
        if code is None:
            code = Code(batches.parse(text, quoted_identifier))
            self._codes[key] = code
            if len(self._codes) > _CODES:
                _, old = self._codes.popitem(last=False)
                self.forget(old)
        else:
            self._codes.move_to_end(key)
        return code

    def plan(self, code: Code, key: tuple[object, ...], compiled: Callable[[], Plan]) -> Plan:
        """Plan of a statement of ``code``; it is compiled if it is new, or if the catalog now answers otherwise."""
        plan, version = code.plans.get(key), self._catalog.version
        if plan is not None and plan.version != version and not self._catalog.is_as_before(plan.answers):
            self._drop(code.plans.pop(key))
            plan = None
        if plan is None:
            with self._catalog.noting() as answers:
                plan = compiled()
            plan.answers = answers
            plan.prepared = self._prepared.setdefault(_key(plan), PreparedStatement(b"p%d" % next(self._names)))
            plan.prepared.plans += 1
            if len(code.plans) > _PLANS * max(len(code.statements), 1):
                self.forget(code)
            code.plans[key] = plan
        plan.version = version
        plan.prepared.uses += 1
        return plan

    def renew(self, code: Code) -> None:
        """Drop the plans of a text and their prepared statements, which no longer fit the tables."""
        for plan in code.plans.values():
            self._prepared.pop(_key(plan), None)
        self.forget(code)

    def forget(self, code: Code) -> None:
        """Drop the plans of a text."""
        for plan in code.plans.values():
            self._drop(plan)
        code.plans.clear()

    def _drop(self, plan: Plan) -> None:
        prepared = plan.prepared
        prepared.plans -= 1
        if prepared.plans:
            return
        if self._prepared.get(_key(plan)) is prepared:
            del self._prepared[_key(plan)]
        if prepared.name in self._pg.prepared:
            self._garbage.append(prepared.name)

    def forget_all(self) -> None:
        """Drop all texts and plans."""
        for code in self._codes.values():
            self.forget(code)
        self._codes.clear()

    def collect(self) -> None:
        """Drop the prepared statements of dropped plans in PostgreSQL; called between transactions."""
        if self._garbage:
            names, self._garbage = self._garbage, []
            self._pg.run([Request(f"DEALLOCATE {name.decode()}") for name in names])
            self._pg.prepared.difference_update(names)


def _key(plan: Plan) -> tuple[object, ...]:
    """Text of a plan with the types of its parameters and results, which a prepared statement cannot change."""
    results = plan.assign if plan.columns is None else [(column.name, column.type) for column in plan.columns]
    return plan.sql, tuple(plan.oids), tuple(results)
