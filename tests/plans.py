"""Query plans of statements: a session that requests them, and readers of a ShowPlanXML document.

SQL Server hands out a plan as one more result set after each statement ("SET STATISTICS XML (Transact-SQL)"), also for
statements with parameters. fakemssql has none to hand out: there the session keeps the names of the statements only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query

_NAMESPACE = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"
_COUNTERS = f"./{_NAMESPACE}RunTimeInformation/{_NAMESPACE}RunTimeCountersPerThread"


@dataclass(frozen=True)
class Operator:
    """An operator of a plan with those that it gets its rows from; ``index`` is what it reads, without brackets.

    ``rows_read`` is the number of keys that it has read for its rows, in all of its executions.
    """

    physical: str
    logical: str
    index: str | None
    inputs: tuple[Operator, ...]
    rows_read: int = 0

    def __iter__(self) -> Iterator[Operator]:
        yield self
        for each in self.inputs:
            yield from each

    @property
    def sorts(self) -> bool:
        return self.physical == "Sort"

    @property
    def reads_by_index(self) -> bool:
        return self.physical in {"Index Seek", "Clustered Index Seek", "Index Scan", "Clustered Index Scan"}

    @property
    def seeks(self) -> bool:
        return self.physical in {"Index Seek", "Clustered Index Seek"}


def operators(document: str) -> list[Operator]:
    """The topmost operator of each statement of a document."""
    return [_operator(each) for plan in _root(document).iter(f"{_NAMESPACE}QueryPlan") for each in _next(plan)]


def _root(document: str) -> ElementTree.Element:
    return ElementTree.fromstring(document)


def _next(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The nearest RelOp elements below."""
    for child in element:
        if child.tag == f"{_NAMESPACE}RelOp":
            yield child
        else:
            yield from _next(child)


def _operator(element: ElementTree.Element) -> Operator:
    index = next((each.get("Index") for each in element.findall(f"./*/{_NAMESPACE}Object")), None)
    return Operator(
        element.get("PhysicalOp", ""),
        element.get("LogicalOp", ""),
        index.strip("[]") if index else None,
        tuple(_operator(each) for each in _next(element)),
        sum(int(each.get("ActualRowsRead", "0")) for each in element.findall(_COUNTERS)),
    )


def heads(plans: Sequence[Operator]) -> list[Operator]:
    """Operators below TOP: the part of a plan that finds the first rows. Operators above it have few rows."""
    return [below for plan in plans for top in plan if top.physical == "Top" for below in top.inputs]


def sorted_heads(plans: Sequence[Operator]) -> list[Operator]:
    """The operators that sort a table to find its first rows: a Sort below TOP, or one that is TOP itself."""
    below = [each for head in heads(plans) for each in head if each.sorts]
    return below + [each for plan in plans for each in plan if each.sorts and each.logical == "TopN Sort"]


class PlanSession(Session):
    """A session that keeps the plans of the statements it runs, by the names of their queries."""

    plans: dict[str, list[Operator]]
    has_plans = False
    _watching = False

    def watch(self) -> None:
        """Keep plans from now on; of a server without plans the names of the queries, each with an empty list."""
        self.plans = defaultdict(list)
        ((version,),) = self.run(Query("test", "read the product's name", "SELECT @@VERSION"))
        self.has_plans = "fakemssql" not in version
        if self.has_plans:
            self.run(Query("test", "ask for plans", "SET STATISTICS XML ON"))
        self._watching = True

    def _execute(self, statement: Query, text: str, values: Sequence[Any], sizes: Sequence[Any] | None) -> list[Any]:
        results = super()._execute(statement, text, values, sizes)
        if not self._watching:
            return results
        for rows in filter(is_plan, results):
            self.plans[statement.name] += operators(rows[0][0])
        self.plans[statement.name] += []
        return [rows for rows in results if not is_plan(rows)]


def is_plan(rows: list[Any]) -> bool:
    """Whether a result set is a plan rather than rows of the statement."""
    return len(rows) == 1 and isinstance(rows[0][0], str) and rows[0][0].startswith("<ShowPlanXML")
