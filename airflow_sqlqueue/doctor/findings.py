"""What can be wrong with a queue table: a check for each, and the statement that would mend it.

Sources: reference/statements.md 2.6, 2.7 and 2.9, transactions_and_failures.md 6.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.routing import ResolvedAddress, endpoint_table
from airflow_sqlqueue.server.settings import APPLICATION_NAME
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.sql.columns import LEGACY, definitions
from airflow_sqlqueue.tables.discovery import list_tables
from airflow_sqlqueue.tables.inspection import exists
from airflow_sqlqueue.tables.layout import Index, Layout

BLOATED_PAGES = 1_000
"""Empty pages (8 KiB each) from which a heap counts as bloated."""

ESCALATING_ROWS = 5_000
"""Lock escalation starts at so many locks of one statement; endpoints purge 10,000 rows with one."""


@dataclass(frozen=True)
class Finding:
    """Something to know of a table.

    ``code`` names it for ``--fix``. ``severity`` is error (something does not work), warning (it will hurt) or note.
    ``mend`` is the statement that puts it right, None where only its owner can say what is right.
    """

    code: str
    severity: str
    text: str
    mend: Query | None = None


@dataclass(frozen=True)
class Patient:
    """A table with what the findings need to know of it."""

    session: Session
    layout: Layout
    rows: int
    data_pages: int
    online: bool

    @property
    def table(self) -> ResolvedAddress:
        return self.layout.table

    def statement(self, name: str, **fragments: Fragment) -> Query:
        """A mending statement; with ONLINE where the statement and the server know it."""
        return query(name, table=identifier(self.table), **fragments)

    def options(self, *more: str) -> Fragment:
        options = [*more, *(["ONLINE = ON"] if self.online else [])]
        return Fragment(f" WITH ({', '.join(options)})" if options else "")


def _unusable(patient: Patient) -> Iterator[Finding]:
    if patient.layout.unusable and not any(trigger.instead_of for trigger in patient.layout.triggers):
        yield Finding("unusable", "error", patient.layout.unusable)


def _triggers(patient: Patient) -> Iterator[Finding]:
    active = [trigger for trigger in patient.layout.triggers if not trigger.disabled]
    for name in sorted({trigger.name for trigger in active if trigger.event == "DELETE" or trigger.instead_of}):
        text = f"The trigger {name} keeps endpoints from receiving: no OUTPUT without INTO where it stands (error 334)."
        disable = patient.statement("mend.trigger", trigger=identifier(name))
        yield Finding(f"trigger-{name}", "error", text, disable)


def _columns(patient: Patient) -> Iterator[Finding]:
    for name in patient.layout.unfilled_columns:
        text = f"The column {name} takes no NULL and has no default: nothing can be sent. Give it a default."
        yield Finding(f"unfilled-{name}", "error", text)
    for name, column in patient.layout.columns.items():
        if column.encrypted:
            text = f"The column {name} is always encrypted: connect with ColumnEncryption=Enabled."
            yield Finding(f"encrypted-{name}", "note", text)


def _headers(patient: Patient) -> Iterator[Finding]:
    if patient.layout.columns["Headers"].type == "varchar":
        text = "Headers is varchar: what endpoints write outside its code page becomes question marks."
        alter = patient.statement("mend.headers", options=patient.options())
        yield Finding("headers-not-unicode", "warning", text, alter)


def _row_version_index(patient: Patient) -> Iterator[Finding]:
    index = patient.layout.index_on("RowVersion")
    if index is None:
        text = "No index on RowVersion: every receive scans the table."
        make = patient.statement("create.row_version_nonclustered", options=patient.options())
        yield Finding("row-version-index-missing", "error", text, make)
    elif index.disabled:
        text = "The index on RowVersion is disabled: receiving is slow, or impossible where it is the clustered one."
        yield Finding("row-version-index-disabled", "error", text, _rebuilt(patient, index))


def _expires_index(patient: Patient) -> Iterator[Finding]:
    index = patient.layout.index_on("Expires")
    if index is None:
        text = "No index on Expires: every purge of expired messages scans the table."
        make = patient.statement("create.expires_filtered", options=patient.options())
        yield Finding("expires-index-missing", "warning", text, make)
    elif index.disabled:
        text = "The index on Expires is disabled: every purge of expired messages scans the table."
        yield Finding("expires-index-disabled", "warning", text, _rebuilt(patient, index))
    elif not index.filter and not index.clustered:
        text = "The index on Expires holds every message, expiring or not: each send and receive pays for it."
        options = patient.options("DROP_EXISTING = ON")
        refine = patient.statement("mend.filter_index", index=identifier(index.name), options=options)
        yield Finding("expires-index-not-filtered", "note", text, refine)


def _rebuilt(patient: Patient, index: Index) -> Query:
    # A disabled clustered index cannot be rebuilt online: nothing can be read meanwhile in any case.
    options = Fragment("") if index.clustered else patient.options()
    return patient.statement("mend.rebuild_index", index=identifier(index.name), options=options)


def _bloat(patient: Patient) -> Iterator[Finding]:
    # A row lies in one page, so pages above the number of rows are certainly empty.
    empty = patient.data_pages - patient.rows
    if not any(index.clustered for index in patient.layout.indexes) and empty >= BLOATED_PAGES:
        text = f"A heap keeps the pages of deleted rows: at least {empty:,} pages of {patient.data_pages:,} are empty."
        yield Finding("heap-bloat", "warning", text, patient.statement("mend.rebuild", options=patient.options()))


def _lock_escalation(patient: Patient) -> Iterator[Finding]:
    if patient.layout.lock_escalation != "DISABLE" and patient.rows > ESCALATING_ROWS:
        text = (
            f"{patient.rows:,} rows and lock escalation is on: an endpoint that purges them, 10,000 at once, locks the "
            "whole queue."
        )
        yield Finding("lock-escalation", "note", text, patient.statement("mend.lock_escalation"))


def _copies(patient: Patient) -> Iterator[Finding]:
    if patient.layout.system_versioned:
        text = "The table is system-versioned: every message that was received stays in its history table."
        yield Finding("system-versioned", "warning", text, patient.statement("mend.system_versioning"))
    if patient.layout.change_data_capture:
        text = "Change data capture copies every message: disable it with sys.sp_cdc_disable_table."
        yield Finding("change-data-capture", "warning", text)


def _mover(patient: Patient) -> Iterator[Finding]:
    table = patient.table
    delayed = ResolvedAddress(endpoint_table(table.table, "Delayed"), table.schema, table.catalog)
    if len(delayed.table) > 128 or all(name in patient.layout.columns for name in LEGACY):
        return
    if exists(patient.session, delayed):
        missing = {name: text for name, text in _LEGACY_ADDED.items() if name not in patient.layout.columns}
        text = f"Delayed messages never arrive: endpoints move them with the columns {', '.join(missing)}."
        add = patient.statement("mend.legacy_columns", columns=definitions(missing))
        yield Finding("delayed-needs-legacy-columns", "error", text, add)


_LEGACY_ADDED = {
    "CorrelationId": "varchar(255) NULL",
    "ReplyToAddress": "varchar(255) NULL",
    "Recoverable": "bit NOT NULL DEFAULT 1",
}


def _consumers(patient: Patient) -> Iterator[Finding]:
    table = patient.table
    role = re.split(r"[._-]", table.table)[-1].lower()
    if role not in {"audit", "error"}:
        return
    name = f"{identifier(table.schema)}.{identifier(table.table)}"
    try:
        others = patient.session.run(query("inspect.consumers"), APPLICATION_NAME, name)
    except PermissionDeniedError:
        text = "Whether somebody else consumes it cannot be seen: that takes the permission VIEW SERVER STATE."
        yield Finding("consumers-unknown", "note", text)
        tables = list_tables(patient.session, table.catalog)
        others = [(found.table.table, None) for found in tables if _is_service_control(found.table.table)][:1]
    if others:
        programs = {
            f"{program or 'a program without a name'}{f' on {host}' if host else ''}" for program, host in others
        }
        text = (
            f"It is consumed by {' and '.join(sorted(programs))} as well: a drain gets only what they leave. Stop "
            "them, or drain another queue."
        )
        yield Finding("other-consumer", "warning", text)


def _is_service_control(name: str) -> bool:
    return name.lower().startswith("particular.servicecontrol")


CHECKS: tuple[Callable[[Patient], Iterator[Finding]], ...] = (
    _unusable,
    _triggers,
    _columns,
    _row_version_index,
    _mover,
    _headers,
    _expires_index,
    _bloat,
    _copies,
    _consumers,
    _lock_escalation,
)
