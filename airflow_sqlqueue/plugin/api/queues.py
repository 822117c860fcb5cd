"""Queues of a connection, for the page."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter

from airflow_sqlqueue.plugin.servers import RequestedServer
from airflow_sqlqueue.plugin.snapshots import SNAPSHOTS, WatchedQueue

router = APIRouter()


@router.get("/queues")
def queues(server: RequestedServer) -> dict[str, Any]:
    """Return the queues with their counts, rates and findings; ``problem`` is a sentence if the server is down."""
    snapshot = SNAPSHOTS.get(server.conn_id, server.client)
    return {
        "looked_at": snapshot.at.isoformat(),
        "problem": snapshot.problem,
        "queues": [_queue(each, snapshot.at.timestamp()) for each in snapshot.queues],
    }


def _queue(each: WatchedQueue, now: float) -> dict[str, Any]:
    overview = each.overview
    table = overview.table
    return {
        "address": table.canonical,
        "name": table.table,
        "schema": table.schema,
        "catalog": table.catalog,
        "messages": overview.rows,
        "is_estimate": True,
        "kind": "error" if overview.kind == "queue" and is_error_queue(table.table) else overview.kind,
        "delayed": overview.delayed,
        "expired": overview.expired,
        "quarantined": overview.quarantined,
        "oldest_seconds": None if overview.oldest is None else max(0.0, round(now - overview.oldest.timestamp(), 1)),
        "rate_in": each.rate_in,
        "rate_out": each.rate_out,
        "history": each.history,
        "findings": [
            {
                "severity": "info" if finding.severity == "note" else finding.severity,
                "sentence": finding.text,
                "statement": None if finding.fix is None else finding.fix.text,
            }
            for finding in overview.findings
        ],
    }


def is_error_queue(table: str) -> bool:
    """Return whether a queue is an error queue, by the last part of its name."""
    return re.split(r"[._-]", table)[-1].lower() == "error"
