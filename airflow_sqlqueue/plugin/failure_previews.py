"""Previews of actions on failed messages: the count of an order, and a sentence for the user. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from airflow_sqlqueue.errorqueue.actions import ACTIONS
from airflow_sqlqueue.errorqueue.archive import Archive
from airflow_sqlqueue.errorqueue.effects import ErrorStore
from airflow_sqlqueue.errorqueue.failed_message import FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.reasons import StayReason
from airflow_sqlqueue.plugin import failures, servers
from airflow_sqlqueue.plugin.action_tokens import Order
from airflow_sqlqueue.plugin.addresses import shown_queue
from airflow_sqlqueue.queue import QueueTable


def count_failed(order: Order) -> tuple[Order, str]:
    """Count the messages of an order on failed or archived messages, within its limit."""
    with servers.queue_of(order.connection, order.queue or "") as (client, queue):
        if order.destination is not None:
            shown_queue(client, queue.session, order.destination)
        action = ACTIONS[order.action]
        store = ErrorStore(queue, Archive(queue.session, queue.address.catalog, client.ledger_schema), client.resolver)
        given = action.inputs(to_queue=order.destination, reason=order.reason, confirm=action.loses_messages)
        source = action.source(store, given)
        count = _Count(order, action.effect(store, given).target)
        # Twice the time of the preview is enough to find the counted messages again.
        seconds = 2 * failures.SECONDS if order.messages else failures.SECONDS
        for message in failures.scanned(source, ErrorFilter.of(order.filters), seconds):
            if not count.add(message):
                break
        warnings = source.warnings()
        address = queue.address.canonical
    sentence = " ".join([count.sentence(address), *warnings])
    counted = replace(order, messages=count.to.total())
    return (counted if order.up_to is not None else replace(counted, up_to=count.last)), sentence


class _Count:
    """Count of an order's messages, oldest first, by the store that they would go to."""

    def __init__(self, order: Order, target: Callable[[FailedMessage], QueueTable | StayReason | None]) -> None:
        self._order, self._target, self._where = order, target, ErrorFilter.of(order.filters)
        # An order that was counted before has its own limit; a smaller one cannot have come since.
        self._limit = order.messages or order.limit
        self.to: Counter[str] = Counter()
        self.last: int | None = None
        self._stays: Counter[str] = Counter()
        self._is_whole = True

    def add(self, message: FailedMessage | None) -> bool:
        """Count a message, or None for those that were not read; False if the limit is reached."""
        if message is None:
            self._is_whole = False
        elif self._where.matches(message):
            if self._limit and self.to.total() >= self._limit:
                return False
            self.last = message.row_version
            found = self._target(message)
            if isinstance(found, StayReason):
                self._stays[found.value] += 1
            else:
                self.to["" if found is None else found.address.canonical] += 1
        return True

    def sentence(self, address: str) -> str:
        """Sentence of the preview."""
        named = {name: count for name, count in self.to.items() if name}
        parts = [f"{count} to {name}" for name, count in Counter(named).most_common(3)]
        if len(named) > len(parts):
            rest = sum(named.values()) - sum(count for _, count in Counter(named).most_common(3))
            parts.append(f"{rest} to {len(named) - 3} others")
        text = f"{self.to.total()} messages of {address} would be {ACTIONS[self._order.action].done}"
        text += f", at most {self._order.rate:g} a second" if self._order.rate else ""
        text += f": {', '.join(parts)}" if parts else ""
        text += "".join(f"; {count} stay, {reason}" for reason, count in self._stays.items())
        if self._is_whole:
            return f"{text}."
        return f"{text}; the queue may hold more, because the preview did not read it to its end."
