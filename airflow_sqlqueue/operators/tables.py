"""Operators that create and drop queue tables, or create all tables that an endpoint needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import RoutedTask, templated

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

    from airflow_sqlqueue.queue.tables.create import CreateResult


class SqlQueueCreateOperator(RoutedTask):
    """Create a missing queue table with its indexes. An existing queue is not changed.

    Safe to repeat, and to run beside endpoints that create the same queue. If an existing table differs from these
    arguments, the task's log says how. XCom: the addresses of the tables that this task created.

    :param layout: ``modern``, the layout of versions 5.0.3 and later, ``clustered``, or a version, ``v1`` to ``v10``.
    :param legacy_columns: False leaves out CorrelationId, ReplyToAddress and Recoverable (version 7 and later).
    :param body_string: whether to add a computed column that shows the body as text.
    :param delayed: whether to create the table of delayed messages too, ``<queue>.Delayed``.
    :param subscriptions: whether to create the subscription table too.
    :param ledger: whether to create the ledgers of drains and sends and the inbox too, for logins without the right to
        create them.
    :param create_schema: whether to create a missing schema.
    """

    def __init__(
        self,
        *,
        layout: str = "modern",
        legacy_columns: bool = True,
        body_string: bool = False,
        delayed: bool = False,
        subscriptions: bool = False,
        ledger: bool = False,
        create_schema: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.layout = layout
        self.legacy_columns = legacy_columns
        self.body_string = body_string
        self.delayed = delayed
        self.subscriptions = subscriptions
        self.ledger = ledger
        self.create_schema = create_schema

    def execute(self, context: Context) -> list[str]:
        from airflow_sqlqueue.client.tables import QueueTables

        with fail_without_retry():
            tables: Any = {name: getattr(self, name) for name in QueueTables.__annotations__}
            created = self.hook.create_queue(self.address, create_schema=self.create_schema, **tables)
        return _created(created, self.log)


class SqlQueueProvisionOperator(RoutedTask):
    """Create the missing tables of an endpoint: its queue and its table of delayed messages, the error and the audit
    queue, the ledgers, and the subscription table; and add its subscriptions.

    Safe to repeat, and to run beside endpoints that create the same tables: existing tables are not changed, and the
    task's log says how they differ. The task creates the tables one by one, so tables created before an error stay.

    XCom: the addresses of the tables that this task created.

    :param error_queue: the address of the error queue; None: do not create one (templated)
    :param audit_queue: the address of the audit queue; None: do not create one (templated)
    :param subscribe_to: the .NET types of events that the endpoint is subscribed to; needs ``endpoint`` (templated)
    :param delayed: whether to create the table of delayed messages.
    :param ledger: whether to create the ledgers of drains and sends and the inbox, for logins without the right to
        create them.
    :param create_schema: whether to create missing schemas.
    """

    template_fields = templated(RoutedTask, "error_queue", "audit_queue", "subscribe_to")

    def __init__(
        self,
        *,
        error_queue: str | None = "error",
        audit_queue: str | None = "audit",
        subscribe_to: Sequence[str] = (),
        delayed: bool = True,
        ledger: bool = True,
        create_schema: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.error_queue = error_queue
        self.audit_queue = audit_queue
        self.subscribe_to = subscribe_to
        self.delayed = delayed
        self.ledger = ledger
        self.create_schema = create_schema
        if subscribe_to and self.endpoint is None:
            raise ConfigurationError(f"The task {self.task_id!r} subscribes an endpoint: name it by endpoint.")

    def execute(self, context: Context) -> list[str]:
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
        return _created(created, self.log)


class SqlQueueDropOperator(RoutedTask):
    """Drop a queue table, or a table of delayed messages. A missing table is no error, so the task can be repeated.

    A table that holds messages, locked ones included, fails the task unless ``force`` is set.

    XCom: the number of messages that were dropped with it.

    :param force: whether to drop a table that holds messages.
    """

    def __init__(self, *, force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.force = force

    def execute(self, context: Context) -> int:
        with fail_without_retry():
            try:
                dropped = self.hook.client.tables.drop(self.address, force=self.force)
            except QueueNotFoundError:
                self.log.info("%s does not exist", self.address)
                return 0
        self.log.info("Dropped %s with %d messages", self.address, dropped)
        return dropped


def _created(results: Sequence[CreateResult], log: Logger) -> list[str]:
    """Return the addresses of the created tables; log each table, and the differences of existing ones."""
    for result in results:
        log.info("%s was created" if result.made else "%s exists already", result.table)
        for difference in result.differences:
            log.warning("%s differs from the arguments: %s", result.table, difference)
    return [result.table.canonical for result in results if result.made]
