"""Headers of audited, failed and malformed messages; the parts of each step of a conversation are prepared once.

Source: docs/transport/messages.md, "Headers as JSON", "Header names" and "Poison messages".
"""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import NamedTuple

from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.traffic.bodies import CUSTOMERS
from airflow_sqlqueue.traffic.clock import wire_time
from airflow_sqlqueue.traffic.shop import FAILURES, SALES, Handling, ShopFailure, Step

_CAMPAIGNS = ("Frühjahr", "Soldes d'été", "春のセール", "none", "Black Friday \u2600")
_AUDIT_ONLY = (HeaderNames.PROCESSING_STARTED, HeaderNames.PROCESSING_ENDED, HeaderNames.PROCESSING_ENDPOINT)


class MessageFacts(NamedTuple):
    """Facts of one message. Times are microseconds since 1970; ``failure`` is None for an audited message."""

    message_id: str
    correlation_id: str
    conversation_id: str
    related_to: str | None
    customer: int
    sent: int
    started: int
    ended: int
    failure: ShopFailure | None
    retries: int


def host_id(machine: str) -> str:
    """Return the id of a host, an MD5 hash: NServiceBus derives it from the machine and the path."""
    return hashlib.md5(machine.encode(), usedforsecurity=False).hexdigest()


def sent_headers(step: Step, machine: str) -> dict[str, str | None]:
    """Return the sender's headers that are the same in all messages of a step."""
    sender, message = step.sender, step.message
    values: dict[str, str | None] = {
        HeaderNames.MESSAGE_INTENT: step.intent,
        HeaderNames.REPLY_TO_ADDRESS: sender.address,
        HeaderNames.ORIGINATING_ENDPOINT: sender.name,
        HeaderNames.ORIGINATING_MACHINE: machine,
        HeaderNames.ORIGINATING_HOST_ID: host_id(machine),
        HeaderNames.VERSION: sender.version,
    }
    if message is None:
        values[HeaderNames.CONTROL_MESSAGE] = "True"
        values["SubscriptionMessageType"] = "Shop.Sales.Contracts.OrderPlaced, Shop.Sales.Contracts, Version=3.1.0.0"
        values["NServiceBus.SubscriberAddress"] = sender.address
        values["NServiceBus.SubscriberEndpoint"] = sender.name
        return values
    values[HeaderNames.CONTENT_TYPE] = sender.content_type
    values[HeaderNames.ENCLOSED_MESSAGE_TYPES] = message.enclosed
    if step.delay_s:
        values["NServiceBus.IsSagaTimeoutMessage"] = "True"
        values["NServiceBus.IsDeferredMessage"] = "True"
    if step.saga:
        prefix = "NServiceBus.Originating" if step.sender is SALES and not step.delay_s else "NServiceBus."
        values[f"{prefix}SagaType"] = "Shop.Sales.OrderSaga, Shop.Sales, Version=3.1.0.0, Culture=neutral"
    return values


class HeaderTemplate:
    """The headers of one step at one receiver, for each machine that may send or handle it."""

    def __init__(self, step: Step, handling: Handling) -> None:
        endpoint = handling.endpoint
        self._audited: list[dict[str, str | None]] = []
        for origin in step.sender.machines:
            for machine in endpoint.machines:
                received = {
                    HeaderNames.PROCESSING_ENDPOINT: endpoint.name,
                    HeaderNames.PROCESSING_MACHINE: machine,
                    HeaderNames.HOST_ID: host_id(machine),
                    HeaderNames.HOST_DISPLAY_NAME: machine,
                }
                self._audited.append({**sent_headers(step, origin), **received})
        handler = f"{step.message.name if step.message else 'Subscribe'}Handler"
        self._failed = {failure: failure.headers(endpoint, handler) for failure in FAILURES[endpoint]}
        self._saga_header = next(
            (name.replace("SagaType", "SagaId") for name in self._audited[0] if name.endswith("SagaType")), None
        )
        self._traced = step.sender.version.startswith("9.")

    def render(self, rng: Random, facts: MessageFacts) -> dict[str, str | None]:
        """Return the headers of one message."""
        ended = wire_time(facts.ended)
        values: dict[str, str | None] = {
            HeaderNames.MESSAGE_ID: facts.message_id,
            HeaderNames.CORRELATION_ID: facts.correlation_id,
            HeaderNames.CONVERSATION_ID: facts.conversation_id,
            **self._audited[int(rng.random() * len(self._audited))],
            HeaderNames.TIME_SENT: wire_time(facts.sent),
            "Shop.Customer": CUSTOMERS[facts.customer],
            "Shop.Campaign": _CAMPAIGNS[facts.customer % len(_CAMPAIGNS)],
        }
        if facts.related_to is not None:
            values[HeaderNames.RELATED_TO] = facts.related_to
        if self._saga_header is not None:
            values[self._saga_header] = facts.conversation_id[::-1].replace("-", "")
        if self._traced:
            trace = facts.conversation_id.replace("-", "")
            values[HeaderNames.TRACE_PARENT] = f"00-{trace}-{facts.message_id[-12:]}f00d-01"
        if facts.failure is None:
            values[HeaderNames.PROCESSING_STARTED] = wire_time(facts.started)
            values[HeaderNames.PROCESSING_ENDED] = ended
        else:
            values |= self._failed[facts.failure]
            values[HeaderNames.TIME_OF_FAILURE] = ended
            if facts.retries:
                values[HeaderNames.IMMEDIATE_RETRIES] = str(facts.retries)
        return values


def malformed(values: dict[str, str | None], kind: int) -> str:
    """Malformed value of the column Headers: broken JSON, or JSON that is not an object of texts (a poison message)."""
    sent = {name: value for name, value in values.items() if name not in _AUDIT_ONLY and "ExceptionInfo" not in name}
    text = json.dumps(sent, ensure_ascii=False)
    variants = (
        text[: len(text) * 3 // 5],
        text[:-1] + ', "NServiceBus.Retries": 3}',
        json.dumps([sent], ensure_ascii=False),
        text[:-1] + ', "Shop.Tags": ["a", "b"], "Shop.Vip": true}',
        "Headers" + text,
        text[:-1] + ', "Shop.Address": {"City": "Łódź"}}',
    )
    return variants[kind % len(variants)]
