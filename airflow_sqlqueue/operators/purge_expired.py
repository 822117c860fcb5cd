"""Purge expired messages from a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueuePurgeExpiredOperator(QueueTask, BaseOperator):
    """Delete the messages whose time to be received is over, in small transactions that wait for nobody.

    Endpoints do this when they start; a queue that no endpoint serves, such as audit, keeps them for ever. Expiry is by
    the server's clock. Safe to repeat: what is purged is gone, what is locked stays for the next time.

    XCom: ``deleted``, ``remaining``, ``complete`` (False when a budget ended it) and ``seconds``.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param chunk: rows per transaction, 1 to 2,000.
    :param max_messages: stop after this many messages; None: no limit.
    :param max_seconds: stop after this many seconds; None: no limit.
    :param only_count: delete nothing, only count.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        sqlqueue_conn_id: str = "sqlqueue_default",
        chunk: int = 1_000,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        only_count: bool = False,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.chunk = chunk
        self.max_messages = max_messages
        self.max_seconds = max_seconds
        self.only_count = only_count
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, Any]:
        """Purge; raises our errors, those no retry mends as AirflowFailException."""
        from airflow_sqlqueue.hooks.failures import fail_without_retry

        with fail_without_retry():
            purged = self.hook.purge_expired(
                self.queue_name,
                chunk=self.chunk,
                max_messages=self.max_messages,
                max_seconds=self.max_seconds,
                dry_run=self.only_count,
            )
        self.log.info("Purged %d expired messages of %s, %d remain", purged.deleted, self.queue_name, purged.remaining)
        return asdict(purged)
