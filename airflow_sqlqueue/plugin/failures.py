"""Groups of failed messages, for the page."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.archive import Archive, ArchivedMessages
from airflow_sqlqueue.errorqueue.failed_message import Archived, FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.groupings import GROUPINGS, group_name, value_of
from airflow_sqlqueue.errorqueue.scan import ErrorQueue, FailedMessages, scan
from airflow_sqlqueue.errorqueue.triage import ErrorGroup
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.plugin.addresses import Address, DatabaseNotShownError
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.servers import queue_of
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.untrusted import label

router = APIRouter()

MAX_SCANNED = 10_000
"""Messages of an error queue that one request reads."""

SECONDS = 5.0
BARS = 48
"""Hours of a histogram: the last ones with a failure."""

Grouping = Annotated[str, Field(pattern=f"^({'|'.join(GROUPINGS)})$")]
Group = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class FailuresQuery(RequestBody):
    """Request for the groups of an error queue, or of its archived messages."""

    queue: Address = Address("error")
    archived: bool = False
    group_by: Grouping = "exception_type"
    limit: int = Field(50, ge=1, le=200)


@dataclass
class _Group(ErrorGroup):
    hours: Counter[datetime] = field(default_factory=Counter)
    archived: Archived | None = None

    def add(self, message: FailedMessage) -> None:
        super().add(message)
        self.archived = message.archived
        moment = message.time_of_failure
        if moment is not None:
            self.hours[moment.astimezone(timezone.utc).replace(minute=0, second=0, microsecond=0)] += 1


def of_group(by: Grouping, group: str) -> ErrorFilter:
    """Filter of the messages of one group, whose name the page has from :func:`failures`."""
    return ErrorFilter(group=f"{by}:{group}")


@router.post("/failures")
def failures(conn_id: str, wanted: Annotated[FailuresQuery, Depends(read_as(FailuresQuery))]) -> dict[str, Any]:
    """Groups of an error queue or its archive, the largest first; the request reads headers, but no bodies."""
    key = wanted.group_by
    groups: dict[str, _Group] = {}
    problem, messages, is_complete = None, 0, False
    try:
        with queue_of(conn_id, wanted.queue) as (client, queue):
            for message in scanned(source_of(client, queue, archived=wanted.archived), seconds=SECONDS):
                if message is None:
                    break
                messages += 1
                value = value_of(key, message)
                groups.setdefault(group_name(key, value), _Group({key: label(value)})).add(message)
            else:
                is_complete = True
    except DatabaseNotShownError:
        raise
    except SqlQueueError as error:
        problem = str(error)
    ordered = sorted(groups.items(), key=lambda item: -item[1].messages)[: wanted.limit]
    return {
        "problem": problem,
        "messages": messages,
        "is_complete": is_complete,
        "groups": [_shown(name, group) for name, group in ordered],
    }


def source_of(client: QueueClient, queue: QueueTable, *, archived: bool) -> FailedMessages:
    """Messages of an error queue, or its archived ones."""
    if archived:
        return ArchivedMessages(Archive(queue.session, queue.address.catalog, client.ledger_schema), queue.address)
    return ErrorQueue(queue)


def scanned(source: FailedMessages, where: ErrorFilter | None = None, seconds: float = SECONDS) -> Any:
    """Yield failed or archived messages in order, and None at the end if one request cannot read all of them."""
    deadline = time.monotonic() + seconds
    for number, message in enumerate(scan(source, source.window(where or ErrorFilter()))):
        if number == MAX_SCANNED or time.monotonic() > deadline:
            yield None
            return
        yield message


def _shown(name: str, group: _Group) -> dict[str, Any]:
    key, _, shown_name = name.partition(":")
    shown = group.to_dict()
    if group.archived is not None:
        # Of the message that was archived last.
        shown["archived"] = {
            "at": group.archived.at.isoformat(),
            "by": label(group.archived.by),
            "reason": label(group.archived.reason),
        }
    return {
        "group": shown_name,
        "label": shown.pop(key),
        **shown,
        "histogram": [[hour.isoformat(), count] for hour, count in sorted(group.hours.items())[-BARS:]],
    }
