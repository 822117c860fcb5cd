"""Conversation of a message: the messages that caused each other, with endpoints and times, from staged batches.

Source: docs/transport/messages.md, "Causation".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_sqlqueue.drain.batches import BatchInfo
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import AddressError, BatchError, StagingError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import DecodedHeaders, HeaderNames, decode_headers
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.untrusted import label

log = logging.getLogger(__name__)

MAX_STEPS = 200
"""Most messages of a conversation that a search returns."""

MAX_BATCHES = 100
"""Most batches that a search reads, the newest ones."""

READABLE = ("sealed", "consumed")
"""States of batches whose messages can be read."""

_LATEST = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class ConversationStep:
    """Message of a conversation. Names are cut after 500 characters; unknown values are None.

    ``sender`` is the endpoint that sent it, ``receiver`` the one that handled it, or the queue in which it failed.
    """

    message_id: str | None
    related_to: str | None
    message_type: str | None
    intent: str | None
    sender: str | None
    receiver: str | None
    sent: datetime | None
    started: datetime | None
    ended: datetime | None
    failed: bool

    @classmethod
    def of(cls, headers: DecodedHeaders) -> ConversationStep:
        """Read the step of a message from its headers; never raises."""
        envelope = Envelope.of(headers)
        identity, failure, values = envelope.identity, headers.values.get(HeaderNames.FAILED_Q), headers.values
        return cls(
            message_id=label(identity.message_id),
            related_to=label(identity.related_to),
            message_type=label(envelope.content.message_type),
            intent=envelope.routing.intent,
            sender=label(envelope.routing.originating_endpoint),
            receiver=label(values.get(HeaderNames.PROCESSING_ENDPOINT) or _table(failure)),
            sent=envelope.time.time_sent,
            started=envelope.audit.processing_started,
            ended=envelope.audit.processing_ended,
            failed=failure is not None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only: times in ISO 8601."""
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Conversation:
    """Messages of a conversation that were found: its steps, the earliest first, and which queues were searched.

    ``complete`` is False if a limit ended the search before all batches were read; ``unread`` batches could not be
    read, because their files are gone or not to be reached from here.
    """

    conversation_id: str
    steps: tuple[ConversationStep, ...]
    batches: int
    unread: int
    complete: bool


def find_conversation(
    ledgers: Iterable[tuple[Ledger, Iterable[BatchInfo]]],
    conversation_id: str,
    *,
    staging: StagingFolder | None = None,
    budget: Budget | None = None,
) -> Conversation:
    """Search batches for the messages of a conversation. A copy of a message, as of each subscriber, is a step too.

    Batches are read in the order given, until the budget is used or :data:`MAX_STEPS` messages are found. Without
    ``staging`` the files must be reached with the credentials of the environment.
    """
    budget = budget or Budget()
    found: set[ConversationStep] = set()
    read = unread = 0
    complete = True
    pattern = max(re.findall("[A-Za-z0-9-]+", conversation_id), key=len, default="")
    for ledger, batches in ledgers:
        for info in batches:
            if budget.used or len(found) >= MAX_STEPS or read + unread >= MAX_BATCHES:
                complete = False
                break
            try:
                for step in _steps(ledger, info, conversation_id, pattern, staging):
                    if step is not None:
                        found.add(step)
                    if budget.used or len(found) >= MAX_STEPS:
                        complete = False
                        break
                read += 1
            except (StagingError, BatchError) as error:
                log.info("Batch %s is left out of the search for a conversation: %s", info.batch_id, error)
                unread += 1
    steps = sorted(found, key=lambda step: (step.sent or step.started or _LATEST, step.message_id or ""))
    return Conversation(conversation_id, tuple(steps), read, unread, complete)


def _steps(
    ledger: Ledger, info: BatchInfo, conversation_id: str, pattern: str, staging: StagingFolder | None
) -> Iterator[ConversationStep | None]:
    """Yield the steps in a batch, and None after each of its messages and pages that have none, to end the search."""
    from airflow_sqlqueue.drain.batch_reader import batch_headers

    for texts in batch_headers(ledger, info.batch_id, info.stage, staging, pattern):
        yield None
        for headers in map(decode_headers, texts):
            is_step = headers.values.get(HeaderNames.CONVERSATION_ID) == conversation_id
            yield ConversationStep.of(headers) if is_step else None


def _table(address: str | None) -> str | None:
    """Return the table of an address; any other text as it is."""
    try:
        return None if address is None else QueueAddress.parse(address).table
    except AddressError:
        return address
