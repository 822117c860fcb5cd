"""Create a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

    from airflow_sqlqueue.tables.create import CreateResult


class SqlQueueCreateOperator(QueueTask, BaseOperator):
    """Create a queue table and its indexes if it is missing. An existing queue is left as it is.

    Safe to repeat, and beside endpoints that create the same queue. Where an existing table differs from what was
    asked, the task's log says how. XCom: the addresses of the tables that this task made.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param layout: ``modern``, as versions 5.0.3 and later make it, ``clustered``, or a version, ``v1`` to ``v9``.
    :param legacy_columns: False leaves out CorrelationId, ReplyToAddress and Recoverable (version 7 and later).
    :param body_string: whether to add a computed column that shows the body as text.
    :param delayed: whether to create the table of delayed messages as well, ``<queue>.Delayed``.
    :param subscriptions: whether to create the subscription table as well.
    :param ledger: whether to create the ledgers of drains and sends as well, for logins that may not.
    :param create_schema: whether to make a missing schema.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        sqlqueue_conn_id: str = "sqlqueue_default",
        layout: str = "modern",
        legacy_columns: bool = True,
        body_string: bool = False,
        delayed: bool = False,
        subscriptions: bool = False,
        ledger: bool = False,
        create_schema: bool = False,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.layout = layout
        self.legacy_columns = legacy_columns
        self.body_string = body_string
        self.delayed = delayed
        self.subscriptions = subscriptions
        self.ledger = ledger
        self.create_schema = create_schema
        self.hook_params = hook_params

    def execute(self, context: Context) -> list[str]:
        """Create it; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            created = self.hook.create_queue(
                self.queue_name,
                layout=self.layout,
                legacy_columns=self.legacy_columns,
                body_string=self.body_string,
                delayed=self.delayed,
                subscriptions=self.subscriptions,
                ledger=self.ledger,
                create_schema=self.create_schema,
            )
        return made(created, self.log)


def made(created: Sequence[CreateResult], log: Logger) -> list[str]:
    """The addresses of the tables that were made; the log says so of each, and how one that was there differs."""
    for found in created:
        log.info("%s was made" if found.made else "%s is there already", found.table)
        for difference in found.differences:
            log.warning("%s differs from what was asked: %s", found.table, difference)
    return [found.table.canonical for found in created if found.made]
