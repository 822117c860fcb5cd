"""DAG that runs the page's actions: the work outlives the page, and does not load the API server.

A file with two lines in the DAG folder switches the buttons on (docs/guides/page.md, "Enable actions")::

    from airflow_sqlqueue.plugin.actions_dag import actions_dag
    dag = actions_dag()
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator

from airflow_sqlqueue.errorqueue.actions import ACTIONS
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.plugin import action_tokens
from airflow_sqlqueue.plugin.action_tokens import Order
from airflow_sqlqueue.plugin.failure_work import act_on_failures
from airflow_sqlqueue.plugin.settings import ACTIONS_DAG

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_sqlqueue.client import QueueClient

PROGRESS = "progress"
"""XCom key of a run's progress."""

TASK = "act"
_EVERY_SECONDS = 2.0


def actions_dag(*, staging: str | ObjectStoragePath | None = None, **arguments: Any) -> DAG:
    """The DAG ``sqlqueue_actions``, for a file in the DAG folder.

    It runs only signed orders of the page, so the right to run DAGs gives no right over queues.

    :param staging: the staging folder of the drains, as for their operators; a sweep removes files only there.
    :param arguments: further arguments of the DAG, as ``tags``, ``max_active_runs`` or ``access_control``.
    """
    given = {
        "description": "Runs the actions of the SQL Queues page.",
        "schedule": None,
        "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "catchup": False,
        "is_paused_upon_creation": False,
        "tags": ["sqlqueue"],
        **arguments,
    }
    with DAG(ACTIONS_DAG, **given) as dag:
        PageAction(task_id=TASK, staging=staging)
    return dag


class PageAction(BaseOperator):
    """Operator that runs one order of the page, from the run's configuration.

    Delivery: exactly once, as the calls that it makes; safe to repeat. XCom: counts, and a sentence.

    :param staging: the staging folder of the drains; None: requeue from the ledger's paths, and sweep no files.
    """

    ui_color = "#dfe9f5"

    def __init__(self, *, staging: str | ObjectStoragePath | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staging = staging

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the order; raises this package's errors, those that no retry can fix as AirflowFailException."""
        ti: Any = context["ti"]
        run: Any = context["dag_run"]
        with fail_without_retry():
            order = action_tokens.read(str((run.conf or {}).get("order", "")), ti.run_id, "order")
            report = _Report(ti, order.messages)
            try:
                sentence = self._act(order, report)
            except SqlQueueError as error:
                report.end(str(error))
                raise
        report.end(sentence)
        self.log.info("%s", sentence)
        return {"action": order.action, "done": report.done, "of": order.messages}

    def _act(self, order: Order, report: _Report) -> str:
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        client = SqlQueueHook(order.connection).client
        if order.action in ACTIONS:
            report.done, sentence = act_on_failures(client, order, report.so_far)
            return sentence
        if order.action == "sweep":
            return self._sweep(client, order, report)
        batch_id = uuid.UUID(order.batch_id)
        if order.action == "requeue":
            done = client.batches.requeue(batch_id, order.queue, staging=self._folder(client, order))
            report.done = done.batch.messages
            return f"{done.batch.messages} messages are in {done.batch.queue} again."
        batch = client.batches.get(batch_id, order.queue)
        client.batches.mark_consumed(batch)
        report.done = batch.messages
        return f"The batch {batch.batch_id} of {batch.messages} messages is consumed."

    def _sweep(self, client: QueueClient, order: Order, report: _Report) -> str:
        from airflow_sqlqueue.hooks.staging import staging_folder

        folder = None if self.staging is None else staging_folder(self.staging)
        swept = client.batches.sweep(folder, order.queue)
        report.done = swept.batches
        return f"{swept.batches} batches, {swept.files} files and {swept.rows} staged rows are removed."

    def _folder(self, client: QueueClient, order: Order) -> Any:
        """The staging folder, if it holds the batch's files."""
        from airflow_sqlqueue.hooks.staging import staging_folder

        if self.staging is None:
            return None
        folder = staging_folder(self.staging)
        batch = client.batches.get(uuid.UUID(order.batch_id), order.queue)
        return folder if all(path.startswith(f"{folder.uri}/") for path in batch.paths) else None


class _Report:
    """Progress of an order, pushed to XCom every few seconds."""

    def __init__(self, ti: Any, of: int) -> None:
        self._ti, self._of = ti, of
        self._pushed_at = time.monotonic()
        self.done = 0

    def so_far(self, done: int) -> None:
        self.done = done
        if time.monotonic() - self._pushed_at >= _EVERY_SECONDS:
            self._push(None)

    def end(self, sentence: str) -> None:
        self._push(sentence)

    def _push(self, sentence: str | None) -> None:
        self._pushed_at = time.monotonic()
        self._ti.xcom_push(PROGRESS, {"done": self.done, "of": self._of, "sentence": sentence})
