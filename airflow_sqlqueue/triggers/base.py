"""What the triggers share: the connection, read where it blocks nobody, the watch, and what of them may be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import TriggerEvent

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.triggers.events import failed, met

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.session import Session
    from airflow_sqlqueue.triggers.poller import Watch

EXPECTED = (SqlQueueError, AirflowException)
"""Errors whose text is a sentence for people: ours, and Airflow's for a connection that it does not know."""


class QueueTrigger:
    """A trigger on one queue. Classes that take it set the attributes; nothing secret is among them."""

    queue_name: str
    poll_interval: float
    sqlqueue_conn_id: str
    hook_params: dict[str, Any] | None
    _watch: Watch[dict[str, Any]] | None = None

    def look(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        """Look once, on the poller's thread; returns what was found, numbers and names alone, or None."""
        raise NotImplementedError

    async def open_watch(self) -> Watch[dict[str, Any]]:
        """Begin to watch the queue; :meth:`close_watch` ends it."""
        from airflow_sqlqueue.triggers.poller import Watch

        # On another thread: looking up a connection waits for an answer, and the driver takes long to load.
        client = await asyncio.to_thread(self._client)
        queue = client.queue(self.queue_name)
        opened = _Opened(queue)
        self._watch = Watch(client, lambda session: self.look(queue, opened.table(session)), self.poll_interval)
        return self._watch

    def close_watch(self) -> None:
        """End the watch, where there is one: the triggerer has the trigger do so on every way out."""
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    async def found_event(self) -> TriggerEvent:
        """The event of a trigger that fires once: when something is found, or cannot be waited for."""
        try:
            watch = await self.open_watch()
            return met(await watch.found())
        except EXPECTED as error:
            return failed(error)
        finally:
            self.close_watch()

    def arguments(self, **more: Any) -> dict[str, Any]:
        """The keyword arguments that make the same trigger again, in a form that is the same each time."""
        return {
            "queue_name": self.queue_name,
            **more,
            "poll_interval": self.poll_interval,
            "sqlqueue_conn_id": self.sqlqueue_conn_id,
            "hook_params": plain(self.hook_params),
        }

    def _client(self) -> QueueClient:
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {})).client


class _Opened:
    """A queue's table, whose layout is read once for a session."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._table: QueueTable | None = None

    def table(self, session: Session) -> QueueTable:
        if self._table is None or self._table.session is not session:
            self._table = self._queue.through(session)
        return self._table


def plain(value: Any) -> Any:
    """The value as JSON holds it, in one order: Airflow compares hashes of what a DAG says and what it has stored."""
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    return value
