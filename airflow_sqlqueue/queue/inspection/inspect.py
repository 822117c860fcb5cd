"""Inspection of a table, and fixes of its findings."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.routing import DELAYED_SUFFIX, ResolvedAddress
from airflow_sqlqueue.queue.inspection.findings import CHECKS, Finding, InspectedTable, ServerFacts
from airflow_sqlqueue.queue.inspection.pages import check_pages
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import identifier, query

_SEVERITIES = ("error", "warning", "note")
_ONLINE_EDITIONS = {3, 5, 8, 12}
"""Editions with ONLINE: Enterprise and similar, Azure SQL Database, Azure SQL Managed Instance, Fabric."""


@dataclass(frozen=True)
class Inspection:
    """Inspected table. ``rows`` is the catalog's count, expired and locked rows included."""

    layout: Layout
    rows: int
    findings: tuple[Finding, ...]


def inspect(session: Session, table: ResolvedAddress, delayed_suffix: str = DELAYED_SUFFIX) -> Inspection:
    """Read a table's layout and run all checks on it.

    A view, and a table of delayed messages or subscriptions, is described without findings. Raises
    :class:`QueueNotFoundError`.
    """
    layout = read_layout(session, table)
    catalog = identifier(layout.table.catalog)
    rows, pages = session.run(query("inspect.size", catalog=catalog), layout.table.qualified_name)[0]
    if layout.kind != "queue" or layout.object_type == "view":
        return Inspection(layout, int(rows), ())
    inspected = InspectedTable(ServerFacts(session), layout, int(rows), int(pages), is_online(session), delayed_suffix)
    return Inspection(layout, int(rows), findings_of(inspected))


def findings_of(inspected: InspectedTable) -> tuple[Finding, ...]:
    """Return the findings of all checks, the most severe first."""
    findings = [finding for check in (*CHECKS, check_pages) for finding in check(inspected)]
    return tuple(sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity)))


def is_online(session: Session) -> bool:
    """Return whether the server can change a table while others use it (``ONLINE = ON``)."""
    return session.engine_edition in _ONLINE_EDITIONS


def fix(session: Session, table: ResolvedAddress, code: str, delayed_suffix: str = DELAYED_SUFFIX) -> Finding:
    """Run the statement that fixes one finding, and return the finding.

    It is one statement of DDL, outside a transaction: it has its full effect or no effect. Raises
    :class:`ConfigurationError` for an unknown code, and for a finding without such a statement.
    """
    findings = {finding.code: finding for finding in inspect(session, table, delayed_suffix).findings}
    found = findings.get(code)
    if found is None:
        known = ", ".join(findings) or "none"
        raise ConfigurationError(f"{table.canonical} has no finding {code!r} (it has: {known}): name one of them.")
    if found.fix is None:
        raise ConfigurationError(f"No statement fixes {code!r}: {found.text}")
    session.run(found.fix)
    return found
