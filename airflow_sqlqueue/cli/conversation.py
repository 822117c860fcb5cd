"""Command on conversations."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.options import option


def conversation(
    common: Common,
    conversation_id: Annotated[str, typer.Argument(help="The value of the header NServiceBus.ConversationId.")],
    catalog: str | None = option(None, "another database of the server than the connection's", metavar="DATABASE"),
    staging: str | None = option(None, "the batch's folder, if it needs more than the environment's credentials"),
    max_seconds: float | None = option(None, "stop the search after this many seconds"),
) -> None:
    """Show the messages of a conversation in the newest batches.

    They are in the order in which they were sent.
    """
    found = common.connect().batches.conversation(
        conversation_id, staging=staging, catalogs=(catalog,) if catalog else (), max_seconds=max_seconds
    )
    common.show([step.to_dict() for step in found.steps])
    if found.unread or not found.complete:
        ended = "" if found.complete else "; a limit ended the search"
        note(f"Read {found.batches} batches; {found.unread} could not be read{ended}.")


COMMANDS: tuple[Any, ...] = (conversation,)
"""Commands below ``sqlqueue``."""
