"""Send a message when a task or a DAG run succeeds or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueNotifier(BaseNotifier):
    """Send a message to a queue, for an endpoint that wants to know what became of a task or of a DAG run.

    For ``on_success_callback``, ``on_failure_callback`` and their like. Delivery: at least once, and what cannot be
    sent is logged and changes nothing of the task, as with every notifier. The message id follows from the run, the
    task, its try and its state, so that an endpoint with an outbox drops a repetition.

    Unless ``body`` is given it is a JSON object of ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``try_number``
    and ``state``. The error's text is not in it, because it may quote anything.

    :param message_type: the message's .NET type, ``Namespace.Name`` with or without its assembly (templated)
    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param body: text, or what JSON can hold (templated)
    :param headers: further headers (templated)
    :param originating_endpoint: who sends; ``airflow.`` and the DAG's id unless given (templated)
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
        from airflow_sqlqueue.routing import check_named_once

        check_named_once(queue_name, endpoint)

    def notify(self, context: Context) -> None:
        """Send it; raises our errors, which Airflow logs."""
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
        """The same in the triggerer, off its event loop."""
        await asyncio.to_thread(self.notify, context)


def _about(context: Context) -> dict[str, Any]:
    """What the context is about: a task instance, or in callbacks of a DAG its run."""
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
