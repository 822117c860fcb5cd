"""DAG that runs the page's actions: the work outlives the page, and does not load the API server.

A file with two lines in the DAG folder switches the buttons on (docs/guides/page.md, "Enable actions")::

    from airflow_sqlqueue.plugin.actions_dag import actions_dag
    dag = actions_dag()
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator

from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.plugin import action_tokens
from airflow_sqlqueue.plugin.batch_actions import BATCH_ACTIONS, BatchAction
from airflow_sqlqueue.plugin.failure_actions import FailureAction
from airflow_sqlqueue.plugin.settings import ACTIONS_DAG
from airflow_sqlqueue.queue.errors.actions import ACTIONS

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath


PROGRESS = "progress"
"""XCom key of a run's progress."""

TASK = "act"
_EVERY_SECONDS = 2.0


def page_actions() -> dict[str, FailureAction | BatchAction]:
    """All actions, by name."""
    return {**{name: FailureAction(action) for name, action in ACTIONS.items()}, **BATCH_ACTIONS}


def page_action(name: str) -> FailureAction | BatchAction:
    """Return an action by its name. Raises :class:`ConfigurationError` for an unknown one."""
    known = page_actions()
    if name not in known:
        raise ConfigurationError(f"Unknown action: choose one of {', '.join(known)}.")
    return known[name]


def actions_dag(*, staging: str | ObjectStoragePath | None = None, **arguments: Any) -> DAG:
    """Return the DAG ``sqlqueue_actions``, for a file in the DAG folder.

    It runs only signed requests of the page, so the right to run DAGs gives no right over queues.

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
    """Operator that runs one signed request of the page, from the run's configuration.

    Delivery: exactly once, as the calls that it makes; safe to repeat. XCom: counts, and a sentence.

    :param staging: the staging folder of the drains; None: requeue from the ledger's paths, and sweep no files.
    """

    ui_color = "#dfe9f5"

    def __init__(self, *, staging: str | ObjectStoragePath | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staging = staging

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it; raises this package's errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
        from airflow_sqlqueue.hooks.staging import staging_folder

        ti: Any = context["ti"]
        run: Any = context["dag_run"]
        with fail_without_retry():
            request = action_tokens.read(str((run.conf or {}).get("order", "")), ti.run_id, "order")
            report = _Report(ti, request.messages)
            try:
                client = SqlQueueHook(request.connection).client
                staging = None if self.staging is None else staging_folder(self.staging)
                report.done, sentence = page_action(request.action).run(client, request, staging, report.so_far)
            except SqlQueueError as error:
                report.end(str(error))
                raise
        report.end(sentence)
        self.log.info("%s", sentence)
        return {"action": request.action, "done": report.done, "of": request.messages}


class _Report:
    """Progress of a run, pushed to XCom every few seconds."""

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
