"""Notifier that sends a message when a task or a DAG run succeeds or fails, or is late."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from airflow.sdk import Context
from airflow.sdk.bases.notifier import BaseNotifier

from airflow_sqlqueue.hooks.arguments import check_hook_params
from airflow_sqlqueue.messages.routing import check_named_once

__all__ = ["SqlQueueNotifier"]


class SqlQueueNotifier(BaseNotifier):
    """Send a message about the state of a task or DAG run to the queue of an endpoint.

    For ``on_success_callback``, ``on_failure_callback`` and similar callbacks, and for the callback of a
    ``DeadlineAlert``. Delivery: at least once; as with every notifier, an error of sending is logged and does not
    change the task. The message id follows from the message type, the facts below and how often the run was cleared, so
    that an endpoint with an outbox drops a repetition; a callback without a run gets a new id each time.

    Without ``body``, the body is a JSON object of ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``try_number``
    and ``state``. In a callback of a DAG it has ``dag_id``, ``run_id``, ``state`` and Airflow's ``reason``; in that of
    a deadline ``deadline_id`` and ``deadline_time`` in place of the reason. It does not have the error's text, which
    may quote confidential data.

    :param message_type: the message's .NET type, ``Namespace.Name`` with or without its assembly (templated)
    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint that the queue belongs to, instead of ``queue_name``; resolved with the connection's
        endpoint settings (templated)
    :param body: text, or a JSON value (templated)
    :param headers: further headers (templated)
    :param originating_endpoint: name of the sending endpoint; None: ``airflow.`` and the DAG's id (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    :param kwargs: ``context``, which Airflow gives to the callback of a deadline.
    """

    template_fields: Sequence[str] = (
        *("message_type", "queue_name", "endpoint", "body", "headers", "originating_endpoint", "sqlqueue_conn_id"),
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.message_type = message_type
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.body = body
        self.headers = headers
        self.originating_endpoint = originating_endpoint
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params
        check_named_once(queue_name, endpoint)
        check_hook_params(hook_params)

    def __call__(self, *args: Any) -> None:
        """Send a notification with the templates and the context of this call.

        Airflow renders templates for good, into what it calls, and puts them into the context, from which the task's
        function would get them as arguments named ``body`` or ``endpoint``.
        """
        own = map(copy, args) if len(args) == 1 else args
        super(SqlQueueNotifier, copy(self)).__call__(*own)

    def notify(self, context: Context) -> None:
        """Send it; raises this package's errors, which Airflow logs."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
        from airflow_sqlqueue.messages.envelope.outgoing import Sender

        about = _about(context)
        # A run that was cleared may end as before, which is no repetition.
        cleared = _fact(context.get("dag_run"), "clear_number")
        facts = [*about.values(), *([cleared] if cleared else [])] if about["run_id"] else [uuid.uuid4()]
        sender = Sender(
            key="\0".join(map(str, ["notification", self.message_type, *facts])),
            endpoint=self.originating_endpoint or f"airflow.{about['dag_id']}".rstrip("."),
            enclosed_message_types=self.message_type,
        )
        hook = SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))
        queue = hook.queue(self.queue_name, endpoint=self.endpoint)
        body = about if self.body is None else self.body
        queue.send(sender.messages([{"body": body, "headers": self.headers}]))
        self.log.info("Notified %s", queue.address)

    async def async_notify(self, context: Context) -> None:
        """Send it from the triggerer, on a thread beside its event loop."""
        from airflow_sqlqueue.hooks.lookups import look_up

        await look_up(lambda: self.notify(context))


def _about(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the task instance, or, in a callback of a DAG or of a deadline, of its run."""
    ti, run, deadline = context.get("ti"), context.get("dag_run"), context.get("deadline")
    # Airflow puts the last task instance into the context of a DAG's callback.
    if ti is not None and "reason" not in context:
        names = ("dag_id", "run_id", "task_id", "map_index", "try_number", "state")
        about = {name: _fact(ti, name) for name in names}
        return {**about, "map_index": -1 if about["map_index"] is None else about["map_index"]}
    about = {
        "dag_id": _fact(run, "dag_id") or _fact(context.get("dag"), "dag_id") or "",
        "run_id": _fact(run, "run_id") or _fact(run, "dag_run_id") or context.get("run_id") or "",
        "state": _fact(run, "state"),
    }
    if deadline is not None:
        due = _fact(deadline, "deadline_time")
        about |= {"deadline_id": str(_fact(deadline, "id")), "deadline_time": due and str(due).replace(" ", "T")}
    return {**about, "reason": str(context["reason"])} if "reason" in context else about


def _fact(subject: Any, name: str) -> Any:
    """Return an attribute or a key: a task's callback gets objects from Airflow, that of a deadline dictionaries."""
    value = subject.get(name) if isinstance(subject, Mapping) else getattr(subject, name, None)
    return getattr(value, "value", value)
