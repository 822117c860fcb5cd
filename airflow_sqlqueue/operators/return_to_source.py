"""Operator that returns failed messages to the queues where they failed."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions, ReturnResult
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import LimitedTask, QueueTask, note_counts, templated
from airflow_sqlqueue.operators.lineage import Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.rendered import number

_STEP = 1_000
"""Messages between two log lines of progress."""


class SqlQueueReturnToSourceOperator(LimitedTask, QueueTask):
    """Return failed messages of an error queue to the queues where they failed: those that match ``filters``, or all.

    Delivery: exactly once. Each transaction takes messages out of the error queue and puts them into one queue of the
    same server, so no failure loses or doubles a message; a retry continues with the rest. A returned message keeps its
    message id, correlation id, conversation id, row Id and body; the headers of the failure and of its retries are
    removed, and the expiry is cleared. A message that fails again while this runs is not returned twice.

    Messages that cannot be returned stay in the error queue and are counted by reason: malformed headers, no failed
    queue, a failed queue that does not exist, locked by others. They do not fail the task.

    XCom: only counts, ``messages``, ``returned`` by queue, ``left`` by reason, ``unseen`` (locked by others all the
    time), ``complete`` (False only when a budget ended it), ``dry_run`` and ``seconds``.

    ``filters`` may have ``exception_type``, ``message_type``, ``endpoint``, ``failed_queue``, ``kind`` (``failed``,
    ``no failed queue``, ``malformed headers``), ``since`` and ``until`` (the time of failure, as ISO 8601),
    ``message_ids`` and ``row_versions``; a message must meet all given conditions.

    :param queue_name: the error queue's address, ``table@[schema]@[catalog]`` (templated)
    :param filters: conditions on the messages to return, a mapping (templated)
    :param all_messages: return every message; only without ``filters``.
    :param redirect_to: the address of a queue that receives them instead (templated)
    :param malformed: redirect messages with malformed headers too, their text unchanged; needs ``redirect_to``.
    :param rate: messages per second; None: no limit (templated)
    :param max_seconds: begin no transaction after this many seconds; None: no limit (templated)
    :param only_count: return nothing, only count.
    """

    template_fields = templated(LimitedTask, QueueTask, "filters", "redirect_to", "rate")
    template_fields_renderers: ClassVar[dict[str, str]] = {"filters": "json"}

    def __init__(
        self,
        *,
        queue_name: str = "error",
        filters: dict[str, Any] | None = None,
        all_messages: bool = False,
        redirect_to: str | None = None,
        malformed: bool = False,
        rate: float | str | None = None,
        only_count: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(queue_name=queue_name, **kwargs)
        self.filters = filters
        self.all_messages = all_messages
        self.redirect_to = redirect_to
        self.malformed = malformed
        self.rate = rate
        self.only_count = only_count

    def execute(self, context: Context) -> dict[str, Any]:
        """Return them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            options = ReturnOptions(
                redirect_to=self.redirect_to,
                malformed=self.malformed,
                rate=number("rate", self.rate),
                **self.limits(),
                dry_run=self.only_count,
            )
            done = self.hook.client.errors.return_to_source(
                self.queue_name,
                filters=self.filters,
                all_messages=self.all_messages,
                options=options,
                on_progress=self._progress(),
            )
        what = "would be returned" if self.only_count else "returned"
        self.log.info("%d messages of %s %s", done.messages, self.queue_name, what)
        for reason, messages in done.left.items():
            self.log.warning("%d messages stay in %s: %s", messages, self.queue_name, reason)
        if done.unseen:
            self.log.warning("%d messages of %s were locked by others", done.unseen, self.queue_name)
        if not self.only_count:
            to = [of_table(self.hook.client, queue, messages) for queue, messages in done.returned.items()]
            self.lineage = Lineage([of_table(self.hook.client, self.queue_name, done.messages)], to)
            Metrics(self, self.hook.queue(self.queue_name)).count("return.messages", done.messages)
        note_counts(self, context, messages=done.messages)
        return done.to_dict()

    def _progress(self) -> Any:
        logged = 0

        def log_progress(done: ReturnResult) -> None:
            nonlocal logged
            if done.messages - logged >= _STEP:
                logged = done.messages
                self.log.info("Returned %d messages so far", logged)

        return log_progress
