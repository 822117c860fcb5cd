"""Notifier that sends a message when a task or a DAG run succeeds or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.bases.notifier import BaseNotifier

from airflow_sqlqueue.routing import check_named_once

__all__ = ["SqlQueueNotifier"]


class SqlQueueNotifier(BaseNotifier):
    """Send a message about the state of a task or DAG run to the queue of an endpoint.

    For ``on_success_callback``, ``on_failure_callback`` and similar callbacks. Delivery: at least once; as with every
    notifier, an error of sending is logged and does not change the task. The message id follows from the run, the task,
    its try and its state, so that an endpoint with an outbox drops a repetition.

    Without ``body``, the body is a JSON object of ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``try_number``
    and ``state``. It does not have the error's text, which may quote confidential data.

    :param message_type: the message's .NET type, ``Namespace.Name`` with or without its assembly (templated)
    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint that the queue belongs to, instead of ``queue_name``; resolved with the connection's
        endpoint settings (templated)
    :param body: text, or a JSON value (templated)
    :param headers: further headers (templated)
    :param originating_endpoint: name of the sending endpoint; None: ``airflow.`` and the DAG's id (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "message_type",
        "queue_name",
        "endpoint",
        "body",
        "headers",
        "originating_endpoint",
        "sqlqueue_conn_id",
    )

    def __init__(
        self,
        *,
        message_type: str,
        queue_name: str | None = None,
        endpoint: str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        originating_endpoint: str | None = None,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.message_type = message_type
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.body = body
        self.headers = headers
        self.originating_endpoint = originating_endpoint
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params
        check_named_once(queue_name, endpoint)

    def notify(self, context: Context) -> None:
        """Send it; raises this package's errors, which Airflow logs."""
        from airflow_sqlqueue.envelope.outgoing import Sender
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        about = _about(context)
        sender = Sender(
            key="\0".join(["notification", *map(str, about.values())]),
            endpoint=self.originating_endpoint or f"airflow.{about['dag_id']}",
            enclosed_message_types=self.message_type,
        )
        hook = SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))
        queue = hook.queue(self.queue_name, endpoint=self.endpoint)
        body = about if self.body is None else self.body
        queue.send(sender.messages([{"body": body, "headers": self.headers}]))
        self.log.info("Notified %s", queue.address)

    async def async_notify(self, context: Context) -> None:
        """Send it from the triggerer, on a thread beside its event loop."""
        await asyncio.to_thread(self.notify, context)


def _about(context: Context) -> dict[str, Any]:
    """Facts of the task instance, or, in a callback of a DAG, of its run."""
    ti, run = context.get("ti"), context.get("dag_run")
    if ti is None:
        return {"dag_id": getattr(run, "dag_id", ""), "run_id": getattr(run, "run_id", ""), "state": _state(run)}
    return {
        "dag_id": ti.dag_id,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "map_index": -1 if ti.map_index is None else ti.map_index,
        "try_number": ti.try_number,
        "state": _state(ti),
    }


def _state(subject: Any) -> str | None:
    state = getattr(subject, "state", None)
    return None if state is None else str(getattr(state, "value", state))
