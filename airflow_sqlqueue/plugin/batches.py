"""Batches of a connection's ledgers, for the page."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import FINISHED
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.plugin.addresses import catalogs_of
from airflow_sqlqueue.plugin.servers import session_of

router = APIRouter(prefix="/batches")

MAX_PATHS = 1_000


@router.get("")
def newest(conn_id: str, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> dict[str, Any]:
    """Batches that were opened last, the newest first; a database that cannot be read does not hide the others.

    ``ledgers`` lists each database with finished batches, and a queue in it, which a request for a sweep names.
    """
    problems: list[str] = []
    found: list[BatchInfo] = []
    ledgers: list[dict[str, str]] = []
    try:
        with session_of(conn_id) as (client, session):
            for catalog in catalogs_of(client):
                try:
                    here = batches(Ledger(session, catalog, client.ledger_schema), newest=limit)
                    finished = [info.queue for info in here if info.state in FINISHED]
                    ledgers += [{"database": catalog, "queue": queue} for queue in finished[:1]]
                    found += here
                except SqlQueueError as error:
                    problems.append(str(error))
    except SqlQueueError as error:
        problems.append(str(error))
    found.sort(key=lambda info: info.opened, reverse=True)
    return {
        "problem": " ".join(problems) or None,
        "batches": [_shown(info) for info in found[:limit]],
        "ledgers": ledgers,
    }


@router.get("/{batch_id}")
def batch(conn_id: str, batch_id: uuid.UUID) -> dict[str, Any]:
    """Batch with the paths of its files."""
    with session_of(conn_id) as (client, session):
        ledger, info = find_batch(client, session, batch_id)
        paths = [part.path for part in ledger.parts(batch_id) if part.path is not None]
    return {**_shown(info), "paths": paths[:MAX_PATHS]}


def find_batch(client: Any, session: Any, batch_id: uuid.UUID) -> tuple[Ledger, BatchInfo]:
    """Find a batch in the connection's ledgers. 404 if no ledger has it."""
    for catalog in catalogs_of(client):
        ledger = Ledger(session, catalog, client.ledger_schema)
        if found := batches(ledger, batch_id=batch_id):
            return ledger, found[0]
    raise HTTPException(404, f"No ledger of the connection knows the batch {batch_id}.")


def actions_for(info: BatchInfo) -> list[str]:
    """Actions that the batch's state allows; its drain ends an open batch, and a sweep removes a finished one.

    A redacted batch goes back into its queue by the command line only, with a word that accepts it.
    """
    if info.state != "sealed":
        return []
    return ["mark_consumed"] if info.kept or info.redacted else ["requeue", "mark_consumed"]


def _shown(info: BatchInfo) -> dict[str, Any]:
    dag_id, run_id, task_id = _task(info.origin)
    return {
        "batch_id": str(info.batch_id),
        "queue": info.queue,
        "state": info.state,
        "messages": info.messages,
        "bytes": info.bytes,
        "parts": info.parts,
        "created": info.opened.isoformat(),
        "age_seconds": round(info.age.total_seconds(), 1),
        "origin": info.origin,
        "dag_id": dag_id,
        "run_id": run_id,
        "task_id": task_id,
        "stage": info.stage,
        "redacted": info.redacted is not None,
        "erased": info.erased,
        "actions": actions_for(info),
    }


def _task(origin: str) -> tuple[str | None, str | None, str | None]:
    """DAG, run and task in the origin of a batch that a task has drained; the map index is its fourth part."""
    parts = origin.split(" ")
    if len(parts) != 4 or not parts[3].lstrip("-").isdigit():
        return None, None, None
    return parts[0], parts[1], parts[2]
