"""Base classes of the triggers: their arguments, the connection, read where it blocks nobody, and the watch."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.triggers.events import failed, met

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.session import Session
    from airflow_sqlqueue.triggers.poller import Look, Watch

EXPECTED = (SqlQueueError, AirflowException)
"""Errors whose text is a sentence for people: ours, and Airflow's for a connection that it does not know."""


class ServerTrigger(BaseTrigger):
    """Base class of triggers on one server; nothing secret is among their arguments.

    :param poll_interval: seconds between two looks.
    :param sqlqueue_conn_id: the Airflow connection.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    is_patient = True
    """Whether to wait also where the server refuses the login at the first connection."""
    _watch: Watch[dict[str, Any]] | None = None

    def __init__(
        self,
        *,
        poll_interval: float,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poll_interval = float(poll_interval)
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    @abstractmethod
    def looker(self, client: QueueClient) -> Look[dict[str, Any]]:
        """Function that looks once, on the poller's thread; it returns numbers and names alone, or None."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments that make the same trigger again."""
        return {
            "poll_interval": self.poll_interval,
            "sqlqueue_conn_id": self.sqlqueue_conn_id,
            "hook_params": self.hook_params,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments as Airflow stores them, in a form that is the same each time."""
        return f"{type(self).__module__}.{type(self).__name__}", plain(self.arguments())

    async def open_watch(self) -> Watch[dict[str, Any]]:
        """Begin to watch; :meth:`close_watch` ends it."""
        from airflow_sqlqueue.triggers.poller import Source, Watch

        name = self.sqlqueue_conn_id, json.dumps(plain(self.hook_params), default=str)
        self._watch = await Watch.open(Source(name, self._client, self.looker, self.is_patient), self.poll_interval)
        return self._watch

    def close_watch(self) -> None:
        """End the watch, where there is one."""
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    async def cleanup(self) -> None:
        """End the watch, as Airflow asks for on every way out."""
        self.close_watch()

    def _client(self) -> QueueClient:
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {})).client


class OneEventTrigger(ServerTrigger):
    """Base class of triggers that fire once, for a task that has deferred itself."""

    is_patient = False

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, when something is found or cannot be waited for."""
        try:
            watch = await self.open_watch()
            event = met(await watch.found())
        except EXPECTED as error:
            event = failed(error)
        finally:
            self.close_watch()
        yield event


class QueueTrigger(ServerTrigger):
    """Base class of triggers on one queue.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``.
    """

    def __init__(self, *, queue_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name

    @abstractmethod
    def look(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        """Look once, on the poller's thread; returns what was found, numbers and names alone, or None."""

    def looker(self, client: QueueClient) -> Look[dict[str, Any]]:
        queue = client.queue(self.queue_name)
        opened = _OpenedQueue(queue)
        return lambda session: self.look(queue, opened.table(session))

    def arguments(self) -> dict[str, Any]:
        return {"queue_name": self.queue_name, **super().arguments()}


class Attempts:
    """What an event trigger does about errors: it goes on, as Airflow would begin it again at once for ever.

    ``log`` gets each error once, until something succeeds.
    """

    def __init__(self, queue_name: str, log: Any) -> None:
        self._queue_name, self._log = queue_name, log
        self._logged, self._failures = "", 0

    def succeeded(self) -> None:
        """Something was done: what fails next is told again, and waited for as briefly as the first time."""
        self._logged, self._failures = "", 0

    async def failed(self, error: Exception) -> None:
        """Log it, and wait for 1 to 60 seconds."""
        from airflow_sqlqueue.triggers.poller import random_pause

        self._failures += 1
        known = isinstance(error, EXPECTED)
        sentence = f"{error}" if known else f"The trigger failed: {type(error).__name__}"
        if sentence != self._logged:
            self._log.error(
                "Queue %s is not watched: %s", self._queue_name, sentence, exc_info=error if not known else None
            )
        self._logged = sentence
        await asyncio.sleep(random_pause(self._failures))


class _OpenedQueue:
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
