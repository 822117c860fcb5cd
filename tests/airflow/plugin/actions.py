"""The DAG of the page's actions in Airflow's database, and its task executed for a run that the page has made."""

from __future__ import annotations

from typing import Any


class Task:
    """A task instance, as far as the operator looks at it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.pushed: list[Any] = []

    def xcom_push(self, key: str, value: Any) -> None:
        assert key == "progress"
        self.pushed.append(value)


def known_dag() -> Any:
    """The DAG of the example, as Airflow knows it once it has read the file."""
    import page_actions
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        known = session.get(DagModel, "sqlqueue_actions")
    if known is None:
        # It has no order, which is told before anything is done.
        assert page_actions.dag.test().state == "failed"
    with create_session() as session:
        model = session.get(DagModel, "sqlqueue_actions")
        model.is_stale = model.is_paused = False
    return page_actions.dag


def conf_of(run_id: str) -> dict[str, Any]:
    """The configuration of a run."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == "sqlqueue_actions", DagRun.run_id == run_id))
        return dict(run.conf)


def execute(dag: Any, run_id: str, conf: dict[str, Any]) -> list[Any]:
    """Execute the DAG's task with this configuration, and return what it has said of its progress."""
    task = Task(run_id)
    (operator,) = dag.tasks
    operator.execute({"ti": task, "dag_run": type("Run", (), {"conf": conf})()})
    return task.pushed
