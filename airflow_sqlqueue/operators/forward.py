"""Move messages from one queue to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask, note_counts
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueForwardOperator(QueueTask, BaseOperator):
    """Move the messages that are in a queue to another queue of the same server, with all their columns and expiry.

    Delivery: exactly once, chunk by chunk, each a transaction; safe to repeat. No message leaves the server. Messages
    that others have locked stay.

    XCom: the numbers ``messages``, ``locked`` (left, at the least) and ``seconds``, and ``complete`` (False when a
    budget ended it).

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param to_queue: the address of the queue that gets them (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param chunk: rows per transaction, 1 to 2,000.
    :param max_messages: stop after this many messages; None: no limit.
    :param max_seconds: stop after this many seconds; None: no limit.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "to_queue", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        to_queue: str,
        sqlqueue_conn_id: str = "sqlqueue_default",
        chunk: int = 500,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.to_queue = to_queue
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.chunk = chunk
        self.max_messages = max_messages
        self.max_seconds = max_seconds
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, Any]:
        """Move them; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            forwarded = self.hook.queue(self.queue_name).forward(
                self.to_queue, chunk=self.chunk, max_messages=self.max_messages, max_seconds=self.max_seconds
            )
        self.log.info("Moved %d messages of %s to %s", forwarded.messages, self.queue_name, self.to_queue)
        taken, put = (of_table(self.hook.client, name, forwarded.messages) for name in (self.queue_name, self.to_queue))
        self.lineage = Lineage([taken], [put])
        Metrics(self, self.hook.queue(self.queue_name)).count("forward.messages", forwarded.messages)
        note_counts(self, context, messages=forwarded.messages, to_queue=self.to_queue)
        return asdict(forwarded)
