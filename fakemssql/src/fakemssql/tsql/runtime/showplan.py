"""A plan of PostgreSQL as a ShowPlanXML document.

Written are the elements that readers of such documents look at: the operators with their nesting, the objects that they
read, by their names in T-SQL, and whether an index is sought or scanned. Operators that SQL Server does not have keep
PostgreSQL's name. What PostgreSQL does not tell in the same terms (costs, memory, predicates, columns) is left out.

Source: the schema at http://schemas.microsoft.com/sqlserver/2004/07/showplan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from fakemssql.tsql.compiler.functions.system import VERSION

NAMESPACE = "http://schemas.microsoft.com/sqlserver/2004/07/showplan"
COLUMN = "Microsoft SQL Server 2005 XML Showplan"
"""The name of the one column in which SQL Server hands out a plan."""


@dataclass(frozen=True)
class Relation:
    """A table by its names in T-SQL, as an Object element has them, and its indexes by PostgreSQL's names."""

    names: Mapping[str, str]
    indexes: Mapping[str, tuple[str, bool]] = field(default_factory=dict)  # name, clustered


Relations = Mapping[tuple[str, str], Relation]
"""By PostgreSQL's schema and name."""

_OPERATORS = {
    # PostgreSQL's: physical, logical, element
    "Limit": ("Top", "Top", "Top"),
    "Sort": ("Sort", "Sort", "Sort"),
    "Incremental Sort": ("Sort", "Sort", "Sort"),
    "Nested Loop": ("Nested Loops", "Join", "NestedLoops"),
    "Hash Join": ("Hash Match", "Join", "Hash"),
    "Merge Join": ("Merge Join", "Join", "Merge"),
    "WindowAgg": ("Window Aggregate", "Window Aggregate", "WindowAggregate"),
    "Append": ("Concatenation", "Concatenation", "Concat"),
    "Values Scan": ("Constant Scan", "Constant Scan", "ConstantScan"),
    "Function Scan": ("Table-valued function", "Table-valued function", "TableValuedFunction"),
    "Seq Scan": ("Table Scan", "Table Scan", "TableScan"),
    "Tid Scan": ("RID Lookup", "RID Lookup", "IndexScan"),
}


def document(kind: str, plans: list[dict[str, Any]], relations: Relations) -> str:
    """The document of one statement. ``kind`` is its StatementType; each plan is what EXPLAIN (FORMAT JSON) gave."""
    root = Element("ShowPlanXML", {"xmlns": NAMESPACE, "Version": "1.564", "Build": VERSION})
    batch = SubElement(SubElement(root, "BatchSequence"), "Batch")
    statements = SubElement(batch, "Statements")
    for number, plan in enumerate(plans, 1):
        attributes = {"StatementId": str(number), "StatementCompId": str(number), "StatementType": kind}
        statement = SubElement(statements, "StmtSimple", attributes)
        _Writer(relations).operator(SubElement(statement, "QueryPlan"), plan)
    return tostring(root, encoding="unicode")


class _Writer:
    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self.number = 0
        self.heaps: list[tuple[str, str]] = []  # the tables to which bitmaps of indexes belong

    def operator(self, parent: Element, plan: dict[str, Any]) -> None:
        while plan["Node Type"] == "LockRows":  # SQL Server's operators lock what they read
            (plan,) = plan["Plans"]
        physical, logical, name = self._kind(plan)
        attributes = {
            "NodeId": str(self.number),
            "PhysicalOp": physical,
            "LogicalOp": logical,
            "EstimateRows": str(plan.get("Plan Rows", 0)),
        }
        self.number += 1
        operation = SubElement(SubElement(parent, "RelOp", attributes), name)
        self._object(operation, plan)
        place = self._place(plan)
        if place is not None:
            self.heaps.append(place)
        for child in plan.get("Plans", []):
            self.operator(operation, child)
        if place is not None:
            self.heaps.pop()

    def _kind(self, plan: dict[str, Any]) -> tuple[str, str, str]:
        node = str(plan["Node Type"])
        if node in ("Index Scan", "Index Only Scan", "Bitmap Index Scan"):
            how = f"Index {'Seek' if 'Index Cond' in plan else 'Scan'}"
            if self._clustered(plan):
                how = f"Clustered {how}"
            return how, how, "IndexScan"
        if node == "Aggregate":
            hashed = plan.get("Strategy") in ("Hashed", "Mixed")
            return (
                ("Hash Match", "Aggregate", "Hash") if hashed else ("Stream Aggregate", "Aggregate", "StreamAggregate")
            )
        if node == "ModifyTable":
            change = str(plan["Operation"])
            return f"Table {change}", change, "Update"
        if node == "Result":
            name = "Compute Scalar" if plan.get("Plans") else "Constant Scan"
            return name, name, name.replace(" ", "")
        return _OPERATORS.get(node, (node, node, "Generic"))

    def _place(self, plan: dict[str, Any]) -> tuple[str, str] | None:
        if "Relation Name" in plan:
            return plan.get("Schema", ""), plan["Relation Name"]
        return None

    def _index(self, plan: dict[str, Any]) -> tuple[Relation | None, tuple[str, bool] | None]:
        """The table that an operator reads and the index by which it does; None for what T-SQL has no name for."""
        place = self._place(plan) or (self.heaps[-1] if self.heaps and "Index Name" in plan else None)
        relation = None if place is None else self.relations.get(place)
        index = None if relation is None else relation.indexes.get(plan.get("Index Name", ""))
        return relation, index

    def _clustered(self, plan: dict[str, Any]) -> bool:
        index = self._index(plan)[1]
        return index is not None and index[1]

    def _object(self, parent: Element, plan: dict[str, Any]) -> None:
        relation, index = self._index(plan)
        if "Scan Direction" in plan:
            parent.set("Ordered", "true")
            parent.set("ScanDirection", "BACKWARD" if plan["Scan Direction"] == "Backward" else "FORWARD")
        if relation is None:
            return
        found = SubElement(parent, "Object", dict(relation.names))
        if index is not None:
            found.set("Index", f"[{index[0]}]")
            found.set("IndexKind", "Clustered" if index[1] else "NonClustered")


def places(plan: dict[str, Any]) -> set[tuple[str, str]]:
    """PostgreSQL's schema and name of every table in a plan."""
    found = {(str(plan.get("Schema", "")), str(plan["Relation Name"]))} if "Relation Name" in plan else set()
    return found.union(*(places(child) for child in plan.get("Plans", [])))
