"""Operators for the maintenance of queues: purge, forward, move delayed messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import Context

from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import (
    LimitedTask,
    RoutedTask,
    check_named_once,
    check_options,
    message_filter,
    note_counts,
    templated,
)
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.forwarding import ForwardOptions
from airflow_sqlqueue.queue.purge import PurgeOptions
from airflow_sqlqueue.untrusted import quoted


class PurgeTask(LimitedTask, RoutedTask):
    """Base class of the purge operators, which use small transactions and skip locked messages.

    :param only_count: delete nothing, only count.
    :param purge_options: ``chunk`` and ``pause`` of the transactions, and ``lock_timeout``, options of
        :class:`~airflow_sqlqueue.PurgeOptions` (templated)
    """

    template_fields = templated(LimitedTask, RoutedTask, "purge_options")

    def __init__(
        self, *, only_count: bool = False, purge_options: PurgeOptions | Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.only_count = only_count
        self.purge_options = purge_options
        check_options(self, PurgeOptions)

    def selection(self) -> dict[str, Any]:
        """Return the options of the purge that select its messages; without options it deletes the expired ones."""
        return {}

    def _options(self) -> PurgeOptions:
        given = {**self.limits(), **self.selection(), "dry_run": self.only_count}
        return PurgeOptions.of(self.purge_options, **given)

    def execute(self, context: Context) -> dict[str, Any]:
        with fail_without_retry():
            purged = self.sql_queue.purge(self._options())
        queue = self.queue_name or self.endpoint
        left = "not counted" if purged.remaining is None else f"{purged.remaining:,}"
        self.log.info("Purged %s of %s; messages left: %s", count_of(purged.deleted, "message"), queue, left)
        if not self.only_count:
            metrics = Metrics(self, self.sql_queue)
            metrics.count("purge.messages", purged.deleted)
            metrics.depth()
            self.lineage = Lineage([of_table(self.hook.client, self.address, purged.deleted)])
        note_counts(self, context, messages=purged.deleted)
        return asdict(purged)


class SqlQueuePurgeOperator(PurgeTask):
    """Purge a queue: delete its expired messages, all messages, old ones, or those that match a filter.

    It uses small transactions and skips locked messages, which stay for the next purge; safe to repeat. A purge of
    messages that have not expired loses them, so it needs ``confirm``.

    XCom: the fields of :class:`~airflow_sqlqueue.queue.purge.PurgeResult`.

    :param all_messages: purge every message that is in the queue at the start.
    :param older_than: purge messages sent longer ago than this time, a timedelta or seconds, by their header TimeSent;
        this reads the headers of the whole queue (templated)
    :param filters: purge messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`, and also
        ``older_than`` if that is given: ``{"message_type": "Shop.OrderPlaced", "until": "2026-01-31T08:00:00Z"}``. The
        server reads the headers of the whole queue (templated)
    :param confirm: True allows the loss of messages that have not expired.
    """

    template_fields = templated(PurgeTask, "filters", "older_than")

    def __init__(
        self,
        *,
        all_messages: bool = False,
        older_than: timedelta | float | str | None = None,
        filters: Mapping[str, Any] | None = None,
        confirm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.all_messages = all_messages
        self.older_than = older_than
        self.filters = filters
        self.confirm = confirm
        check_options(self, MessageFilter)

    def selection(self) -> dict[str, Any]:
        return {
            "all_messages": self.all_messages,
            "older_than": self.older_than,
            "where": message_filter(self),
            "confirm": self.confirm,
        }


class SqlQueuePurgeExpiredOperator(PurgeTask):
    """Delete the expired messages, in small transactions that skip locked ones.

    A message expires when its time to be received is over, by the server's clock. Endpoints do this when they start; a
    queue that no endpoint serves, such as audit, keeps expired messages for ever. XCom is that of
    :class:`SqlQueuePurgeOperator`, which can purge other messages too.
    """


class SqlQueueForwardOperator(LimitedTask, RoutedTask):
    """Move the messages of a queue to another queue of the same server, with all their columns and expiry.

    Delivery: exactly once, chunk by chunk, each a transaction; safe to repeat. No message leaves the server. Locked
    messages stay.

    XCom: the fields of :class:`~airflow_sqlqueue.queue.forwarding.ForwardResult`.

    :param to_queue: the address of the queue that receives them; None: that of ``to_endpoint`` (templated)
    :param to_endpoint: the endpoint whose queue receives them, instead of ``to_queue`` (templated)
    :param filters: move only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`, such as
        ``{"message_type": "Shop.OrderPlaced"}``; the server reads the headers of the whole queue (templated)
    :param forward_options: ``chunk``, rows of one transaction, an option of :class:`~airflow_sqlqueue.ForwardOptions`
        (templated)
    """

    template_fields = templated(LimitedTask, RoutedTask, "to_queue", "to_endpoint", "filters", "forward_options")

    def __init__(
        self,
        *,
        to_queue: str | None = None,
        to_endpoint: str | None = None,
        filters: Mapping[str, Any] | None = None,
        forward_options: ForwardOptions | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_named_once(self.task_id, to_queue, to_endpoint, "to_queue or to_endpoint")
        self.to_queue = to_queue
        self.to_endpoint = to_endpoint
        self.filters = filters
        self.forward_options = forward_options
        check_options(self, ForwardOptions, MessageFilter)

    def execute(self, context: Context) -> dict[str, Any]:
        with fail_without_retry():
            to_queue = self.hook.client.resolver.address_of(self.to_queue, self.to_endpoint)
            forwarded = self.sql_queue.forward(to_queue, self._options())
        self.log.info("Moved %s of %s to %s", count_of(forwarded.messages, "message"), self.address, to_queue)
        taken, put = (of_table(self.hook.client, name, forwarded.messages) for name in (self.address, to_queue))
        self.lineage = Lineage([taken], [put])
        Metrics(self, self.sql_queue).count("forward.messages", forwarded.messages)
        note_counts(self, context, messages=forwarded.messages, to_queue=to_queue)
        return asdict(forwarded)

    def _options(self) -> ForwardOptions:
        return ForwardOptions.of(self.forward_options, **self.limits(), where=message_filter(self))


class SqlQueueMoveDelayedOperator(LimitedTask, RoutedTask):
    """Move the delayed messages of a queue that are due, as its endpoint would: for queues that no endpoint serves.

    Messages wait in the table ``<queue>.Delayed``. Those with a forward destination go there, the others to the queue.
    Delivery: exactly once, chunk by chunk, each a transaction; safe to repeat, and beside an endpoint. If another mover
    works on the same table, this one returns at once, with ``busy``.

    XCom: the counts of :class:`~airflow_sqlqueue.MoveResult`. The task's log has reasons for failed and left messages.

    :param queue_name: the address of the queue, not of its table of delayed messages (templated)
    :param error_queue: the address of the queue for messages that cannot be forwarded; None: they stay (templated)
    :param move_options: ``chunk``, messages of one transaction, an option of :class:`~airflow_sqlqueue.MoveOptions`
        (templated)
    """

    template_fields = templated(LimitedTask, RoutedTask, "error_queue", "move_options")

    def __init__(
        self,
        *,
        error_queue: str | None = None,
        move_options: MoveOptions | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.error_queue = error_queue
        self.move_options = move_options
        check_options(self, MoveOptions)

    def execute(self, context: Context) -> dict[str, Any]:
        with fail_without_retry():
            moved = self.hook.client.delayed(self.address).move(self._options(), error_queue=self.error_queue)
        self.log.info("Moved %d and forwarded %d messages of %s", moved.moved, moved.forwarded, self.address)
        Metrics(self, self.sql_queue).count("move_delayed.messages", moved.moved + moved.forwarded)
        if moved.busy:
            self.log.info("Another mover works on %s", self.address)
        for destination, problem in moved.problems.items():
            self.log.warning("No message could be forwarded to %s: %s", quoted(destination), problem)
        return moved.to_dict()

    def _options(self) -> MoveOptions:
        return MoveOptions.of(self.move_options, **self.limits())
