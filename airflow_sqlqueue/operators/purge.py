"""Purge messages from a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import RoutedTask, note_counts
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueuePurgeOperator(RoutedTask, BaseOperator):
    """Delete messages in small transactions that wait for no lock: what has expired, all of them, old ones, or what
    a filter matches.

    Safe to repeat: what is purged is gone, what is locked stays for the next time. A purge that is not of expired
    messages loses them, so it wants ``confirm``.

    XCom: ``deleted``, ``remaining``, ``complete`` (False when a budget ended it), ``seconds``, ``locked`` and
    ``undated``, as :class:`~airflow_sqlqueue.queue.purge.PurgeResult` has them.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param all_messages: purge every message that is there at the start.
    :param older_than: purge what was sent longer ago, by its header TimeSent: the headers of the whole queue are read.
    :param filters: purge what matches, conditions of :class:`~airflow_sqlqueue.MessageFilter`, with an ``older_than``
        as well: ``{"message_type": "Shop.OrderPlaced", "until": "2026-01-31T08:00:00Z"}``; ``message_id``,
        ``correlation_id``, ``endpoint``, ``since`` and ``headers``, names and values, are others. The server reads the
        headers of the whole queue (templated)
    :param confirm: messages that have not expired may be lost.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param chunk: rows per transaction, 1 to 2,000.
    :param pause: seconds between two transactions.
    :param max_messages: stop after this many messages; None: no limit.
    :param max_seconds: stop after this many seconds; None: no limit.
    :param only_count: delete nothing, only count.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "endpoint", "filters", "sqlqueue_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"filters": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        all_messages: bool = False,
        older_than: timedelta | None = None,
        filters: Mapping[str, Any] | None = None,
        confirm: bool = False,
        sqlqueue_conn_id: str = "sqlqueue_default",
        chunk: int = 1_000,
        pause: float = 0.0,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        only_count: bool = False,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.check_queue()
        self.all_messages = all_messages
        self.older_than = older_than
        self.filters = filters
        self.confirm = confirm
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.chunk = chunk
        self.pause = pause
        self.max_messages = max_messages
        self.max_seconds = max_seconds
        self.only_count = only_count
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, Any]:
        """Purge; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.queue.filters import MessageFilter
        from airflow_sqlqueue.queue.purge import PurgeOptions

        with fail_without_retry():
            options = PurgeOptions(
                all_messages=self.all_messages,
                older_than=self.older_than,
                where=None if self.filters is None else MessageFilter.of(self.filters),
                confirm=self.confirm,
                dry_run=self.only_count,
                chunk=self.chunk,
                pause=self.pause,
                max_messages=self.max_messages,
                max_seconds=self.max_seconds,
            )
            purged = self.sql_queue.purge(options)
        if not self.only_count:
            metrics = Metrics(self, self.sql_queue)
            metrics.count("purge.messages", purged.deleted)
            metrics.depth()
        queue = self.queue_name or self.endpoint
        self.log.info("Purged %d messages of %s, %s remain", purged.deleted, queue, purged.remaining)
        if not self.only_count:
            self.lineage = Lineage([of_table(self.hook.client, self.address, purged.deleted)])
        note_counts(self, context, messages=purged.deleted)
        return asdict(purged)


class SqlQueuePurgeExpiredOperator(SqlQueuePurgeOperator):
    """Delete the messages whose time to be received is over, in small transactions that wait for no lock.

    Endpoints do this when they start; a queue that no endpoint serves, such as audit, keeps them for ever. Expiry is by
    the server's clock. Parameters and XCom are those of :class:`SqlQueuePurgeOperator`, which purges others as well.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    """

    template_fields: Sequence[str] = ("queue_name", "endpoint", "sqlqueue_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        sqlqueue_conn_id: str = "sqlqueue_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            queue_name=queue_name,
            endpoint=endpoint,
            sqlqueue_conn_id=sqlqueue_conn_id,
            all_messages=False,
            older_than=None,
            filters=None,
            **kwargs,
        )
