"""Findings about the pages of a queue table: deleted rows that stay, forwarded rows, pages out of order.

They read pages, so small tables are left out. Source: docs/transport/transactions.md, "Storage of queue tables".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_sqlqueue.errors import LockTimeoutError, PermissionDeniedError
from airflow_sqlqueue.queue.inspection.findings import Finding, IndexPages, InspectedTable
from airflow_sqlqueue.server.sql import identifier

READ_PAGES = 1_000
"""Number of data pages (8 KiB each) from which a table's pages are read: nothing about a smaller table costs much."""

GHOST_PAGES = 1_000
"""Number of pages with deleted rows before the head of a queue from which they count as many.

A receive that meets none reads three or four pages. Ghost cleanup clears at most 10 pages each 5 seconds, so this is
the work of eight minutes.
"""

FORWARDED_ROWS = 1_000
"""Number of forwarded rows from which they count, if they are also a share of the heap."""

FORWARDED_SHARE = 0.1
"""Share of forwarded rows in a heap from which they count: each costs a read of a second page."""

FRAGMENTED_PERCENT = 30.0
"""Percentage of pages out of order from which Microsoft's old rule of thumb has an index defragmented."""

FRAGMENTED_PAGES = 1_000
"""Number of pages below which the order of an index's pages has no effect that one could measure."""


def check_pages(inspected: InspectedTable) -> Iterator[Finding]:
    """Find what the pages of the table show; a login without the permission gets a note."""
    if inspected.data_pages < READ_PAGES:
        return
    try:
        pages = inspected.server.pages(inspected.table)
    except PermissionDeniedError:
        text = (
            "Deleted rows that stay, forwarded rows and pages out of order cannot be seen: grant VIEW DATABASE STATE, "
            "from SQL Server 2022 on VIEW DATABASE PERFORMANCE STATE, or CONTROL on the table."
        )
        yield Finding("pages-unknown", "note", text)
        return
    except LockTimeoutError:
        text = "The pages cannot be read, because another session locks the whole table: try again."
        yield Finding("pages-unknown", "note", text)
        return
    for each in pages:
        for check in _CHECKS:
            yield from check(inspected, each)


def _ghosts(inspected: InspectedTable, pages: IndexPages) -> Iterator[Finding]:
    sought = inspected.layout.index_on("RowVersion")
    ghosts = pages.ghosts + pages.version_ghosts
    if sought is None or pages.index != sought.name or not ghosts:
        return
    # Messages leave at the head, so the deleted rows are together and every search for the head passes them.
    passed = pages.pages * ghosts // (pages.records + ghosts)
    if passed < GHOST_PAGES:
        return
    text = f"A receive passes about {passed:,} pages of {ghosts:,} deleted rows in the index {sought.name}. "
    if pages.version_ghosts > pages.ghosts:
        # A rebuild would have to keep them too.
        text += (
            "Most are kept for a transaction that reads row versions, here or on a readable secondary replica: end it."
        )
        yield Finding("ghost-records", "warning", text)
    else:
        text += "Ghost cleanup is behind, or trace flag 661 has disabled it. A rebuild of the index removes them."
        options = inspected.options()
        rebuild = inspected.statement("fix.rebuild_index", index=identifier(sought.name), options=options)
        yield Finding("ghost-records", "warning", text, rebuild)


def _forwarded(inspected: InspectedTable, pages: IndexPages) -> Iterator[Finding]:
    if pages.forwarded >= max(FORWARDED_ROWS, FORWARDED_SHARE * pages.records):
        text = (
            f"{pages.forwarded:,} rows of the heap have moved to other pages, because an update made them longer: a "
            "read of one reads two pages."
        )
        rebuild = inspected.statement("fix.rebuild", options=inspected.options())
        yield Finding("forwarded-rows", "warning", text, rebuild)


def _fragmentation(inspected: InspectedTable, pages: IndexPages) -> Iterator[Finding]:
    if pages.index is None or pages.pages < FRAGMENTED_PAGES or pages.fragmentation < FRAGMENTED_PERCENT:
        return
    text = (
        f"{pages.fragmentation:.0f} % of the {pages.pages:,} pages of the index {pages.index} are out of order: scans "
        "of it read ahead less."
    )
    # REORGANIZE is always online, but fails where page locks are off.
    index = identifier(pages.index)
    if pages.page_locks:
        fix = inspected.statement("fix.reorganize_index", index=index)
    else:
        fix = inspected.statement("fix.rebuild_index", index=index, options=inspected.options())
    yield Finding(f"fragmented-{pages.index}", "note", text, fix)


_CHECKS: tuple[Callable[[InspectedTable, IndexPages], Iterator[Finding]], ...] = (_ghosts, _forwarded, _fragmentation)
