"""SET STATISTICS XML: the plan of the statement that PostgreSQL really ran. FORCESEEK: error 8622 without an index."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from fakemssql.types import SqlType
from support.showplan import Operator, operators

NAMESPACE = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"
ON, OFF = "SET STATISTICS XML ON", "SET STATISTICS XML OFF"


@pytest.fixture
def numbers(client: Any, table: str) -> str:
    """A table of 3,000 rows with a nonclustered index on k."""
    some = f"(VALUES {', '.join(f'({n})' for n in range(15))})"
    client.ok(
        f"CREATE TABLE {table} (k int NOT NULL, v int, w varchar(20) NOT NULL DEFAULT 'w');"
        f" CREATE INDEX [k of {table}] ON {table} (k);"
        f" INSERT {table} (k, v) SELECT TOP (3000) ROW_NUMBER() OVER (ORDER BY a.n), 1"
        f" FROM {some} AS a (n) CROSS JOIN {some} AS b (n) CROSS JOIN {some} AS c (n); UPDATE STATISTICS {table}"
    )
    return table


def plan(client: Any, text: str, **parameters: tuple[SqlType, Any]) -> list[Operator]:
    """The operators of the last statement's plan, outer ones first."""
    client.ok(ON)
    try:
        (document,) = client.rows(text, **parameters)[0]
    finally:
        client.ok(OFF)
    (top,) = operators(document)
    return list(top)


def names(found: list[Operator]) -> list[str]:
    return [operator.physical for operator in found]


def test_each_statement_over_rows_has_its_plan_after_it(client: Any, numbers: str) -> None:
    assert client.ok(f"{ON}; DECLARE @n int = 5; SET @n = 6; IF @n = 6 PRINT 'six'").results == []
    found = client.ok(
        f"DECLARE @k int; SELECT k FROM {numbers} WHERE k = 7; UPDATE {numbers} SET v = 2 WHERE k < 3;"
        f" SELECT @@ROWCOUNT; SELECT @k = MAX(k) FROM {numbers}; SELECT @k; {OFF}; SELECT 1"
    )
    rows = [result for result in found.results if "ShowPlanXML" not in str(result)]
    assert rows == [[(7,)], [(2,)], [(3000,)], [(1,)]]
    assert ["ShowPlanXML" in str(result) for result in found.results] == [
        False, True, True, False, True, True, False, True, False
    ]  # fmt: skip
    shapes = {shape[0].name for shape, result in zip(found.shapes, found.results, strict=True) if len(result[0]) == 1}
    assert "Microsoft SQL Server 2005 XML Showplan" in shapes
    types = [
        each.get("StatementType")
        for result in found.results
        if "ShowPlanXML" in str(result)
        for each in ElementTree.fromstring(result[0][0]).iter(f"{NAMESPACE}StmtSimple")
    ]
    assert types == ["SELECT", "UPDATE", "SELECT", "SELECT", "SELECT"]


def test_what_is_read_has_its_names_in_tsql(client: Any, numbers: str) -> None:
    client.ok(ON)
    (document,) = client.rows(f"SELECT v FROM {numbers} AS n WHERE k = 7")[0]
    client.ok(OFF)
    (found,) = ElementTree.fromstring(document).iter(f"{NAMESPACE}Object")
    assert found.attrib == {
        "Database": "[shop]",
        "Schema": "[dbo]",
        "Table": f"[{numbers}]",
        "Index": f"[k of {numbers}]",
        "IndexKind": "NonClustered",
    }


def test_seeks_scans_and_sorts(client: Any, numbers: str) -> None:
    head = f"SELECT TOP (5) k, w FROM {numbers} ORDER BY "
    assert names(plan(client, f"{head} k")) == ["Top", "Index Scan"]
    assert names(plan(client, f"{head} k DESC")) == ["Top", "Index Scan"]
    assert names(plan(client, f"{head} w")) == ["Top", "Sort", "Table Scan"]
    assert names(plan(client, f"SELECT w FROM {numbers} WHERE k = 5")) == ["Index Seek"]
    client.ok(f"DROP INDEX [k of {numbers}] ON {numbers}")
    assert names(plan(client, f"{head} k")) == ["Top", "Sort", "Table Scan"]
    client.ok(f"CREATE CLUSTERED INDEX c ON {numbers} (k)")
    assert names(plan(client, f"{head} k")) == ["Top", "Clustered Index Scan"]
    assert names(plan(client, f"SELECT w FROM {numbers} WHERE k = 5")) == ["Clustered Index Seek"]


def test_the_plan_is_the_one_for_these_parameters(client: Any, numbers: str) -> None:
    """Also after many runs, when a prepared statement might have a plan for any parameters."""
    client.ok(f"UPDATE {numbers} SET v = 0 WHERE k = 1; CREATE INDEX v ON {numbers} (v); UPDATE STATISTICS {numbers}")
    text = f"SELECT w FROM {numbers} WHERE v = @v"
    for _ in range(8):
        client.ok(text, v=(SqlType("int"), 1))
    assert names(plan(client, text, v=(SqlType("int"), 1))) == ["Table Scan"]
    assert names(plan(client, text, v=(SqlType("int"), 0))) == ["Index Seek"]


def test_a_statement_that_changes_rows_is_run_once(client: Any, numbers: str) -> None:
    found = plan(
        client,
        f"WITH head AS (SELECT TOP (5) * FROM {numbers} WITH (UPDLOCK, READPAST, ROWLOCK) WHERE k > 0 ORDER BY k)"
        " DELETE FROM head OUTPUT deleted.k",
    )
    assert found[0].physical == "Table Delete"
    assert names(list(next(each for each in found if each.physical == "Top"))) == ["Top", "Index Seek"]
    assert client.value(f"SELECT COUNT(*) FROM {numbers}") == 2995


def test_temporary_tables_and_what_is_not_of_tsql(client: Any) -> None:
    found = client.ok(
        f"CREATE TABLE #t (a int); DECLARE @t TABLE (a int); {ON}; SELECT * FROM #t; SELECT * FROM @t;"
        f" SELECT name FROM sys.schemas; {OFF}; DROP TABLE #t"
    )
    tables = [
        [each.get("Table") for each in ElementTree.fromstring(result[0][0]).iter(f"{NAMESPACE}Object")]
        for result in found.results
        if "ShowPlanXML" in str(result)
    ]
    assert tables == [["[#t]"], ["[@t]"], []]


def test_statements_of_a_trigger_have_their_own(client: Any, numbers: str) -> None:
    client.ok(f"CREATE TRIGGER tr_{numbers} ON {numbers} AFTER DELETE AS SELECT COUNT(*) FROM deleted")
    found = client.ok(f"{ON}; DELETE {numbers} WHERE k < 4; {OFF}").results
    assert [result[0][0] for result in found if "ShowPlanXML" not in str(result)] == [3]
    tops = [operators(result[0][0])[0].physical for result in found if "ShowPlanXML" in str(result)]
    assert len(tops) == 2
    assert tops[0] == "Stream Aggregate"


def test_a_statement_that_fails_has_none(client: Any, numbers: str) -> None:
    found = client.run(f"{ON}; INSERT {numbers} (k) VALUES (NULL); SELECT 1/0; {OFF}")
    assert found.errors == [515, 8134]
    assert "ShowPlanXML" not in str(found.results)


def test_what_resets_a_connection_ends_it(client: Any, numbers: str) -> None:
    client.ok(ON)
    client.session.reset(False)
    assert client.ok("SELECT 1").results == [[(1,)]]


@pytest.mark.parametrize("text", ["SET STATISTICS PROFILE ON", "SET SHOWPLAN_XML ON", "SET STATISTICS XML, PROFILE ON"])
def test_other_forms_of_plans_are_refused(client: Any, text: str) -> None:
    assert client.error(text).number == 40517


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE k = 1",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX ([k of {0}])) WHERE w = 'w' AND k BETWEEN 1 AND 2",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX (2)) WHERE k IN (1, 2)",
        "SELECT n.k FROM {0} AS o JOIN {0} AS n WITH (FORCESEEK) ON n.k = o.v WHERE o.k = 1",
        "WITH all_of AS (SELECT * FROM {0} WITH (FORCESEEK)) SELECT k FROM all_of WHERE k = 1",
        "UPDATE n SET v = 3 FROM {0} AS n WITH (FORCESEEK) WHERE n.k = 1",
        "WITH head AS (SELECT TOP (1) v FROM {0} WITH (FORCESEEK) WHERE k > 1 ORDER BY k) DELETE FROM head",
    ],
)
def test_a_seek_that_an_index_serves(client: Any, numbers: str, text: str) -> None:
    client.ok(text.format(numbers))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM {0} WITH (FORCESEEK)",
        "SELECT TOP (1) k FROM {0} WITH (FORCESEEK) ORDER BY k",
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE v = 1",  # the second key of one index, the first of a disabled one
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE k + 1 = 2",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX ([w of {0}])) WHERE k = 1",
        "DELETE n FROM {0} AS n WITH (FORCESEEK) WHERE n.v = 3",
        "WITH head AS (SELECT TOP (1) v FROM {0} WITH (FORCESEEK) ORDER BY k) DELETE FROM head",
    ],
)
def test_a_seek_that_no_index_serves(client: Any, numbers: str, text: str) -> None:
    client.ok(
        f"CREATE INDEX [w of {numbers}] ON {numbers} (w, v); CREATE INDEX [v of {numbers}] ON {numbers} (v, k);"
        f" ALTER INDEX [v of {numbers}] ON {numbers} DISABLE"
    )
    assert client.error(text.format(numbers)).number == 8622
