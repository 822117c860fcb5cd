"""Flow over time, for the page: the conversation of a message."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field

from airflow_sqlqueue.plugin.addresses import catalogs_of
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.servers import RequestedServer

router = APIRouter()

SEARCH_SECONDS = 8.0


class ConversationQuery(RequestBody):
    """Request for a conversation: its id is a value of a header, so no URL has it."""

    conversation_id: str = Field(min_length=1, max_length=500)


@router.post("/conversation")
def conversation(
    server: RequestedServer, wanted: Annotated[ConversationQuery, Depends(read_as(ConversationQuery))]
) -> dict[str, Any]:
    """Conversation, as far as the newest batches have it; the search ends after some seconds."""
    with server.session() as session:
        found = server.client.batches.conversation(
            wanted.conversation_id, catalogs=catalogs_of(server.client), max_seconds=SEARCH_SECONDS, session=session
        )
    return {
        "steps": [step.to_dict() for step in found.steps],
        "batches": found.batches,
        "unread": found.unread,
        "complete": found.complete,
    }
