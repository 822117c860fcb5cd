"""Make everything that an endpoint needs on the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import RoutedTask
from airflow_sqlqueue.operators.create import made

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueProvisionOperator(RoutedTask, BaseOperator):
    """Make what an endpoint needs where it is missing: its queue and the one of its delayed messages, the error and the
    audit queue, the ledgers, the subscription table, and its subscriptions.

    Safe to repeat, and beside endpoints that make the same tables: what exists is left as it is, and the task's log
    says where it differs. Each table is made on its own, so what was made before an error stays.

    XCom: the addresses of the tables that this task made.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param error_queue: the address of the error queue; None: none (templated)
    :param audit_queue: the address of the audit queue; None: none (templated)
    :param subscribe_to: the .NET types of events that the endpoint is subscribed to; needs ``endpoint`` (templated)
    :param delayed: whether to make the table of delayed messages.
    :param ledger: whether to make the ledgers of drains and sends, for logins that may not.
    :param create_schema: whether to make missing schemas.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "queue_name",
        "endpoint",
        "error_queue",
        "audit_queue",
        "subscribe_to",
        "sqlqueue_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"subscribe_to": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        error_queue: str | None = "error",
        audit_queue: str | None = "audit",
        subscribe_to: Sequence[str] = (),
        delayed: bool = True,
        ledger: bool = True,
        create_schema: bool = False,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.check_queue()
        self.error_queue = error_queue
        self.audit_queue = audit_queue
        self.subscribe_to = subscribe_to
        self.delayed = delayed
        self.ledger = ledger
        self.create_schema = create_schema
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params
        if subscribe_to and endpoint is None:
            from airflow_sqlqueue.errors import ConfigurationError

            raise ConfigurationError(f"The task {self.task_id!r} subscribes an endpoint: name it by endpoint.")

    def execute(self, context: Context) -> list[str]:
        """Make it; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            client = self.hook.client
            created = client.tables.create(
                self.address,
                delayed=self.delayed,
                subscriptions=bool(self.subscribe_to),
                ledger=self.ledger,
                create_schema=self.create_schema,
            )
            for name in (self.error_queue, self.audit_queue):
                if name is not None:
                    created += client.tables.create(name, create_schema=self.create_schema)
            if self.endpoint and self.subscribe_to:
                client.subscriptions.subscribe(self.endpoint, self.subscribe_to)
        return made(created, self.log)
