"""Work of the page's DAG on failed and archived messages: one call of the client for each order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errorqueue.actions import ACTIONS
from airflow_sqlqueue.errorqueue.bulk_action import ErrorQueueOptions
from airflow_sqlqueue.plugin.action_tokens import Order
from airflow_sqlqueue.plugin.addresses import shown_queue

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient


def act_on_failures(client: QueueClient, order: Order, so_far: Callable[[int], None]) -> tuple[int, str]:
    """Do an order on failed messages; return the number of messages, and a sentence about them."""
    with client.session() as session:
        for address in filter(None, (order.queue, order.destination)):
            shown_queue(client, session, address)
    action = ACTIONS[order.action]
    inputs: dict[str, Any] = {
        "to_queue": order.destination,
        "reason": order.reason,
        "by": order.by,
        "confirm": action.loses_messages,
    }
    done = client.errors.act(
        order.action,
        order.queue or "",
        filters=order.filters,
        options=ErrorQueueOptions(rate=order.rate, max_messages=order.messages or None),
        on_progress=lambda result: so_far(result.messages),
        **inputs,
    )
    stays = "".join(f"; {messages} stay: {reason}" for reason, messages in done.left.items())
    return done.messages, " ".join([f"{done.messages} messages were {action.done}{stays}.", *done.warnings])
