"""Work of the page's DAG on failed and archived messages: one call of the client for each order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.plugin.action_tokens import Order
from airflow_sqlqueue.plugin.addresses import shown_queue

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueResult

_DONE = {
    "return": "returned",
    "redirect": "returned",
    "archive": "archived",
    "park": "parked",
    "delete": "deleted",
    "restore": "restored",
    "delete_archived": "deleted from the archive",
}


def act_on_failures(client: QueueClient, order: Order, so_far: Callable[[int], None]) -> tuple[int, str]:
    """Do an order on failed messages; return the number of messages, and a sentence about them."""
    with client.session() as session:
        for address in filter(None, (order.queue, order.destination)):
            shown_queue(client, session, address)
    done = _act(client, order, so_far)
    stays = "".join(f"; {messages} stay: {reason}" for reason, messages in done.left.items())
    return done.messages, " ".join([f"{done.messages} messages were {_DONE[order.action]}{stays}.", *done.warnings])


def _act(client: QueueClient, order: Order, so_far: Callable[[int], None]) -> ErrorQueueResult:
    from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueOptions
    from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions

    errors, queue = client.errors, order.queue or ""
    limits: dict[str, Any] = {"rate": order.rate, "max_messages": order.messages or None}
    given: dict[str, Any] = {"filters": order.filters, "on_progress": lambda result: so_far(result.messages)}
    if order.action in ("return", "redirect"):
        returning = ReturnOptions(redirect_to=order.destination, **limits)
        return errors.return_to_source(queue, options=returning, **given)
    options = ErrorQueueOptions(**limits)
    if order.action == "archive":
        return errors.archive(queue, reason=order.reason or "", by=order.by or "", options=options, **given)
    if order.action == "park":
        return errors.park(order.destination or "", queue, options=options, **given)
    if order.action == "delete":
        return errors.delete(queue, confirm=True, options=options, **given)
    if order.action == "restore":
        return errors.archived.restore(queue, options=options, **given)
    return errors.archived.delete(queue, confirm=True, options=options, **given)
