"""Batches of a connection's ledgers, for the page."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Query

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import FINISHED
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.plugin.addresses import catalogs_of
from airflow_sqlqueue.plugin.batch_actions import actions_for, find_batch
from airflow_sqlqueue.plugin.servers import RequestedServer

router = APIRouter(prefix="/batches")

MAX_PATHS = 1_000


@router.get("")
def newest(server: RequestedServer, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> dict[str, Any]:
    """Return the batches that were opened last, the newest first, also if some databases cannot be read.

    ``ledgers`` lists each database with finished batches, and a queue in it, which a request for a sweep names.
    """
    problems: list[str] = []
    found: list[BatchInfo] = []
    ledgers: list[dict[str, str]] = []
    try:
        with server.session() as session:
            for catalog in catalogs_of(server.client):
                try:
                    here = batches(Ledger(session, catalog), newest=limit)
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
def batch(server: RequestedServer, batch_id: uuid.UUID) -> dict[str, Any]:
    """Batch with the paths of its files."""
    with server.session() as session:
        ledger, info = find_batch(server.client, session, batch_id)
        paths = [part.path for part in ledger.parts(batch_id) if part.path is not None]
    return {**_shown(info), "paths": paths[:MAX_PATHS]}


def _shown(info: BatchInfo) -> dict[str, Any]:
    # The origin of a batch that a task has drained: DAG, run, task and map index.
    parts = info.origin.split(" ")
    task = parts[:3] if len(parts) == 4 and parts[3].lstrip("-").isdigit() else [None] * 3
    names = dict(zip(("dag_id", "run_id", "task_id"), task, strict=True))
    return {**info.to_dict(), **names, "redacted": info.redacted is not None, "actions": actions_for(info)}
