"""The example DAGs, run as Airflow runs them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from airflow.sdk import DAG

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope import Envelope, Sender
from airflow_sqlqueue.traffic import generate
from airflow_sqlqueue.versions.airflow import PARTITION_KEYS

EXAMPLES = Path(__file__).parents[2] / "example_dags"


Load = Callable[[str], DAG]


@pytest.fixture
def load(monkeypatch: Any, metadata_db: None) -> Iterator[Load]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    loaded: list[str] = []

    def load(name: str) -> DAG:
        loaded.append(name)
        dag: DAG = importlib.import_module(name).dag
        return dag

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture
def audit_to_lake(load: Load) -> DAG:
    return load("audit_to_lake")


def states(run: Any) -> dict[str, str]:
    return {task.task_id: str(task.state) for task in run.get_task_instances()}


def xcom(run: Any, task_id: str) -> Any:
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id)


def test_parsing_the_examples_loads_no_driver_and_no_spark() -> None:
    heavy = {"pyodbc", "pyarrow", "pyspark", "airflow_sqlqueue.hooks.sqlqueue"}
    makes_dag = re.compile(r"(DAG|actions_dag)\(")
    modules = sorted(path.stem for path in EXAMPLES.glob("*.py") if makes_dag.search(path.read_text("utf-8")))
    if not PARTITION_KEYS.is_available:
        modules.remove("run_per_message")
    assert len(modules) > 5
    program = f"import sys, {', '.join(modules)}; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLES, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.airflow
def test_a_broken_connection_fails_the_run_at_once(audit_to_lake: DAG, connection: Any, capfd: Any) -> None:
    connection(schema="")
    run = audit_to_lake.test()
    assert run.state == "failed"
    assert states(run)["create"] == "failed"
    assert (
        "AirflowFailException: Connection 'sqlqueue_default': The connection names no database"
        in capfd.readouterr().out
    )


@pytest.mark.airflow
@pytest.mark.spark
def test_every_message_that_was_sent_is_accounted_for(audit_to_lake: DAG, live: str, tmp_path: Path) -> None:
    hook = SqlQueueHook(live)
    name = f"test.{uuid.uuid4().hex[:12]}"
    parameters = {
        "queue_name": name,
        "staging": str(tmp_path / "staging"),
        "lake": str(tmp_path / "lake"),
        "tables": str(tmp_path / "tables"),
        "schemas": str(tmp_path / "schemas"),
        "report": str(tmp_path / "report.html"),
        "min_messages": 1_000,
    }
    sent, held = 2_000, 3
    hook.create_queue(name)
    hook.send(name, generate(sent, seed=11))
    with hook.client.queue(name).open() as queue:
        queue.session.begin()
        assert len(queue.receive(held)) == held
        run = audit_to_lake.test(run_conf=parameters)
        queue.session.roll_back()

    assert run.state == "success"
    assert states(run) == dict.fromkeys(["create", "wait", "drain", "purge"], "success")
    drained = xcom(run, "drain")
    batch = Batch.from_dict(drained["batch"])
    depth = hook.depth(name)
    assert batch.state == "consumed"
    assert batch.expired > 0
    assert drained["locked"] == depth.messages + depth.expired == held
    assert sent == batch.messages + batch.expired + xcom(run, "purge")["deleted"] + held
    assert drained["result"]["written"] == batch.messages
    for place in ("lake", "tables"):
        found = pyarrow.dataset.dataset(list((tmp_path / place).rglob("*.parquet")), format="parquet")
        assert found.count_rows() == batch.messages
    assert (tmp_path / "report.html").stat().st_size > 1_000


@pytest.mark.airflow
def test_secondary_queues_are_drained_with_their_primary(load: Load, live: str, tmp_path: Path) -> None:
    hook = SqlQueueHook(live)
    endpoint = f"test.{uuid.uuid4().hex[:12]}"
    queues = [endpoint, f"{endpoint}.WEB01", f"{endpoint}.WEB02"]
    for count, queue in enumerate(queues, 1):
        hook.create_queue(queue)
        hook.send(queue, generate(count, seed=count))
    run = load("secondary_queues").test(run_conf={"endpoint": endpoint, "staging": str(tmp_path)})
    assert run.state == "success"
    batches = [
        Batch.from_dict(task.xcom_pull(task_ids="drain", map_indexes=task.map_index)["batch"])
        for task in sorted(run.get_task_instances(), key=lambda task: task.map_index)
        if task.task_id == "drain"
    ]
    assert [batch.queue for batch in batches] == [hook.client.resolve(queue).canonical for queue in queues]
    assert [batch.messages + batch.expired for batch in batches] == [1, 2, 3]
    assert {batch.state for batch in batches} == {"sealed"}


@pytest.mark.airflow
def test_the_event_driven_drain_takes_all_messages(
    load: Load, live: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("SQLQUEUE_QUEUE", name)
    monkeypatch.setenv("SQLQUEUE_STAGING", str(tmp_path))
    hook = SqlQueueHook(live)
    hook.create_queue(name)
    hook.send(name, generate(20, seed=3))
    run = load("event_driven_drain").test()
    assert run.state == "success"
    batch = Batch.from_dict(xcom(run, "drain")["batch"])
    assert batch.messages + batch.expired == 20
    assert hook.depth(name).total == 0


@pytest.mark.airflow
def test_an_endpoint_in_python_bills_orders_and_gives_up_on_others(load: Load, live: str) -> None:
    hook = SqlQueueHook(live)
    own = f"test.{uuid.uuid4().hex[:12]}"
    queues = {name: f"{own}.{name}" for name in ("orders", "billing", "error")}
    for name in queues.values():
        hook.create_queue(name)
    written = [{"body": {"order": n, "total": n - 1}, "reply_to": queues["billing"]} for n in range(4)]
    hook.send(queues["orders"], Sender(own, "Shop").messages(written))
    run = load("endpoint_in_python").test(run_conf={"orders": queues["orders"], "error": queues["error"]})
    assert run.state == "success"
    done = xcom(run, "bill")
    assert (done["handled"], done["failed"]) == (3, 1)
    replies = [Envelope.of(message) for message in hook.receive(queues["billing"], 10)]
    assert sorted(reply.json()["order"] for reply in replies) == [1, 2, 3]
    (failed,) = hook.client.errors.triage(queues["error"]).groups
    assert failed.values["exception_type"] == "ValueError"
    for name in queues.values():
        hook.client.tables.drop(name, force=True)
