"""Groups of failed messages, for the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.plugin.addresses import Address, DatabaseNotShownError
from airflow_sqlqueue.plugin.failure_actions import SECONDS, scanned
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.servers import RequestedServer
from airflow_sqlqueue.queue.errors.failed_message import Archived, FailedMessage
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS, group_name, value_of
from airflow_sqlqueue.queue.errors.triage import ErrorGroup
from airflow_sqlqueue.untrusted import label

router = APIRouter()

BARS = 48
"""Hours of a histogram: the last ones with a failure."""


def _known(key: str) -> str:
    if key not in GROUPINGS:
        raise ValueError
    return key


GroupKey = Annotated[str, AfterValidator(_known)]
Group = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class FailuresQuery(RequestBody):
    """Request for the groups of an error queue, or of its archived messages."""

    queue: Address = Address("error")
    archived: bool = False
    group_by: GroupKey = "exception_type"
    group: Group | None = None
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


def group_of(by: GroupKey | None, group: Group | None) -> str | None:
    """Return the group of a request by the name for :class:`.ErrorFilter`; None without both parts of it."""
    return None if by is None or group is None else f"{by}:{group}"


@router.post("/failures")
def failures(
    server: RequestedServer, wanted: Annotated[FailuresQuery, Depends(read_as(FailuresQuery))]
) -> dict[str, Any]:
    """Return the groups of an error queue or its archive, the largest first, or one of them; only headers are read."""
    key = wanted.group_by
    groups: dict[str, _Group] = {}
    problem, messages, is_complete = None, 0, False
    try:
        with server.queue(wanted.queue) as queue:
            store = server.client.errors.store_of(queue)
            for message in scanned(store.archived() if wanted.archived else store.failed(), ErrorFilter(), SECONDS):
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
    only = group_of(key, wanted.group)
    chosen = {name: each for name, each in groups.items() if only is None or name == only}
    ordered = sorted(chosen.items(), key=lambda item: -item[1].messages)[: wanted.limit]
    return {
        "problem": problem,
        "messages": messages,
        "is_complete": is_complete,
        "all_groups": len(groups),
        "groups": [_shown(name, group) for name, group in ordered],
    }


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
