"""What the triggers share: the connection, read where it blocks nobody, and what of it may be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from airflow_sqlqueue.errors import SqlQueueError

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient

EXPECTED = (SqlQueueError, AirflowException)
"""Errors whose text is a sentence for people: ours, and Airflow's for a connection that it does not know."""


class ServerTrigger:
    """A trigger on one server. Classes that take it set the attributes; nothing secret is among them."""

    sqlqueue_conn_id: str
    hook_params: dict[str, Any] | None

    async def read_client(self) -> QueueClient:
        """The client, from the Airflow connection as it is now.

        On another thread: looking up a connection waits for an answer, and the driver takes long to load.
        """
        return await asyncio.to_thread(self._client)

    def _client(self) -> QueueClient:
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {})).client


def plain(value: Any) -> Any:
    """The value as JSON holds it, in one order: Airflow compares hashes of what a DAG says and what it has stored."""
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    return value
