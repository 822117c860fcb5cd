"""Reading the plans of statements: what stands in a ShowPlanXML document ("SET STATISTICS XML (Transact-SQL)")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

_NAMESPACE = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"


@dataclass(frozen=True)
class Operator:
    """An operator of a plan with those that it gets its rows from; ``index`` is what it reads, without brackets."""

    physical: str
    logical: str
    index: str | None
    inputs: tuple[Operator, ...]

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
    )
