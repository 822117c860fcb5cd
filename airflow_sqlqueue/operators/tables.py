"""Operators that create and drop queue tables, one by one or all that an endpoint needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask, RoutedTask, templated

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

    from airflow_sqlqueue.tables.create import CreateResult


class SqlQueueCreateOperator(QueueTask):
    """Create a queue table and its indexes if it is missing. An existing queue is left as it is.

    Safe to repeat, and beside endpoints that create the same queue. Where an existing table differs from what was
    asked, the task's log says how. XCom: the addresses of the tables that this task made.

    :param layout: ``modern``, as versions 5.0.3 and later make it, ``clustered``, or a version, ``v1`` to ``v9``.
    :param legacy_columns: False leaves out CorrelationId, ReplyToAddress and Recoverable (version 7 and later).
    :param body_string: whether to add a computed column that shows the body as text.
    :param delayed: whether to create the table of delayed messages as well, ``<queue>.Delayed``.
    :param subscriptions: whether to create the subscription table as well.
    :param ledger: whether to create the ledgers of drains and sends as well, for logins that may not.
    :param create_schema: whether to make a missing schema.
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
        return _created(created, self.log)


class SqlQueueProvisionOperator(RoutedTask):
    """Make what an endpoint needs where it is missing: its queue and the one of its delayed messages, the error and the
    audit queue, the ledgers, the subscription table, and its subscriptions.

    Safe to repeat, and beside endpoints that make the same tables: what exists is left as it is, and the task's log
    says where it differs. Each table is made on its own, so what was made before an error stays.

    XCom: the addresses of the tables that this task made.

    :param error_queue: the address of the error queue; None: none (templated)
    :param audit_queue: the address of the audit queue; None: none (templated)
    :param subscribe_to: the .NET types of events that the endpoint is subscribed to; needs ``endpoint`` (templated)
    :param delayed: whether to make the table of delayed messages.
    :param ledger: whether to make the ledgers of drains and sends, for logins that may not.
    :param create_schema: whether to make missing schemas.
    """

    template_fields = templated(RoutedTask, "error_queue", "audit_queue", "subscribe_to")
    template_fields_renderers: ClassVar[dict[str, str]] = {"subscribe_to": "json"}

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
        return _created(created, self.log)


class SqlQueueDropOperator(QueueTask):
    """Drop a queue table, or a table of delayed messages. A missing one is no error, so the task can be repeated.

    One that holds messages, those that others have locked included, fails the task unless ``force`` is set.

    XCom: how many messages were dropped with it.

    :param force: whether to drop it with the messages that it holds.
    """

    def __init__(self, *, force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.force = force

    def execute(self, context: Context) -> int:
        """Drop it; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.errors import QueueNotFoundError

        with fail_without_retry():
            try:
                dropped = self.hook.client.tables.drop(self.queue_name, force=self.force)
            except QueueNotFoundError:
                self.log.info("There is no %s", self.queue_name)
                return 0
        self.log.info("Dropped %s with %d messages", self.queue_name, dropped)
        return dropped


def _created(results: Sequence[CreateResult], log: Logger) -> list[str]:
    """Addresses of the tables that were made; the log says so of each, and how one that was there differs."""
    for result in results:
        log.info("%s was made" if result.made else "%s is there already", result.table)
        for difference in result.differences:
            log.warning("%s differs from what was asked: %s", result.table, difference)
    return [result.table.canonical for result in results if result.made]
