"""Actions on failed and archived messages for the page: the count of a preview, the work of a run, and the form."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.plugin.action_tokens import ActionRequest
from airflow_sqlqueue.plugin.addresses import shown_queue
from airflow_sqlqueue.queue.errors.actions import Action
from airflow_sqlqueue.queue.errors.bulk_action import Effect, ErrorQueueOptions
from airflow_sqlqueue.queue.errors.effects import ActionInputs
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.reasons import StayReason
from airflow_sqlqueue.queue.errors.scan import FailedMessages, scan

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.plugin.servers import Server
    from airflow_sqlqueue.queue import QueueTable

MAX_SCANNED = 10_000
"""Messages of an error queue that one request reads."""

SECONDS = 5.0

FIELDS: dict[str, dict[str, Any]] = {
    "to_queue": {"label": "To the queue", "help": "An address: a table, or table@[schema]@[catalog]."},
    "reason": {
        "label": "Reason",
        "help": "The archive keeps your name, the time and the reason. Archived messages can be restored.",
        "maxlength": 500,
    },
}
"""Inputs of actions that the page asks for, with the attributes of their fields."""

PACE: list[dict[str, Any]] = [
    {"name": "max_messages", "label": "Number of messages", "type": "number", "min": 1, "required": True, "value": 100},
    {
        "name": "rate",
        "label": "At most this many a second",
        "type": "number",
        "min": 0.01,
        "step": "any",
        "help": "The oldest messages go first. Leave the rate empty to move them as fast as the server can.",
    },
]
"""Fields of an action on the oldest messages alone."""


@dataclass(frozen=True)
class FailureAction:
    """Action of the table :data:`~airflow_sqlqueue.queue.errors.actions.ACTIONS`, on the page."""

    action: Action

    def to_dict(self) -> dict[str, Any]:
        """Return what the page needs to offer it."""
        names = [name for name in self.action.input_names if name in FIELDS]
        return {
            "name": self.action.name,
            "label": self.action.label,
            "on": "archived" if self.action.archived else "failed",
            "danger": self.action.loses_messages,
            "fields": [{"name": name, "required": name in self.action.needs, **FIELDS[name]} for name in names],
            "pace": PACE if self.action.paced else [],
        }

    def check(self, request: ActionRequest) -> None:
        """Raise :class:`ConfigurationError` for an impossible request."""
        if not request.queue or request.batch_id or (request.group is not None) == bool(request.row_versions):
            raise ConfigurationError("Name the error queue, and a group or messages of it: one of the two.")
        self._inputs(request)

    def is_possible(self, request: ActionRequest) -> bool:
        """Return whether a counted request has an effect."""
        return request.messages > 0

    def count(self, server: Server, request: ActionRequest) -> tuple[ActionRequest, str, str]:
        """Count the messages within the request's limit; return it, a sentence, and the label of the confirmation."""
        with server.queue(request.queue or "") as queue:
            if request.to_queue is not None:
                shown_queue(server.client, queue.session, request.to_queue)
            store, given = server.client.errors.store_of(queue), self._inputs(request)
            source = self.action.source(store, given)
            count = _Count(request, self.action.effect(store, given))
            # Twice the time of the preview is enough to find the counted messages again.
            for message in scanned(source, count.where, 2 * SECONDS if request.messages else SECONDS):
                if not count.add(message):
                    break
            sentence = " ".join([count.sentence(queue.address.canonical, self.action.done), *source.warnings()])
        messages = count.to.total()
        label = f"{self.action.label} {count_of(messages, 'message')}"
        label += " for good" if self.action.loses_messages else ""
        return replace(request, messages=messages, up_to=request.up_to or count.last), sentence, label

    def run(
        self, client: QueueClient, request: ActionRequest, staging: Any, so_far: Callable[[int], None]
    ) -> tuple[int, str]:
        """Do it; return the number of messages, and a sentence about them."""
        with client.session() as session:
            for address in filter(None, (request.queue, request.to_queue)):
                shown_queue(client, session, address)
        done = client.errors.act(
            self.action.name,
            request.queue or "",
            filters=request.filters,
            options=ErrorQueueOptions(rate=request.rate, max_messages=request.messages or None),
            on_progress=lambda result: so_far(result.messages),
            **vars(self._inputs(request)),
        )
        stays = "".join(f"; {messages:,} left: {reason}" for reason, messages in done.left.items())
        verb = "was" if done.messages == 1 else "were"
        sentence = f"{count_of(done.messages, 'message')} {verb} {self.action.done}{stays}."
        return done.messages, " ".join([sentence, *done.warnings])

    def _inputs(self, request: ActionRequest) -> ActionInputs:
        """Return the inputs of the request. The user confirms the preview."""
        by = request.by if "by" in self.action.input_names else None
        confirm = self.action.loses_messages
        return self.action.inputs(to_queue=request.to_queue, reason=request.reason, by=by, confirm=confirm)


def scanned(source: FailedMessages, where: ErrorFilter, seconds: float) -> Iterator[FailedMessage | None]:
    """Yield failed or archived messages in order, and None at the end if one request cannot read all of them."""
    deadline = time.monotonic() + seconds
    for number, message in enumerate(scan(source, source.window(where))):
        if number == MAX_SCANNED or time.monotonic() > deadline:
            yield None
            return
        yield message


class _Count:
    """Count of a request's messages, oldest first, by the place that they would go to."""

    def __init__(self, request: ActionRequest, effect: Effect) -> None:
        self._request, self._effect, self.where = request, effect, ErrorFilter.of(request.filters)
        # A request that was counted before has its own limit; a smaller one cannot have come since.
        self._limit = request.messages or request.limit
        self.to: Counter[QueueTable | None] = Counter()
        self.last: int | None = None
        self._stays: Counter[str] = Counter()
        self._is_whole = True

    def add(self, message: FailedMessage | None) -> bool:
        """Count a message, or None for those that were not read; False if the limit is reached."""
        if message is None:
            self._is_whole = False
        elif self.where.matches(message):
            if self._limit and self.to.total() >= self._limit:
                return False
            self.last = message.row_version
            found = self._effect.target(message)
            if isinstance(found, StayReason):
                self._stays[found.value] += 1
            else:
                self.to[found] += 1
        return True

    def sentence(self, address: str, done: str) -> str:
        """Return the sentence of the preview; ``done`` is a participle."""
        named = Counter({queue.address.canonical: count for queue, count in self.to.items() if queue is not None})
        parts = [f"{count} to {name}" for name, count in named.most_common(3)]
        if len(named) > len(parts):
            parts.append(f"{sum(count for _, count in named.most_common()[3:])} to {len(named) - 3} others")
        text = f"{count_of(self.to.total(), 'message')} of {address} would be {done}"
        text += f", at most {self._request.rate:g} a second" if self._request.rate else ""
        text += f": {', '.join(parts)}" if parts else ""
        text += "".join(f"; {count} would stay, {reason}" for reason, count in self._stays.items())
        if self._is_whole:
            return f"{text}."
        return f"{text}; the queue may hold more, because the preview did not read it to its end."
