"""Cache of parsed texts and the plans of their statements, for one connection to PostgreSQL."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable

from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import batches
from fakemssql.tsql.pg import Pg, Request
from fakemssql.tsql.runtime.frames import Code

_CODES, _PLANS = 256, 64


class PlanCache:
    """Cache of the last texts with their plans; the second use of a plan prepares it in PostgreSQL."""

    def __init__(self, pg: Pg) -> None:
        self._pg = pg
        self._codes: OrderedDict[tuple[object, ...], Code] = OrderedDict()
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
        """Plan of a statement of ``code``; a new plan is compiled."""
        plan = code.plans.get(key)
        if plan is None:
            plan = compiled()
            if len(code.plans) > _PLANS * max(len(code.statements), 1):
                self.forget(code)
            code.plans[key] = plan
        plan.uses += 1
        if plan.uses == 2 and not plan.name:
            plan.name = f"p{next(self._names)}".encode()
        return plan

    def forget(self, code: Code) -> None:
        """Drop the plans of a text."""
        self._garbage += [plan.name for plan in code.plans.values() if plan.name in self._pg.prepared]
        code.plans.clear()

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
