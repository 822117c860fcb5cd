"""Batches on the page, what can be done with them, and the link from the task that drained one."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainOperator
from airflow_sqlqueue.operators.drain import BatchLink
from airflow_sqlqueue.plugin.actions_dag import actions_dag
from tests.airflow.plugin.actions import Task, conf_of, execute

pytestmark = pytest.mark.airflow

BATCHES = "api/connections/sqlqueue_default/batches"
ACTIONS = "api/connections/sqlqueue_default/actions"


@pytest.fixture
def drained(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str) -> Any:
    """A sealed batch of three messages, as a task leaves it that runs no job, and the task."""
    hook.send(queue_name, [Message({}, b"body")] * 3)
    operator = SqlQueueDrainOperator(task_id="task", queue_name=queue_name, staging=str(tmp_path / "staging"))
    found = operator.execute(context())
    return operator, found["batch"]


def test_a_batch_is_shown_with_its_origin(get: Any, page: Any, drained: Any, run_id: str, queue_name: str) -> None:
    _, batch = drained
    (shown,) = [each for each in get(BATCHES)["batches"] if each["batch_id"] == batch["batch_id"]]
    assert (shown["state"], shown["messages"], shown["parts"], shown["stage"]) == ("sealed", 3, 1, "files")
    assert (shown["dag_id"], shown["run_id"], shown["task_id"]) == ("dag", run_id, "task")
    assert shown["actions"] == ["requeue", "mark_consumed"]
    assert shown["age_seconds"] >= 0
    one = get(f"{BATCHES}/{batch['batch_id']}")
    assert one["paths"] == batch["paths"]
    assert page("GET", f"{BATCHES}/{uuid.uuid4()}").status_code == 404
    assert page("GET", f"{BATCHES}/1").status_code == 400
    assert page("GET", BATCHES, params={"limit": 0}).status_code == 400


def test_the_newest_batches_come_first(get: Any, hook: SqlQueueHook, queue_name: str) -> None:
    for _ in range(3):
        hook.drain(queue_name, request=DrainRequest(batch_id=uuid.uuid4()), stage="table")
    opened = [each["opened"] for each in get(BATCHES, params={"limit": 2})["batches"]]
    assert len(opened) == 2
    assert opened == sorted(opened, reverse=True)
    assert opened[0] == max(each["opened"] for each in get(BATCHES)["batches"])


def test_a_batch_is_put_back(
    post: Any, page: Any, get: Any, drained: Any, queue_name: str, hook: Any, dag: Any
) -> None:
    _, batch = drained
    preview = post(f"{ACTIONS}/preview", {"action": "requeue", "batch_id": batch["batch_id"]})
    assert preview["messages"] == 3
    assert "put back" in preview["sentence"]
    started = post(ACTIONS, {"token": preview["token"], "count": 3})
    said = execute(dag, started["run_id"], conf_of(started["run_id"]))[-1]
    assert (said["done"], said["of"]) == (3, 3)
    assert hook.depth(queue_name).messages == 3
    assert get(f"{BATCHES}/{batch['batch_id']}")["state"] == "requeued"
    again = page("POST", f"{ACTIONS}/preview", json={"action": "requeue", "batch_id": batch["batch_id"]})
    assert (again.status_code, "requeued" in again.json()["detail"]) == (409, True)


def test_a_batch_is_marked_consumed_and_swept_from_its_staging_folder(
    post: Any, get: Any, drained: Any, queue_name: str, dag: Any, hook: SqlQueueHook, tmp_path: Path
) -> None:
    _, batch = drained
    preview = post(f"{ACTIONS}/preview", {"action": "mark_consumed", "batch_id": batch["batch_id"]})
    started = post(ACTIONS, {"token": preview["token"], "count": preview["messages"]})
    execute(dag, started["run_id"], conf_of(started["run_id"]))
    shown = get(f"{BATCHES}/{batch['batch_id']}")
    assert (shown["state"], shown["actions"]) == ("consumed", [])
    table = f"[{hook.client.settings.database}].[sqlqueue].[Batch]"
    long_ago = ", ".join(f"[{name}] = DATEADD(day, -30, [{name}])" for name in ("OpenedAt", "SealedAt", "ConsumedAt"))
    hook.client.run_sql(f"UPDATE {table} SET {long_ago} WHERE [BatchId] = ?", batch["batch_id"])
    preview = post(f"{ACTIONS}/preview", {"action": "sweep", "queue": queue_name})
    assert preview["messages"] == 1
    assert "more than 7 days ago" in preview["sentence"]
    started = post(ACTIONS, {"token": preview["token"], "count": 1})
    (file,) = [Path(unquote(urlsplit(path).path)) for path in batch["paths"]]
    assert file.exists()
    with_folder = actions_dag(staging=str(tmp_path / "staging"))
    said = execute(with_folder, started["run_id"], conf_of(started["run_id"]))[-1]
    assert "Removed 1 batch, 1 file" in said["sentence"]
    assert not file.exists()


@pytest.mark.parametrize(("action", "state"), [("requeue", "requeued"), ("mark_consumed", "consumed")])
def test_an_empty_batch_can_be_brought_to_its_end(
    post: Any, get: Any, hook: SqlQueueHook, queue_name: str, dag: Any, action: str, state: str
) -> None:
    batch_id = str(hook.drain(queue_name, request=DrainRequest(batch_id=uuid.uuid4()), stage="table").batch.batch_id)
    preview = post(f"{ACTIONS}/preview", {"action": action, "batch_id": batch_id})
    assert (preview["messages"], preview["possible"]) == (0, True)
    assert preview["sentence"].startswith(f"The batch holds no messages: it would be marked {state}")
    started = post(ACTIONS, {"token": preview["token"], "count": 0})
    execute(dag, started["run_id"], conf_of(started["run_id"]))
    assert get(f"{BATCHES}/{batch_id}")["state"] == state


def test_a_sweep_is_offered_once_for_each_ledger_that_has_finished_batches(
    get: Any, hook: SqlQueueHook, queue_name: str
) -> None:
    for _ in range(2):
        batch = hook.drain(queue_name, request=DrainRequest(batch_id=uuid.uuid4()), stage="table").batch
        hook.client.batches.mark_consumed(batch)
    answer = get(BATCHES)
    assert [ledger["database"] for ledger in answer["ledgers"]] == [hook.client.settings.database]
    assert not any("sweep" in each["actions"] for each in answer["batches"])


def test_a_failed_action_says_why(post: Any, drained: Any, queue_name: str, dag: Any, hook: SqlQueueHook) -> None:
    _, batch = drained
    preview = post(f"{ACTIONS}/preview", {"action": "requeue", "batch_id": batch["batch_id"]})
    started = post(ACTIONS, {"token": preview["token"], "count": 3})
    hook.client.batches.mark_consumed(hook.client.batches.get(uuid.UUID(batch["batch_id"]), queue_name))
    task = Task(started["run_id"])
    (operator,) = dag.tasks
    made = type("Run", (), {"conf": conf_of(started["run_id"])})()
    with pytest.raises(BatchError):
        operator.execute({"ti": task, "dag_run": made})
    assert "was consumed" in task.pushed[-1]["sentence"]


def test_a_drain_links_to_its_batch(drained: Any, monkeypatch: Any) -> None:
    operator, batch = drained
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example.com/team/af")
    (link,) = operator.operator_extra_links
    url = urlsplit(link.get_link(operator, ti_key=None))
    # Airflow's address bar has the path of the page in its frame behind that of the page around it.
    assert url.path == "/team/af/plugin/sqlqueue/team/af/sqlqueue/page"
    (view,) = parse_qs(url.query)["view"]
    assert view == f"#/c/sqlqueue_default/batches/{batch['batch_id']}"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example.com")
    assert link.get_link(operator, ti_key=None).startswith("/plugin/sqlqueue/sqlqueue/page?view=%23%2Fc%2F")


def test_a_drain_that_came_to_no_batch_links_to_those_of_its_connection() -> None:
    operator = SqlQueueDrainOperator(task_id="task", queue_name="audit", stage="table", sqlqueue_conn_id="a b")
    assert unquote(unquote(BatchLink().get_link(operator, ti_key=None))).endswith("#/c/a b/batches")


def test_airflow_knows_the_link_of_a_drain() -> None:
    """The API server shows what a serialized task names."""
    from airflow.sdk import DAG

    from tests.airflow.versions import DagSerialization

    with DAG("links", schedule=None) as dag:
        SqlQueueDrainOperator(task_id="task", queue_name="audit", stage="table")
    assert "_link_BatchLink" in json.dumps(DagSerialization.to_dict(dag))


def test_only_possible_actions_on_a_batch_are_offered() -> None:
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.plugin.batch_actions import actions_for

    def info(state: str, kept: bool = False) -> BatchInfo:
        times = dict.fromkeys(("opened", "sealed", "consumed", "requeued"))
        figures = dict.fromkeys(("parts", "messages", "expired", "quarantined", "bytes"), 0)
        return BatchInfo(
            uuid.uuid4(),
            "q",
            "",
            state,
            "files",
            timedelta(0),
            **times,
            **figures,
            kept=kept,  # type: ignore[arg-type]
        )

    found = {(state, kept): actions_for(info(state, kept)) for state in ("open", "sealed") for kept in (False, True)}
    assert found == {
        ("open", False): [],
        ("open", True): [],
        ("sealed", False): ["requeue", "mark_consumed"],
        ("sealed", True): ["mark_consumed"],
    }
    assert actions_for(info("consumed")) == actions_for(info("requeued")) == []
    assert actions_for(replace(info("sealed"), redacted="f" * 64)) == ["mark_consumed"]
