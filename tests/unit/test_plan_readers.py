"""Readers of query plans, on documents of the form that SQL Server writes."""

from __future__ import annotations

import pytest

from tests.contract.test_plans import GAPS, NAMED, ROWS, SEEKING, UNASKED, check_seeks
from tests.plans import Operator, heads, is_plan, operators, sorted_heads

INDEX = "Index_RowVersion"
DOCUMENT = """<ShowPlanXML xmlns="http://schemas.microsoft.com/sqlserver/2004/07/showplan" Version="1.539">
<BatchSequence><Batch><Statements><StmtSimple StatementType="SELECT"><QueryPlan DegreeOfParallelism="1">
<RelOp PhysicalOp="Top" LogicalOp="Top"><Top><RelOp PhysicalOp="{physical}" LogicalOp="{physical}">
<RunTimeInformation><RunTimeCountersPerThread Thread="0" ActualRows="3" ActualRowsRead="{read}" ActualExecutions="2" />
</RunTimeInformation><IndexScan Ordered="1"><Object Schema="[dbo]" Table="[q]" Index="[{index}]" /></IndexScan></RelOp>
</Top></RelOp></QueryPlan></StmtSimple></Statements></Batch></BatchSequence></ShowPlanXML>"""


def plan(physical: str = "Index Seek", index: str = INDEX, read: int = 3) -> list[Operator]:
    return operators(DOCUMENT.format(physical=physical, index=index, read=read))


def plans() -> dict[str, list[Operator]]:
    return {name: plan() for name in SEEKING | UNASKED}


def test_an_operator_has_its_index_and_the_number_of_keys_that_it_read() -> None:
    (top,) = plan(read=7)
    assert (top.physical, top.index, top.rows_read) == ("Top", None, 0)
    assert heads([top]) == [Operator("Index Seek", "Index Seek", INDEX, (), 7)]
    assert sorted_heads([top]) == []
    assert [each.logical for each in sorted_heads(plan("Sort"))] == ["Sort"]


def test_plans_and_rows_differ() -> None:
    assert is_plan([(DOCUMENT,)])
    assert not any(map(is_plan, ([], [("a",)], [(None,)], [(DOCUMENT,), (DOCUMENT,)])))


def test_seeks_in_all_plans_pass() -> None:
    check_seeks(plans(), INDEX)


@pytest.mark.parametrize("name", sorted(SEEKING))
def test_a_plan_with_a_scan_or_another_index_does_not_pass(name: str) -> None:
    for other in (plan("Index Scan"), plan(index="Another"), []):
        with pytest.raises(AssertionError, match=name):
            check_seeks({**plans(), name: other}, INDEX)


@pytest.mark.parametrize("name", sorted(GAPS))
def test_gaps_that_are_read_to_the_end_of_the_queue_do_not_pass(name: str) -> None:
    with pytest.raises(AssertionError, match=name):
        check_seeks({**plans(), name: plan(read=250 * ROWS)}, INDEX)


def test_a_sort_does_not_pass() -> None:
    for name in sorted(SEEKING - NAMED):
        with pytest.raises(AssertionError):
            check_seeks({**plans(), name: plan("Sort")}, INDEX)
