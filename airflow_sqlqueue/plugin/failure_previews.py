"""Previews of actions on failed messages: the count of an order, and a sentence for the user. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.destinations import Destinations
from airflow_sqlqueue.errorqueue.failed_message import FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.reasons import Reason
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin import failures, servers
from airflow_sqlqueue.plugin.action_tokens import ON_ARCHIVED, Order
from airflow_sqlqueue.plugin.addresses import shown_queue
from airflow_sqlqueue.queue import QueueTable

_WOULD = {
    "return": "would go back",
    "redirect": "would go back",
    "archive": "would be archived",
    "park": "would be parked with the headers of their failure",
    "delete": "would be deleted for good",
    "restore": "would be restored",
    "delete_archived": "would be deleted from the archive for good",
}


def count_failed(order: Order) -> tuple[Order, str]:
    """Count the messages of an order on failed or archived messages, within its limit."""
    with servers.queue_of(order.connection, order.queue or "") as (client, queue):
        source = failures.source_of(client, queue, archived=order.action in ON_ARCHIVED)
        count = _Count(order, _targets(order, client, queue))
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


Target = Callable[[FailedMessage], QueueTable | Reason | None]
"""The queue that a message would go to, the reason why it would stay, or None for a place without a name."""


def _targets(order: Order, client: QueueClient, queue: QueueTable) -> Target:
    target = None if order.destination is None else shown_queue(client, queue.session, order.destination)
    if order.action in ("return", "redirect"):
        return Destinations(queue, client.resolver, None if target is None else target.address.canonical).of
    if target is None:
        return lambda message: None
    if target.layout.table == queue.layout.table:
        raise ConfigurationError(f"The messages are in {queue.address.canonical} already: name another queue.")
    return lambda message: target


class _Count:
    """Count of an order's messages, oldest first, by the place that they would go to."""

    def __init__(self, order: Order, target: Target) -> None:
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
            if isinstance(found, Reason):
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
        text = f"{self.to.total()} messages of {address} {_WOULD[self._order.action]}"
        text += f", at most {self._order.rate:g} a second" if self._order.rate else ""
        text += f": {', '.join(parts)}" if parts else ""
        text += "".join(f"; {count} stay, {reason}" for reason, count in self._stays.items())
        if self._is_whole:
            return f"{text}."
        return f"{text}; the queue may hold more, because the preview did not read it to its end."
