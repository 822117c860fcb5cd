"""Operators on failed messages: one for every action, and one that returns them to the queues where they failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import Context

from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import (
    LimitedTask,
    RoutedTask,
    check_given_fields,
    check_options,
    note_counts,
    task_key,
    templated,
)
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.errors.actions import action_named
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.errors.effects import ActionInputs
from airflow_sqlqueue.queue.errors.filters import ErrorFilter

_STEP = 1_000
"""Messages between two log lines of progress."""


class SqlQueueFailedMessagesOperator(LimitedTask, RoutedTask):
    """Do an action on failed messages of an error queue, or on archived ones: those that match ``filters``, or all.

    Delivery: exactly once, chunk by chunk, each a transaction; a retry continues with the rest. Messages that stay are
    counted by reason and do not fail the task.

    - ``archive`` moves messages into a table beside the queue, with all their columns, the task that moves them, the
      time and ``reason``; ``restore`` moves them back. A restored message has a new RowVersion, and does not expire.
    - ``park`` moves them to ``to_queue``, with the headers of the failure. They do not expire, and can be returned to
      their source from there. ``redirect`` removes the headers of the failure; ``return`` is that of
      :class:`SqlQueueReturnToSourceOperator`.
    - ``delete`` deletes them for good, ``purge_archive`` archived ones. Both need ``confirm``.

    XCom: the fields of :class:`~airflow_sqlqueue.ErrorQueueResult`, only numbers, names of queues and sentences.

    :param action: a name in :data:`~airflow_sqlqueue.queue.errors.actions.ACTIONS`.
    :param queue_name: the error queue's address, ``table@[schema]@[catalog]``; ``error`` unless given (templated)
    :param endpoint: the name whose queue is the error queue, instead of ``queue_name`` (templated)
    :param filters: conditions on the messages, those of :class:`~airflow_sqlqueue.ErrorFilter`; ``row_versions`` of
        archived messages are their numbers in the archive (templated)
    :param all_messages: every message; only without ``filters``.
    :param to_queue: the address of the queue that receives the messages (templated)
    :param malformed: redirect messages with malformed headers too, their text unchanged.
    :param reason: the reason, which the archive keeps; at most 500 characters (templated)
    :param older_than: delete messages that were archived longer ago than this time, a timedelta or seconds; an age and
        ``filters`` must both hold (templated)
    :param confirm: True allows the loss of the messages; a count needs none.
    :param max_messages: stop after this many messages, the oldest first; None: no limit (templated)
    :param max_seconds: begin no transaction after this many seconds; None: no limit (templated)
    :param only_count: change nothing, only count.
    :param error_queue_options: the rate and the sizes of transactions, options of
        :class:`~airflow_sqlqueue.ErrorQueueOptions`: ``{"rate": 50}`` (templated)
    """

    template_fields = templated(
        LimitedTask, RoutedTask, "filters", "to_queue", "reason", "older_than", "error_queue_options"
    )

    def __init__(
        self,
        *,
        action: str,
        queue_name: str | None = None,
        endpoint: str | None = None,
        filters: dict[str, Any] | None = None,
        all_messages: bool = False,
        to_queue: str | None = None,
        malformed: bool = False,
        reason: str | None = None,
        older_than: timedelta | float | str | None = None,
        confirm: bool = False,
        only_count: bool = False,
        error_queue_options: ErrorQueueOptions | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if queue_name is None and endpoint is None:
            queue_name = "error"
        super().__init__(queue_name=queue_name, endpoint=endpoint, **kwargs)
        self.action = action
        self.filters = filters
        self.all_messages = all_messages
        self.to_queue = to_queue
        self.malformed = malformed
        self.reason = reason
        self.older_than = older_than
        self.confirm = confirm
        self.only_count = only_count
        self.error_queue_options = error_queue_options
        check_options(self, ErrorQueueOptions, ErrorFilter)
        given = [name for name, value in self._inputs().items() if value not in (None, "", False)]
        action_named(action).check(given, dry_run=only_count)

    def execute(self, context: Context) -> dict[str, Any]:
        action = action_named(self.action)
        with fail_without_retry():
            check_given_fields(self)
            inputs = self._inputs()
            if "by" in action.input_names:
                inputs["by"] = " ".join(map(str, task_key(context)))
            done = self.hook.client.errors.act(
                self.action,
                self.address,
                filters=self.filters,
                all_messages=self.all_messages,
                options=self._options(),
                on_progress=self._log_progress,
                **inputs,
            )
        self._log(done, f"would be {action.done}" if self.only_count else action.done)
        if not self.only_count:
            taken = {} if action.archived else {self.address: done.messages}
            flows = [
                [of_table(self.hook.client, queue, messages) for queue, messages in counts.items()]
                for counts in (taken, done.destinations)
            ]
            self.lineage = Lineage(*flows) if any(flows) else None
            Metrics(self, self.sql_queue).count(f"{self.action}.messages", done.messages)
        note_counts(self, context, messages=done.messages)
        return done.to_dict()

    def _options(self) -> ErrorQueueOptions:
        return ErrorQueueOptions.of(self.error_queue_options, **self.limits(), dry_run=self.only_count)

    def _inputs(self) -> dict[str, Any]:
        names = [each.name for each in ActionInputs.described() if each.name != "by"]
        return {name: getattr(self, name) for name in names}

    def _log(self, done: ErrorQueueResult, what: str) -> None:
        self.log.info("%s of %s %s", count_of(done.messages, "message"), self.address, what)
        for reason, messages in done.left.items():
            self.log.warning("%s left in %s: %s", count_of(messages, "message"), self.address, reason)
        if done.unseen:
            self.log.warning("%d messages of %s were locked by others", done.unseen, self.address)

    def _log_progress(self, done: ErrorQueueResult) -> None:
        if done.messages - self._logged >= _STEP:
            self._logged = done.messages
            self.log.info("%s: %s so far", action_named(self.action).label, count_of(done.messages, "message"))

    _logged = 0


class SqlQueueReturnToSourceOperator(SqlQueueFailedMessagesOperator):
    """Return failed messages of an error queue to the queues where they failed: those that match ``filters``, or all.

    Delivery: exactly once. Each transaction takes messages out of the error queue and puts them into one queue of the
    same server, so no failure loses or duplicates a message; a retry continues with the rest. A returned message keeps
    its message id, correlation id, conversation id, row Id and body; the headers of the failure and of its retries are
    removed, and the expiry is cleared. A message that fails again while this runs is not returned twice.

    Messages that cannot be returned stay in the error queue and are counted by reason: malformed headers, no failed
    queue, a failed queue that does not exist, locked by others. They do not fail the task.

    Arguments and XCom are those of :class:`SqlQueueFailedMessagesOperator` with the action ``return``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(action="return", **kwargs)
