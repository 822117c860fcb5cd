"""Findings about a queue table: a check for each fault, and the statement that would fix it.

Sources: docs/transport/queue-tables.md, "Queue length", "Purging" and "Delayed messages";
docs/transport/transactions.md, "Storage of queue tables".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.messages.address import has_valid_length
from airflow_sqlqueue.messages.routing import DELAYED_SUFFIX, ResolvedAddress, endpoint_table
from airflow_sqlqueue.messages.row import COLUMNS, LEGACY, SENT_BITS
from airflow_sqlqueue.queue.receivers import programs
from airflow_sqlqueue.queue.tables.discovery import list_tables
from airflow_sqlqueue.queue.tables.layout import Index, Layout
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.server.sql.columns import definitions

BLOATED_PAGES = 1_000
"""Number of empty pages (8 KiB each) from which a heap counts as bloated."""

ESCALATING_ROWS = 5_000
"""Number of locks of one statement at which lock escalation starts; endpoints purge 10,000 rows with one."""


@dataclass(frozen=True)
class Finding:
    """Finding about a table.

    ``code`` names it for ``--fix``. ``severity`` is error (something does not work), warning (it will hurt) or note.
    ``fix`` is the statement that repairs the table, None where the table's owner must decide.
    """

    code: str
    severity: str
    text: str
    fix: Query | None = None


@dataclass(frozen=True)
class IndexPages:
    """Pages of an index, or of a heap (``index`` is None), without those of large bodies.

    ``records`` are its rows. ``ghosts`` are deleted rows that ghost cleanup may remove, ``version_ghosts`` those that
    transactions may still read. ``forwarded`` counts the rows of a heap that moved to another page. ``fragmentation``
    is the percentage of pages out of order, of a heap that of extents, or 0. From 10,000 pages on, SQL Server estimates
    all of that from every hundredth page.
    """

    index: str | None
    pages: int
    records: int = 0
    ghosts: int = 0
    version_ghosts: int = 0
    forwarded: int = 0
    fragmentation: float = 0.0
    page_locks: bool = True


@dataclass(frozen=True)
class ServerFacts:
    """Facts about the server that checks need beside the table's own layout; each costs one statement."""

    session: Session

    def exists(self, table: ResolvedAddress) -> bool:
        """Return whether the table exists and the login may see it."""
        return exists(self.session, table)

    def durability(self, catalog: str) -> str | None:
        """Return the durability of a COMMIT in the database, from ``sys.databases``."""
        found: str | None = self.session.value(query("inspect.durability"), catalog)
        return found

    def receivers(self, table: ResolvedAddress) -> list[str]:
        """Return the other receivers of a queue. Raises :class:`PermissionDeniedError`."""
        return programs(self.session, query("inspect.receivers"), table)

    def pages(self, table: ResolvedAddress) -> Sequence[IndexPages]:
        """Return the pages of a table's heap and indexes, without disabled ones; reads up to 10,000 pages of each, or a
        sample.

        Raises :class:`PermissionDeniedError`, and :class:`LockTimeoutError` for a table that is locked as a whole.
        """
        statement = query("inspect.pages", catalog=identifier(table.catalog))
        rows = self.session.run(statement, table.catalog, table.qualified_name)
        return [
            IndexPages(
                index,
                int(pages),
                int(records),
                int(ghosts),
                int(version_ghosts),
                int(forwarded),
                float(fragmentation),
                bool(page_locks),
            )
            for index, pages, records, ghosts, version_ghosts, forwarded, fragmentation, page_locks in rows
        ]


@dataclass(frozen=True)
class InspectedTable:
    """Table with the facts that the checks need."""

    server: ServerFacts
    layout: Layout
    rows: int
    data_pages: int
    online: bool
    delayed_suffix: str = DELAYED_SUFFIX

    @property
    def table(self) -> ResolvedAddress:
        return self.layout.table

    def statement(self, name: str, **fragments: Fragment) -> Query:
        """Make a statement that fixes a finding in the table."""
        return query(name, table=identifier(self.table), **fragments)

    def options(self, *more: str) -> Fragment:
        """Return the options of an index statement, with ONLINE if the server supports it."""
        options = [*more, *(["ONLINE = ON"] if self.online else [])]
        return Fragment(f" WITH ({', '.join(options)})" if options else "")


def _unusable(inspected: InspectedTable) -> Iterator[Finding]:
    if inspected.layout.unusable and not any(trigger.instead_of for trigger in inspected.layout.triggers):
        yield Finding("unusable", "error", inspected.layout.unusable)


def _triggers(inspected: InspectedTable) -> Iterator[Finding]:
    active = [trigger for trigger in inspected.layout.triggers if not trigger.disabled]
    for name in sorted({trigger.name for trigger in active if trigger.event == "DELETE" or trigger.instead_of}):
        text = f"The trigger {name} keeps endpoints from receiving: OUTPUT without INTO fails on its table (error 334)."
        disable = inspected.statement("fix.trigger", trigger=identifier(name))
        yield Finding(f"trigger-{name}", "error", text, disable)


def _columns(inspected: InspectedTable) -> Iterator[Finding]:
    for name in inspected.layout.unfilled_columns:
        text = f"The column {name} takes no NULL and has no default: nothing can be sent. Give it a default."
        yield Finding(f"unfilled-{name}", "error", text)
    for name, column in inspected.layout.columns.items():
        if column.encrypted:
            # DATALENGTH, LIKE and NULLIF do not take an encrypted column, and the server does not describe parameters
            # in a VALUES list as parameters for it.
            text = f"The column {name} is always encrypted, which is not supported: use another queue."
            yield Finding(f"encrypted-{name}", "warning", text)


def _headers(inspected: InspectedTable) -> Iterator[Finding]:
    if inspected.layout.columns["Headers"].type == "varchar":
        text = "Headers is varchar: characters outside its code page become question marks."
        alter = inspected.statement("fix.headers", options=inspected.options())
        yield Finding("headers-not-unicode", "warning", text, alter)


def _row_version_index(inspected: InspectedTable) -> Iterator[Finding]:
    index = inspected.layout.index_on("RowVersion")
    if index is None:
        text = "No index on RowVersion: every receive scans the table."
        make = inspected.statement("create.row_version_nonclustered", options=inspected.options())
        yield Finding("row-version-index-missing", "error", text, make)
    elif index.disabled:
        text = "The index on RowVersion is disabled: receiving is slow, or impossible where it is the clustered one."
        yield Finding("row-version-index-disabled", "error", text, _rebuilt(inspected, index))


def _expires_index(inspected: InspectedTable) -> Iterator[Finding]:
    index = inspected.layout.index_on("Expires")
    if index is None:
        text = "No index on Expires: every purge of expired messages scans the table."
        make = inspected.statement("create.expires_filtered", options=inspected.options())
        yield Finding("expires-index-missing", "warning", text, make)
    elif index.disabled:
        text = "The index on Expires is disabled: every purge of expired messages scans the table."
        yield Finding("expires-index-disabled", "warning", text, _rebuilt(inspected, index))
    elif not index.filtered and not index.clustered:
        text = "The index on Expires holds every message, expiring or not: each send and receive pays for it."
        options = inspected.options("DROP_EXISTING = ON")
        refine = inspected.statement("fix.filter_index", index=identifier(index.name), options=options)
        yield Finding("expires-index-not-filtered", "note", text, refine)


def _rebuilt(inspected: InspectedTable, index: Index) -> Query:
    # A disabled clustered index cannot be rebuilt online: nothing can be read meanwhile in any case.
    options = Fragment("") if index.clustered else inspected.options()
    return inspected.statement("fix.rebuild_index", index=identifier(index.name), options=options)


def _bloat(inspected: InspectedTable) -> Iterator[Finding]:
    # A row is in one page, so at least the pages above the number of rows are empty.
    empty = inspected.data_pages - inspected.rows
    if not any(index.clustered for index in inspected.layout.indexes) and empty >= BLOATED_PAGES:
        text = (
            f"A heap keeps the pages of deleted rows: at least {empty:,} pages of {inspected.data_pages:,} are empty."
        )
        yield Finding("heap-bloat", "warning", text, inspected.statement("fix.rebuild", options=inspected.options()))


def _lock_escalation(inspected: InspectedTable) -> Iterator[Finding]:
    if inspected.layout.lock_escalation != "DISABLE" and inspected.rows > ESCALATING_ROWS:
        text = (
            f"{inspected.rows:,} rows and lock escalation is on: an endpoint that purges them, 10,000 at once, locks "
            "the whole queue."
        )
        yield Finding("lock-escalation", "note", text, inspected.statement("fix.lock_escalation"))


def _copies(inspected: InspectedTable) -> Iterator[Finding]:
    if inspected.layout.system_versioned:
        text = (
            "The table is system-versioned: every message that was received stays in its history table. The fix "
            "needs the permission CONTROL on both tables."
        )
        yield Finding("system-versioned", "warning", text, inspected.statement("fix.system_versioning"))
    if inspected.layout.change_data_capture:
        text = "Change data capture copies every message: disable it with sys.sp_cdc_disable_table."
        yield Finding("change-data-capture", "warning", text)


def _durability(inspected: InspectedTable) -> Iterator[Finding]:
    catalog = inspected.table.catalog
    if inspected.server.durability(catalog) == "FORCED":
        # A COMMIT cannot be more durable than the database ("Control Transaction Durability").
        text = (
            f"DELAYED_DURABILITY is FORCED in {catalog}: a crash undoes the last commits, so messages that were "
            "received or drained are in the queue again, and sends are lost. Set it to DISABLED or ALLOWED."
        )
        yield Finding("delayed-durability", "warning", text)


def _mover(inspected: InspectedTable) -> Iterator[Finding]:
    table = inspected.table
    name = endpoint_table(table.table, inspected.delayed_suffix)
    if not has_valid_length(name) or all(name in inspected.layout.columns for name in LEGACY):
        return
    if inspected.server.exists(replace(table, table=name)):
        missing = {name: text for name, text in _LEGACY_ADDED.items() if name not in inspected.layout.columns}
        text = f"Delayed messages never arrive: endpoints move them with the columns {', '.join(missing)}."
        add = inspected.statement("fix.legacy_columns", columns=definitions(missing))
        yield Finding("delayed-needs-legacy-columns", "error", text, add)


_LEGACY_ADDED = {
    column.name: column.definition + (f" DEFAULT {column.sent}" if column.name in SENT_BITS else "")
    for column in COLUMNS
    if column.legacy
}


def _consumers(inspected: InspectedTable) -> Iterator[Finding]:
    table = inspected.table
    role = re.split(r"[._-]", table.table)[-1].lower()
    if role not in {"audit", "error"}:
        return
    try:
        others = inspected.server.receivers(table)
    except PermissionDeniedError:
        text = (
            "Other receivers of the queue cannot be seen: grant VIEW SERVER STATE, in Azure SQL Database VIEW DATABASE "
            "STATE."
        )
        yield Finding("consumers-unknown", "note", text)
        tables = list_tables(inspected.server.session, table.catalog)
        names = (found.table.table for found in tables)
        others = [name for name in names if name.lower().startswith("particular.servicecontrol")][:1]
    if others:
        text = (
            f"It is consumed by {' and '.join(others)} as well: a drain gets only the messages that they leave. Stop "
            "them, or drain another queue."
        )
        yield Finding("other-consumer", "warning", text)


CHECKS: tuple[Callable[[InspectedTable], Iterator[Finding]], ...] = (
    _unusable,
    _triggers,
    _columns,
    _row_version_index,
    _mover,
    _headers,
    _expires_index,
    _bloat,
    _copies,
    _durability,
    _consumers,
    _lock_escalation,
)
