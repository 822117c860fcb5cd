"""Move delayed messages that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueMoveDelayedOperator(QueueTask, BaseOperator):
    """Move the delayed messages of a queue that are due, as its endpoint would: for queues that no endpoint serves.

    Messages wait in the table ``<queue>.Delayed``. Those with a forward destination go there, the others to the queue.
    Delivery: exactly once, chunk by chunk, each a transaction; safe to repeat, and beside an endpoint. Another mover of
    the same table makes this one return at once, with ``busy``.

    XCom: the numbers ``moved``, ``forwarded``, ``failed`` (to the error queue) and ``left`` (no queue to go to),
    ``next_due`` (when the earliest message that is left is due), ``busy``, ``complete`` (False when a budget ended it)
    and ``seconds``. Why messages failed or were left stands in the task's log.

    :param queue_name: the address of the queue, not of its table of delayed messages (templated)
    :param error_queue: the address of the queue for what cannot be forwarded; None leaves it (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param chunk: messages of one transaction, 1 to 1,000.
    :param max_messages: stop after this many messages; None: no limit.
    :param max_seconds: stop after this many seconds; None: no limit.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "error_queue", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        error_queue: str | None = None,
        sqlqueue_conn_id: str = "sqlqueue_default",
        chunk: int = 100,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.error_queue = error_queue
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.chunk = chunk
        self.max_messages = max_messages
        self.max_seconds = max_seconds
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, Any]:
        """Move them; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            moved = self.hook.client.delayed(self.queue_name).move(
                error_queue=self.error_queue,
                chunk=self.chunk,
                max_messages=self.max_messages,
                max_seconds=self.max_seconds,
            )
        self.log.info("Moved %d and forwarded %d messages of %s", moved.moved, moved.forwarded, self.queue_name)
        Metrics(self, self.hook.queue(self.queue_name)).count("move_delayed.messages", moved.moved + moved.forwarded)
        if moved.busy:
            self.log.info("Another mover is at work on %s", self.queue_name)
        for destination, problem in moved.problems.items():
            self.log.warning("Nothing could be forwarded to %r: %s", destination, problem)
        return moved.to_dict()
