"""Flow over time, for the page: usage by day, the report for Particular, and the conversation of a message."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from airflow_sqlqueue import __version__
from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.flow.endpoint_usage import EndpointDay, EndpointUsage
from airflow_sqlqueue.flow.queue_usage import QueueDay, QueueUsage
from airflow_sqlqueue.flow.report import usage_report
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.servers import catalogs_of, session_of
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.untrusted import label

router = APIRouter()

MAX_DAYS = 400
MAX_ROWS = 200
"""Queues, or endpoints and types, that a request answers with: those with the most messages."""

SEARCH_SECONDS = 8.0

Days = Annotated[int, Query(ge=1, le=MAX_DAYS)]


class ConversationQuery(RequestBody):
    """Request for a conversation: its id is a value of a header, so no URL has it."""

    conversation_id: str = Field(min_length=1, max_length=500)


class ReportQuery(RequestBody):
    """Request for the report."""

    customer: str = Field(min_length=1, max_length=200)
    days: int = Field(30, ge=1, le=MAX_DAYS)


@router.get("/usage")
def usage(conn_id: str, days: Days = 30) -> dict[str, Any]:
    """Messages by day of each queue and of each endpoint and type; a list of dates, and counts in their order."""
    with session_of(conn_id) as (client, session):
        dates, queues, endpoints = _usage(client, session, days)
    by_queue: dict[tuple[str, ...], dict[str, int]] = {}
    by_type: dict[tuple[str, ...], dict[str, int]] = {}
    failed: dict[tuple[str, ...], int] = {}
    for queue in queues:
        counts = by_queue.setdefault((queue.queue,), {})
        counts[queue.day.isoformat()] = counts.get(queue.day.isoformat(), 0) + queue.messages
    for each in endpoints:
        key = (each.endpoint, each.message_type)
        counts = by_type.setdefault(key, {})
        counts[each.day.isoformat()] = counts.get(each.day.isoformat(), 0) + each.messages
        failed[key] = failed.get(key, 0) + each.failed
    return {
        "days": dates,
        "queues": [{"queue": key[0], "counts": counts} for key, counts in _most(by_queue, dates)],
        "endpoints": [
            {
                "endpoint": label(key[0]),
                "message_type": label(key[1]) or None,
                "failed": failed[key],
                "counts": counts,
            }
            for key, counts in _most(by_type, dates)
        ],
        "left_out": max(0, len(by_queue) - MAX_ROWS) + max(0, len(by_type) - MAX_ROWS),
    }


@router.post("/usage/report")
def report(conn_id: str, wanted: Annotated[ReportQuery, Depends(read_as(ReportQuery))]) -> dict[str, Any]:
    """Usage report in the form of Particular's tools."""
    with session_of(conn_id) as (client, session):
        _, queues, endpoints = _usage(client, session, wanted.days)
    now = datetime.now(timezone.utc)
    return usage_report(queues, endpoints, customer=wanted.customer, version=__version__, now=now)


@router.post("/conversation")
def conversation(
    conn_id: str, wanted: Annotated[ConversationQuery, Depends(read_as(ConversationQuery))]
) -> dict[str, Any]:
    """Conversation, as far as the newest batches have it; the search ends after some seconds."""
    with session_of(conn_id) as (client, session):
        found = client.batches.conversation(
            wanted.conversation_id, catalogs=catalogs_of(client), max_seconds=SEARCH_SECONDS, session=session
        )
    return {
        "steps": [step.to_dict() for step in found.steps],
        "batches": found.batches,
        "unread": found.unread,
        "complete": found.complete,
    }


def _usage(client: QueueClient, session: Session, days: int) -> tuple[list[str], list[QueueDay], list[EndpointDay]]:
    """Return the dates, and the usage of all databases that the page shows."""
    until = datetime.now(timezone.utc).date()
    since = until - timedelta(days=days - 1)
    queues: list[QueueDay] = []
    endpoints: list[EndpointDay] = []
    for catalog in catalogs_of(client):
        queues += QueueUsage(session, catalog, client.ledger_schema).days(since, until)
        endpoints += EndpointUsage(session, catalog, client.ledger_schema).days(since, until)
    return [(since + timedelta(days=n)).isoformat() for n in range(days)], queues, endpoints


def _most(
    counted: dict[tuple[str, ...], dict[str, int]], dates: list[str]
) -> list[tuple[tuple[str, ...], list[int | None]]]:
    """Return the keys with the most messages, each with its counts by date; None for a day without a record."""
    most = sorted(counted.items(), key=lambda item: (-sum(item[1].values()), item[0]))[:MAX_ROWS]
    return [(key, [counts.get(date) for date in dates]) for key, counts in most]
