"""Operator that returns failed messages to the queues where they failed."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import templated
from airflow_sqlqueue.operators.error_queue import ErrorQueueTask
from airflow_sqlqueue.operators.lineage import Lineage, of_table


class SqlQueueReturnToSourceOperator(ErrorQueueTask):
    """Return failed messages of an error queue to the queues where they failed: those that match ``filters``, or all.

    Delivery: exactly once. Each transaction takes messages out of the error queue and puts them into one queue of the
    same server, so no failure loses or doubles a message; a retry continues with the rest. A returned message keeps its
    message id, correlation id, conversation id, row Id and body; the headers of the failure and of its retries are
    removed, and the expiry is cleared. A message that fails again while this runs is not returned twice.

    Messages that cannot be returned stay in the error queue and are counted by reason: malformed headers, no failed
    queue, a failed queue that does not exist, locked by others. They do not fail the task.

    XCom has ``returned`` as well, the number of messages by queue.

    :param redirect_to: the address of a queue that receives them instead (templated)
    :param malformed: redirect messages with malformed headers too, their text unchanged; needs ``redirect_to``.
    """

    template_fields = templated(ErrorQueueTask, "redirect_to")

    def __init__(self, *, redirect_to: str | None = None, malformed: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.redirect_to = redirect_to
        self.malformed = malformed

    def execute(self, context: Context) -> dict[str, Any]:
        """Return them; raises this package's errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            options = ReturnOptions(redirect_to=self.redirect_to, malformed=self.malformed, **self.options())
            done = self.errors.return_to_source(self.address, options=options, **self.selection("returned"))
        self.log_result(done, "returned")
        to = [of_table(self.hook.client, queue, messages) for queue, messages in done.returned.items()]
        lineage = Lineage([of_table(self.hook.client, self.address, done.messages)], to)
        self.note(context, done, "return.messages", lineage)
        return done.to_dict()
