"""OpenMetrics endpoint of the page; needs the metrics token.

A scrape takes a snapshot of every connection, or uses a recent one; it has no user, and checks no rights.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import UNFINISHED
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.plugin import settings
from airflow_sqlqueue.plugin.addresses import catalogs_of
from airflow_sqlqueue.plugin.servers import Server, server_of, shown_connections
from airflow_sqlqueue.plugin.snapshots import SNAPSHOTS, Snapshot
from airflow_sqlqueue.untrusted import metric_labels

log = logging.getLogger(__name__)

router = APIRouter()

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SCRAPE_SECONDS = 8.0
"""Time after which a scrape answers with the samples that it has."""

_AT_ONCE = 4


@dataclass(frozen=True)
class _Family:
    """Metric family: name, type and help text."""

    name: str
    kind: str
    text: str


FAMILIES = {
    family.name: family
    for family in (
        _Family("sqlqueue_up", "gauge", "1 if the last snapshot of the connection's server met no problem, else 0."),
        _Family("sqlqueue_messages", "gauge", "Messages by SQL Server's catalog, with expired ones; an estimate."),
        _Family("sqlqueue_inserted", "counter", "Rows ever inserted, by the identity column; an estimate."),
        _Family("sqlqueue_delayed_messages", "gauge", "Messages in the table of delayed messages; an estimate."),
        _Family("sqlqueue_expired_messages", "gauge", "Expired messages among the first 1,000."),
        _Family("sqlqueue_quarantined_messages", "gauge", "Messages in quarantine."),
        _Family("sqlqueue_oldest_seconds", "gauge", "Age of the first message, by its header TimeSent."),
        _Family("sqlqueue_findings", "gauge", "Findings of the inspection of the queue, by severity."),
        _Family("sqlqueue_batches", "gauge", "Unfinished batches by state."),
        _Family("sqlqueue_batch_oldest_seconds", "gauge", "Age of the oldest unfinished batch by state."),
    )
}

Sample = tuple[str, dict[str, str], float]
"""Name of a family, labels, and a value."""


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Return the metrics of all connections in OpenMetrics; 401 while the configuration has no token."""
    token = settings.metrics_token()
    given = request.headers.get("authorization", "")
    if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise HTTPException(401, "Metrics take the token of [sqlqueue] page_metrics_token, as a Bearer token.")
    return Response(exposition(_scrape()), media_type=MEDIA_TYPE)


def exposition(samples: list[Sample]) -> str:
    """OpenMetrics text of samples."""
    lines = []
    for name, family in FAMILIES.items():
        own = [(labels, value) for of, labels, value in samples if of == name]
        if not own:
            continue
        lines += [f"# TYPE {name} {family.kind}", f"# HELP {name} {family.text}"]
        suffix = "_total" if family.kind == "counter" else ""
        for labels, value in own:
            lines.append(f"{name}{suffix}{{{metric_labels(labels)}}} {value:{'.3f' if value % 1 else '.0f'}}")
    return "\n".join([*lines, "# EOF", ""])


def _scrape() -> list[Sample]:
    conn_ids = [each.conn_id for each in shown_connections()]
    pool = ThreadPoolExecutor(_AT_ONCE, "sqlqueue-metrics")
    futures = {conn_id: pool.submit(_of_connection, conn_id) for conn_id in conn_ids}
    done, _ = wait(futures.values(), SCRAPE_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    samples: list[Sample] = []
    for conn_id, future in futures.items():
        if future in done and not future.cancelled():
            samples += future.result()
        else:
            samples.append(("sqlqueue_up", {"conn_id": conn_id}, 0))
    return samples


def _of_connection(conn_id: str) -> list[Sample]:
    try:
        server = server_of(conn_id)
        snapshot = SNAPSHOTS.get(conn_id, server.client)
    except Exception as error:
        log.warning("No metrics of the connection %r: %s", conn_id, type(error).__name__)
        return [("sqlqueue_up", {"conn_id": conn_id}, 0)]
    found = list(_of_snapshot(conn_id, snapshot))
    if snapshot.problem is None:
        # An unreadable ledger does not hide the queues.
        with suppress(Exception):
            found += list(_of_batches(server))
    return found


def _of_snapshot(conn_id: str, snapshot: Snapshot) -> Iterator[Sample]:
    yield "sqlqueue_up", {"conn_id": conn_id}, snapshot.problem is None
    for each in snapshot.queues:
        overview = each.overview
        labels = {"conn_id": conn_id, **_names(overview.table), "kind": overview.kind}
        yield "sqlqueue_messages", labels, overview.rows
        age = None if overview.oldest is None else max(0.0, snapshot.at.timestamp() - overview.oldest.timestamp())
        values = {
            "sqlqueue_inserted": overview.inserted,
            "sqlqueue_delayed_messages": overview.delayed,
            "sqlqueue_expired_messages": overview.expired,
            "sqlqueue_quarantined_messages": overview.quarantined,
            "sqlqueue_oldest_seconds": 0.0 if age is None and not overview.rows else age,
        }
        yield from ((name, labels, float(value)) for name, value in values.items() if value is not None)
        severities = [finding.severity for finding in overview.findings]
        for severity in dict.fromkeys(severities):
            yield "sqlqueue_findings", {**labels, "severity": severity}, severities.count(severity)


def _of_batches(server: Server) -> Iterator[Sample]:
    with server.session() as session:
        for catalog in catalogs_of(server.client):
            ledger = Ledger(session, catalog)
            rows: dict[str, Any] = {}
            if ledger.exists():
                rows = {row[0]: row for row in session.run(ledger.query("ledger.unfinished_by_state"))}
            for state in UNFINISHED:
                _, count, seconds = rows.get(state, (state, 0, 0))
                labels = {"conn_id": server.conn_id, "catalog": catalog, "state": state}
                yield "sqlqueue_batches", labels, int(count)
                yield "sqlqueue_batch_oldest_seconds", labels, max(0.0, float(seconds))


def _names(table: ResolvedAddress) -> dict[str, str]:
    return {"catalog": table.catalog, "schema": table.schema, "queue": table.table}
