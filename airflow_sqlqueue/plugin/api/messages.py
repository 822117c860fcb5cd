"""Messages of a queue, for the page: a list, a message with its headers, and its body for users with that right.

Nothing is removed, and every lock ends with its statement. Header values are only in bodies of requests and answers,
never in URLs.
"""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.plugin import audit
from airflow_sqlqueue.plugin.addresses import PathAddress
from airflow_sqlqueue.plugin.api.failures import Group, GroupKey, group_of
from airflow_sqlqueue.plugin.bodies import MAX_BYTES, shown_body
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.rights import may_see_bodies
from airflow_sqlqueue.plugin.servers import RequestedServer
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from airflow_sqlqueue.queue.browsing import PAGE_BYTES, MessageHead, Search, browse
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import classified
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.sql import readpast
from airflow_sqlqueue.untrusted import label

router = APIRouter(prefix="/queues/{address}/messages")

STRETCH = 10_000
"""Messages that one request of a search reads."""

SEARCH_SECONDS = 5.0

_SHOWN_CHARACTERS = 100_000
"""Characters of malformed headers that the page shows."""


class HeaderQuery(RequestBody):
    """Condition on the value of a header."""

    name: str
    value: str


class MessagesQuery(RequestBody):
    """Request for a list of messages; ``after`` is a RowVersion."""

    after: int | None = Field(None, ge=FIRST, lt=2**63)
    limit: int = Field(50, ge=1, le=200)
    id: str | None = None
    message_type: str | None = None
    header: HeaderQuery | None = None
    group_by: GroupKey | None = None
    group: Group | None = None

    def where(self) -> MessageFilter | None:
        """Return the filter by headers; None without conditions."""
        given = {
            "message_id": self.id or None,
            "message_type": self.message_type or None,
            "headers": None if self.header is None else {self.header.name: self.header.value},
        }
        given = {name: value for name, value in given.items() if value is not None}
        return MessageFilter.of(given) if given else None


@router.post("")
def messages(
    server: RequestedServer, address: PathAddress, wanted: Annotated[MessagesQuery, Depends(read_as(MessagesQuery))]
) -> dict[str, Any]:
    """List of messages from the head of the queue, or of those that match; ``next`` is the ``after`` to continue with.

    A search reads one stretch of the queue, so it may find no message before the queue's end.
    """
    after = FIRST if wanted.after is None else wanted.after
    where = wanted.where()
    with server.queue(address) as queue:
        if (group := group_of(wanted.group_by, wanted.group)) is not None:
            members = ErrorFilter(group=group)
            found, reached, ended = _of_group(queue, members, after, wanted.limit)
        elif where is not None:
            found, reached, ended = _search(queue, where, after, wanted.limit)
        else:
            found, reached, ended = _page(queue, after, wanted.limit)
    return {
        "messages": [_summary(head) for head in found],
        "next": None if ended else reached,
        "searched_to": reached if reached > FIRST else None,
        "ended": ended,
    }


@router.get("/{row_version}")
def message(server: RequestedServer, address: PathAddress, row_version: int) -> dict[str, Any]:
    """Return the message with its headers, in their own order."""
    with server.queue(address) as queue:
        head = _head(queue, row_version)
    decoded = head.decoded
    return {
        **_summary(head),
        "headers": [[name, value] for name, value in decoded.values.items()],
        "raw_headers": head.headers[:_SHOWN_CHARACTERS] if decoded.problem_code else None,
        "problem": decoded.problem,
    }


@router.get("/{row_version}/body", dependencies=[Depends(may_see_bodies)])
def body(server: RequestedServer, address: PathAddress, row_version: int, user: GetUserDep) -> dict[str, Any]:
    """Decoded body of a message; the audit log records the user."""
    with server.queue(address) as queue:
        head = _head(queue, row_version)
        audit.note(user, "see_body", connection=server.conn_id, queue=queue.address.canonical, row_version=row_version)
        hint = readpast(True)
        piece = queue.value("queue.copy_body", 1, MAX_BYTES, row_version, str(head.id), readpast=hint)
    return shown_body(Envelope.of(head.decoded), bytes(piece or b""), head.body_bytes)


def _head(queue: QueueTable, row_version: int) -> MessageHead:
    if not FIRST < row_version < 2**63:
        raise HTTPException(400, "That is no RowVersion.")
    found = browse(queue, 1, after=row_version - 1, up_to=row_version)
    if not found:
        raise HTTPException(404, "The message has left the queue, or a receiver has locked it.")
    return found[0]


def _page(queue: QueueTable, after: int, limit: int) -> tuple[list[MessageHead], int, bool]:
    found = browse(queue, limit, after=after, max_bytes=PAGE_BYTES)
    # A short list may have reached its limit of bytes: only an empty one is the end of the queue.
    return found, found[-1].row_version if found else after, not found


def _search(queue: QueueTable, where: MessageFilter, after: int, limit: int) -> tuple[list[MessageHead], int, bool]:
    search = Search(where, Window(after), rows=STRETCH)
    deadline = time.monotonic() + SEARCH_SECONDS
    found: list[MessageHead] = []
    while (page := search.page(queue)) is not None:
        for head in page:
            if time.monotonic() > deadline:
                return found, head.row_version - 1, False
            if where.matches(head.id, head.decoded):
                found.append(head)
                if len(found) == limit:
                    return found, head.row_version, False
    return found, search.after, search.is_at_end


def _of_group(queue: QueueTable, where: ErrorFilter, after: int, limit: int) -> tuple[list[MessageHead], int, bool]:
    deadline = time.monotonic() + SEARCH_SECONDS
    found: list[MessageHead] = []
    while True:
        page = browse(queue, 256, after=after)
        if not page:
            return found, after, True
        for head in page:
            if time.monotonic() > deadline:
                return found, after, False
            after = head.row_version
            if where.matches(classified(head)):
                found.append(head)
                if len(found) == limit:
                    return found, after, False


def _summary(head: MessageHead) -> dict[str, Any]:
    envelope = Envelope.of(head.decoded)
    identity: uuid.UUID = head.id
    sent = envelope.time.time_sent
    return {
        "row_version": head.row_version,
        "id": str(identity),
        "message_id": label(envelope.identity.message_id) or str(identity),
        "message_type": label(envelope.content.message_type),
        "time_sent": sent.isoformat() if sent else None,
        "expires": head.expires.isoformat() if head.expires else None,
        "expired": head.expired,
        "bytes": head.body_bytes + head.header_bytes,
        "correlation_id": label(envelope.identity.correlation_id),
        "is_readable": head.decoded.problem_code is None,
    }
