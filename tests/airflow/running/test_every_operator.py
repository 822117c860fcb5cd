"""Each operator that waits for nothing in an Airflow that runs; those that wait are in ``test_waiting.py``."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient, operators
from tests.airflow.running.running_airflow import DAGS, RunningAirflow, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

ELSEWHERE = {"SqlQueueRequestOperator"}
RUN = "dags/operators/dagRuns/run"


def test_no_operator_is_forgotten() -> None:
    text = (DAGS / "operators.py").read_text("utf-8")
    assert {name for name in operators.__all__ if f"{name}(" not in text} == ELSEWHERE


def test_messages_go_through_each_operator(running_airflow: RunningAirflow, server_url: str, tmp_path: Path) -> None:
    airflow, client, own = running_airflow, QueueClient.from_url(server_url), uuid.uuid4().hex[:10]
    queues = {name: f"test.{own}.{name}" for name in ("orders", "events", "error")}
    airflow.add_dags("operators.py", {**queues, "endpoint": f"test.{own}", "staging": str(tmp_path)}, ["operators"])
    airflow.post("dags/operators/dagRuns", {"dag_run_id": "run", "logical_date": None})
    until("the run ends", lambda: airflow.get(RUN)["state"] in {"success", "failed"}, seconds=600)
    tasks = {task["task_id"]: task["state"] for task in airflow.get(f"{RUN}/taskInstances")["task_instances"]}
    assert set(tasks.values()) == {"success"}, tasks

    def xcom(task: str) -> Any:
        return airflow.get(f"{RUN}/taskInstances/{task}/xcomEntries/return_value")["value"]

    assert xcom("publish")["copies"] == xcom("forward")["messages"] == xcom("unsubscribe") == 1
    assert xcom("send") == 2
    assert xcom("copy")["result"] == ["event", "one", "broken", "due"]
    assert xcom("drain")["batch"]["messages"] == xcom("requeue")["batch"]["messages"] == 4
    assert (xcom("consume")["handled"], xcom("consume")["failed"]) == (3, 1)
    assert [xcom(task)["messages"] for task in ("archive", "delete_old", "restore", "park", "unpark")] == [
        1,
        0,
        1,
        1,
        1,
    ]
    assert xcom("return_to_source")["messages"] == xcom("drain_rest")["batch"]["messages"] == 1
    assert xcom("purge")["deleted"] == 1
    for name in (queues["events"], queues["error"]):
        client.tables.drop(name)
