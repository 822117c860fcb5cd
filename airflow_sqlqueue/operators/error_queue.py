"""Operators on failed messages: archive, restore, park, delete; and the base class that the return shares."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context

from airflow_sqlqueue.budget import count_of
from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import LimitedTask, RoutedTask, note_counts, task_key, templated
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.rendered import interval, number

if TYPE_CHECKING:
    from airflow_sqlqueue.client.errors import ErrorManager

_STEP = 1_000
"""Messages between two log lines of progress."""


class ErrorQueueTask(LimitedTask, RoutedTask):
    """Base class of tasks on failed messages: those that match ``filters``, or all.

    Delivery: exactly once, chunk by chunk, each a transaction; a retry continues with the rest. Messages that stay are
    counted by reason and do not fail the task.

    XCom: only counts, ``messages``, ``left`` by reason, ``unseen`` (locked by others all the time), ``complete`` (False
    only when a budget ended it), ``dry_run`` and ``seconds``; and ``warnings``, such as one of ServiceControl, if
    another program receives from the same queue.

    ``filters`` may have ``exception_type``, ``message_type``, ``endpoint``, ``failed_queue``, ``kind`` (``failed``,
    ``no failed queue``, ``malformed headers``), ``since`` and ``until`` (the time of failure, as ISO 8601),
    ``message_ids`` and ``row_versions``; a message must meet all given conditions.

    :param queue_name: the error queue's address, ``table@[schema]@[catalog]``; ``error`` unless given (templated)
    :param endpoint: the name whose queue is the error queue, instead of ``queue_name`` (templated)
    :param filters: conditions on the messages, a mapping (templated)
    :param all_messages: every message; only without ``filters``.
    :param rate: messages per second; None: no limit (templated)
    :param max_messages: stop after this many messages, the oldest first; None: no limit (templated)
    :param max_seconds: begin no transaction after this many seconds; None: no limit (templated)
    :param only_count: change nothing, only count.
    """

    template_fields = templated(LimitedTask, RoutedTask, "filters", "rate")
    template_fields_renderers: ClassVar[dict[str, str]] = {"filters": "json"}

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        filters: dict[str, Any] | None = None,
        all_messages: bool = False,
        rate: float | str | None = None,
        only_count: bool = False,
        **kwargs: Any,
    ) -> None:
        if queue_name is None and endpoint is None:
            queue_name = "error"
        super().__init__(queue_name=queue_name, endpoint=endpoint, **kwargs)
        self.filters = filters
        self.all_messages = all_messages
        self.rate = rate
        self.only_count = only_count

    @property
    def errors(self) -> ErrorManager:
        """Error queues of the server."""
        return self.hook.client.errors

    def selection(self, done: str) -> dict[str, Any]:
        """The messages, and a function that logs progress, for the client's calls; ``done`` is a participle."""
        return {"filters": self.filters, "all_messages": self.all_messages, "on_progress": self._progress(done)}

    def options(self) -> dict[str, Any]:
        """The options of all calls. Raises :class:`ConfigurationError` for a template that gives no number."""
        return {"rate": number("rate", self.rate), **self.limits(), "dry_run": self.only_count}

    def work_options(self) -> ErrorQueueOptions:
        """The options of a call that has no others."""
        return ErrorQueueOptions(**self.options())

    def log_result(self, done: ErrorQueueResult, what: str) -> None:
        """Log the counts; ``what`` is a participle."""
        said = f"would be {what}" if self.only_count else what
        self.log.info("%s of %s %s", count_of(done.messages, "message"), self.address, said)
        for reason, messages in done.left.items():
            self.log.warning("%s left in %s: %s", count_of(messages, "message"), self.address, reason)
        if done.unseen:
            self.log.warning("%d messages of %s were locked by others", done.unseen, self.address)

    def note(self, context: Context, done: ErrorQueueResult, metric: str, lineage: Lineage | None = None) -> None:
        """Note lineage, metrics and the counts for asset events, which a count alone has none of."""
        if not self.only_count:
            self.lineage = lineage
            Metrics(self, self.sql_queue).count(metric, done.messages)
        note_counts(self, context, messages=done.messages)

    def _progress(self, what: str) -> Callable[[ErrorQueueResult], None]:
        logged = 0

        def log_progress(done: ErrorQueueResult) -> None:
            nonlocal logged
            if done.messages - logged >= _STEP:
                logged = done.messages
                self.log.info("%s %s so far", what.capitalize(), count_of(logged, "message"))

        return log_progress


class SqlQueueArchiveErrorsOperator(ErrorQueueTask):
    """Archive failed messages of an error queue: those that match ``filters``, or all.

    Messages move into a table beside the queue, with all their columns, the task that moves them, the time and
    ``reason``; :class:`SqlQueueRestoreErrorsOperator` moves them back.

    :param reason: the reason, which the archive keeps; at most 500 characters (templated)
    """

    template_fields = templated(ErrorQueueTask, "reason")

    def __init__(self, *, reason: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Context) -> dict[str, Any]:
        """Archive them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            done = self.errors.archive(
                self.address,
                reason=self.reason,
                by=" ".join(map(str, task_key(context))),
                options=self.work_options(),
                **self.selection("archived"),
            )
        self.log_result(done, "archived")
        self.note(context, done, "archive.messages", _taken(self, done))
        return done.to_dict()


class SqlQueueRestoreErrorsOperator(ErrorQueueTask):
    """Restore archived messages into their error queue: those that match ``filters``, or all.

    The messages are as they were, but for a new RowVersion, and do not expire. ``row_versions`` of ``filters`` are
    numbers in the archive.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Restore them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            done = self.errors.archived.restore(self.address, options=self.work_options(), **self.selection("restored"))
        self.log_result(done, "restored")
        put = Lineage([], [of_table(self.hook.client, self.address, done.messages)])
        self.note(context, done, "restore.messages", put)
        return done.to_dict()


class SqlQueueParkErrorsOperator(ErrorQueueTask):
    """Park failed messages in another queue, with the headers of the failure: those that match ``filters``, or all.

    No message leaves the server. The parked messages do not expire, and can be returned to their source from there.

    :param to_queue: the address of the queue that receives them (templated)
    """

    template_fields = templated(ErrorQueueTask, "to_queue")

    def __init__(self, *, to_queue: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to_queue = to_queue

    def execute(self, context: Context) -> dict[str, Any]:
        """Park them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            done = self.errors.park(
                self.to_queue, self.address, options=self.work_options(), **self.selection("parked")
            )
        self.log_result(done, "parked")
        lineage = _taken(self, done)
        lineage.outputs.append(of_table(self.hook.client, self.to_queue, done.messages))
        self.note(context, done, "park.messages", lineage)
        return done.to_dict()


class SqlQueueDeleteErrorsOperator(ErrorQueueTask):
    """Delete failed messages of an error queue for good: those that match ``filters``, or all.

    :param confirm: True allows the loss of the messages; a count needs none.
    """

    def __init__(self, *, confirm: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.confirm = confirm

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            done = self.errors.delete(
                self.address, confirm=self.confirm, options=self.work_options(), **self.selection("deleted")
            )
        self.log_result(done, "deleted")
        self.note(context, done, "delete.messages", _taken(self, done))
        return done.to_dict()


class SqlQueueDeleteArchivedErrorsOperator(ErrorQueueTask):
    """Delete archived messages of an error queue for good: old ones, those that match ``filters``, or all.

    An age and ``filters`` must both hold. ``row_versions`` of ``filters`` are numbers in the archive.

    :param older_than: messages that were archived longer ago than this time, a timedelta or seconds (templated)
    :param confirm: True allows the loss of the messages; a count needs none.
    """

    template_fields = templated(ErrorQueueTask, "older_than")

    def __init__(
        self, *, older_than: timedelta | float | str | None = None, confirm: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.confirm = confirm

    def execute(self, context: Context) -> dict[str, Any]:
        """Delete them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            done = self.errors.archived.delete(
                self.address,
                older_than=interval("older_than", self.older_than),
                confirm=self.confirm,
                options=self.work_options(),
                **self.selection("deleted"),
            )
        self.log_result(done, "deleted from the archive")
        self.note(context, done, "delete.messages")
        return done.to_dict()


def _taken(task: ErrorQueueTask, done: ErrorQueueResult) -> Lineage:
    return Lineage([of_table(task.hook.client, task.address, done.messages)], [])
