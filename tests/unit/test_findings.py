"""Findings on tables that a test server cannot make: from rows as the catalog has them to what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_sqlqueue.errors import LockTimeoutError, PermissionDeniedError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.inspection.findings import Finding, IndexPages, InspectedTable
from airflow_sqlqueue.queue.inspection.inspect import findings_of
from airflow_sqlqueue.queue.inspection.pages import GHOST_PAGES, READ_PAGES
from airflow_sqlqueue.queue.tables.discovery import FoundTable
from airflow_sqlqueue.queue.tables.reading import layout_of

TABLE = ResolvedAddress("orders", "dbo", "nsb")
COLUMNS = [
    ("Id", "uniqueidentifier", 16, False, False, False, 0, None),
    ("Expires", "datetime", 8, True, False, False, 0, None),
    ("Headers", "nvarchar", -1, False, False, False, 0, None),
    ("Body", "varbinary", -1, True, False, False, 0, None),
    ("RowVersion", "bigint", 8, False, True, False, 0, None),
]
"""As inspect.columns returns them: the last value is encryption_type of ``sys.columns``."""

INDEXES = [
    ("Index_RowVersion", "RowVersion", "NONCLUSTERED", False, None),
    ("Index_Expires", "Expires", "NONCLUSTERED", False, "([Expires] IS NOT NULL)"),
]


class Nothing:
    """Surroundings of a table without neighbours and receivers; its pages are those given."""

    def __init__(self, *pages: IndexPages | Exception) -> None:
        self._pages = pages
        self.reads = 0

    def exists(self, table: ResolvedAddress) -> bool:
        return False

    def durability(self, catalog: str) -> str | None:
        return "DISABLED"

    def receivers(self, table: ResolvedAddress) -> Sequence[tuple[str | None, str | None]]:
        return []

    def tables(self, catalog: str) -> list[FoundTable]:
        return []

    def pages(self, table: ResolvedAddress) -> Sequence[IndexPages]:
        self.reads += 1
        for each in self._pages:
            if isinstance(each, Exception):
                raise each
        return [each for each in self._pages if isinstance(each, IndexPages)]


def findings(
    columns: list[tuple[Any, ...]] = COLUMNS, temporal: int = 0, captured: bool = False
) -> tuple[Finding, ...]:
    layout = layout_of(TABLE, "table", (False, temporal, captured, "TABLE", 0), False, columns, INDEXES, [])
    return findings_of(InspectedTable(Nothing(), layout, rows=0, data_pages=0, online=False))


def test_a_sound_table_has_none() -> None:
    assert findings() == ()


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("name", ["Headers", "Body"])
def test_a_column_that_is_always_encrypted_is_named(name: str, kind: int) -> None:
    """Deterministic or randomized (encryption_type 1 and 2 of ``sys.columns``)."""
    (finding,) = findings([(*row[:-1], kind) if row[0] == name else row for row in COLUMNS])
    assert (finding.code, finding.severity, finding.fix) == (f"encrypted-{name}", "warning", None)
    assert f"The column {name} is always encrypted" in finding.text


def test_a_system_versioned_table_is_named_with_its_remedy() -> None:
    """temporal_type 2 of ``sys.tables``; a history table, which has 1, cannot be switched off."""
    (finding,) = findings(temporal=2)
    assert (finding.code, finding.severity) == ("system-versioned", "warning")
    assert "CONTROL on both tables" in finding.text
    assert finding.fix is not None
    assert finding.fix.text.endswith("ALTER TABLE [nsb].[dbo].[orders] SET (SYSTEM_VERSIONING = OFF);")
    assert findings(temporal=1) == ()


def test_a_table_that_is_captured_is_named() -> None:
    (finding,) = findings(captured=True)
    assert (finding.code, finding.fix) == ("change-data-capture", None)


def of_pages(
    *pages: IndexPages | Exception, data_pages: int = READ_PAGES, rows: int = READ_PAGES, clustered: bool = False
) -> list[Finding]:
    """Findings of a large table; its RowVersion index may be the clustered one."""
    kind = "CLUSTERED" if clustered else "NONCLUSTERED"
    indexes = [("Index_RowVersion", "RowVersion", kind, False, None), INDEXES[1]]
    layout = layout_of(TABLE, "table", (False, 0, False, "TABLE", 0), False, COLUMNS, indexes, [])
    inspected = InspectedTable(Nothing(*pages), layout, rows=rows, data_pages=data_pages, online=True)
    return list(findings_of(inspected))


def test_pages_of_a_small_table_are_not_read() -> None:
    nothing = Nothing(IndexPages("Index_RowVersion", 10_000, ghosts=1_000_000))
    layout = layout_of(TABLE, "table", (False, 0, False, "TABLE", 0), False, COLUMNS, INDEXES, [])
    few, many = (InspectedTable(nothing, layout, 1_000, pages, online=False) for pages in (READ_PAGES - 1, READ_PAGES))
    assert (findings_of(few), nothing.reads) == ((), 0)
    assert ([finding.code for finding in findings_of(many)], nothing.reads) == (["ghost-records"], 1)


@pytest.mark.parametrize("clustered", [False, True])
def test_deleted_rows_before_the_head_are_named_from_a_number_of_pages_on(clustered: bool) -> None:
    """Half of the records are ghosts, so half of the pages are theirs."""
    pages = IndexPages("Index_RowVersion", 2 * GHOST_PAGES, records=500_000, ghosts=500_000)
    assert of_pages(replace(pages, pages=2 * GHOST_PAGES - 1), clustered=clustered) == []
    (finding,) = of_pages(pages, clustered=clustered)
    assert (finding.code, finding.severity) == ("ghost-records", "warning")
    assert "about 1,000 pages of 500,000 deleted rows in the index Index_RowVersion" in finding.text
    assert "trace flag 661" in finding.text
    assert finding.fix is not None
    rebuild = "ALTER INDEX [Index_RowVersion] ON [nsb].[dbo].[orders] REBUILD WITH (ONLINE = ON);"
    assert finding.fix.text.endswith(rebuild)


def test_deleted_rows_that_transactions_may_still_read_have_no_fix() -> None:
    """A rebuild keeps them; ghosts of either kind count together."""
    pages = IndexPages("Index_RowVersion", 2 * GHOST_PAGES, records=1, ghosts=200_000, version_ghosts=300_000)
    (finding,) = of_pages(pages)
    assert (finding.code, finding.fix) == ("ghost-records", None)
    assert "500,000 deleted rows" in finding.text
    assert "readable secondary replica" in finding.text


def test_deleted_rows_in_other_indexes_are_in_no_receives_way() -> None:
    many = {"records": 1, "ghosts": 1_000_000}
    assert of_pages(IndexPages("Index_Expires", 10_000, **many), IndexPages(None, 10_000, **many)) == []


@pytest.mark.parametrize(
    ("records", "forwarded", "found"), [(10_000, 1_000, True), (10_001, 1_000, False), (10, 999, False), (0, 0, False)]
)
def test_forwarded_rows_of_a_heap_are_named_from_a_share_of_it_on(records: int, forwarded: int, found: bool) -> None:
    findings = of_pages(IndexPages(None, READ_PAGES, records, forwarded=forwarded))
    assert [finding.code for finding in findings] == ["forwarded-rows"] * found
    for finding in findings:
        assert (finding.severity, finding.text[:10]) == ("warning", "1,000 rows")
        assert finding.fix is not None
        assert finding.fix.text.endswith("ALTER TABLE [nsb].[dbo].[orders] REBUILD WITH (ONLINE = ON);")


@pytest.mark.parametrize(
    ("pages", "percent", "found"), [(1_000, 30.0, True), (999, 99.0, False), (1_000_000, 29.9, False)]
)
def test_an_index_whose_pages_are_out_of_order_is_noted(pages: int, percent: float, found: bool) -> None:
    findings = of_pages(IndexPages("Index_Expires", pages, fragmentation=percent), IndexPages(None, pages))
    assert [finding.code for finding in findings] == ["fragmented-Index_Expires"] * found
    for finding in findings:
        assert finding.severity == "note"
        assert "30 % of the 1,000 pages" in finding.text
        assert finding.fix is not None
        assert finding.fix.text.endswith("ALTER INDEX [Index_Expires] ON [nsb].[dbo].[orders] REORGANIZE;")


def test_an_index_without_page_locks_is_rebuilt_because_it_cannot_be_reorganized() -> None:
    (finding,) = of_pages(IndexPages("Index_Expires", 1_000, fragmentation=50.0, page_locks=False))
    assert finding.fix is not None
    assert finding.fix.text.endswith("REBUILD WITH (ONLINE = ON);")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionDeniedError("no"), "VIEW DATABASE STATE"),
        (LockTimeoutError("no"), "locks the whole table: try again"),
    ],
)
def test_pages_that_cannot_be_read_are_a_note(error: Exception, remedy: str) -> None:
    (finding,) = of_pages(error)
    assert (finding.code, finding.severity, finding.fix) == ("pages-unknown", "note", None)
    assert remedy in finding.text


def test_a_heap_with_empty_pages_and_forwarded_rows_has_each_finding_once() -> None:
    heap = IndexPages(None, 10_000, records=2_000, forwarded=1_500)
    found = of_pages(heap, data_pages=10_000, rows=2_000)
    assert [finding.code for finding in found] == ["heap-bloat", "forwarded-rows"]
