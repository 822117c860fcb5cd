"""Airflow's own processes with every kind of work that its triggerer does for this package, and its starts.

``SQLQUEUE_STARTS`` is the number of starts of the triggerer, 3 unless set; ``make versions`` has more.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS, TRIGGER_TEMPLATES
from tests.airflow.running.running_airflow import RunningAirflow, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800)]

STARTS = int(os.environ.get("SQLQUEUE_STARTS", "3"))
SECONDS = 8
"""Seconds that a triggerer has to live with its triggers; those of Airflow 3.1 and 3.2 ended within three."""
WATCHED = ["scheme", "depth", *(["messages"] if SHARED_STREAMS.is_available else [])]
DEFERRED = ["filtered", "drained", "overdue", *(["templated"] if TRIGGER_TEMPLATES.is_available else [])]
ENDED = {"success", "failed"}


@dataclass
class Triggered:
    """The Airflow, and the queues that its triggers watch."""

    airflow: RunningAirflow
    client: QueueClient
    queues: dict[str, str]

    def send(self, name: str, count: int = 1) -> None:
        headers = {"Shop.List": "a", HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.A", HeaderNames.TIME_SENT: TIME_SENT}
        self.client.queue(self.queues[name]).send([Message(headers, b"secret body")] * count)

    def trigger(self, name: str, run: str) -> None:
        self.airflow.post(f"dags/{name}/dagRuns", {"dag_run_id": run, "logical_date": None})

    def wait_for(self, name: str, run: str, state: str) -> None:
        def has_come() -> bool:
            now = self.state(name, run)
            assert now == state or now not in ENDED, self.logs(name)
            return bool(now == state)

        self.until(f"{name} is {state}", has_come)

    def state(self, name: str, run: str) -> str | None:
        """State of a run's task, from the database."""
        ((state,),) = self.airflow.select(
            "SELECT state FROM task_instance WHERE dag_id = %s AND run_id = %s AND task_id = 'wait'", name, run
        )
        return None if state is None else str(state)

    def until(self, what: str, look: Any) -> Any:
        """Wait for something while the triggerer lives."""

        def alive() -> Any:
            assert self.airflow.is_triggerer_alive(), self.airflow.log("triggerer")
            return look()

        return until(what, alive)

    def events(self, name: str) -> int:
        """Number of events of a watched asset."""
        # Only their number: Airflow fails to show an event while a run that it made has not begun.
        return int(self.airflow.get("assets/events", name_pattern=name, limit=1, offset=100_000)["total_entries"])

    def xcom(self, name: str) -> Any:
        return self.airflow.get(f"dags/{name}/dagRuns/first/taskInstances/wait/xcomEntries/return_value")["value"]

    def logs(self, name: str) -> str:
        files = (self.airflow.home / "logs" / f"dag_id={name}").rglob("*.log*")
        return "\n".join(file.read_text("utf-8") for file in sorted(files))

    def messages(self, name: str) -> list[Any]:
        return list(self.client.queue(self.queues[name]).receive(10))


TIME_SENT = "2026-03-01 08:00:00:000000 Z"


@pytest.fixture(scope="module")
def triggered(running_airflow: RunningAirflow, server_url: str, tmp_path_factory: Any) -> Iterator[Triggered]:
    """Runs that wait in the triggerer, and watchers without messages."""
    client, own = QueueClient.from_url(server_url), uuid.uuid4().hex[:10]
    names = ("filtered", "templated", "drained", "overdue", "told", "scheme", "depth", "messages", "error")
    queues = {name: f"test.{own}.{name}" for name in names}
    for queue in queues.values():
        client.tables.create(queue)
    staging = Path(tmp_path_factory.mktemp("staging"))
    settings = {"queues": queues, "staging": str(staging), "has_messages": SHARED_STREAMS.is_available}
    dags = [*DEFERRED, *(f"on_{name}" for name in WATCHED)]
    running_airflow.add_dags("triggered.py", settings, dags)
    found = Triggered(running_airflow, client, queues)
    yield found
    for name in dags:
        running_airflow.patch(f"dags/{name}", {"is_paused": True})
    for queue in queues.values():
        client.tables.drop(queue, force=True)


def test_the_triggerer_outlives_its_starts_with_triggers_that_wait(triggered: Triggered) -> None:
    """Each start looks up the connection for all of them, beside the questions of Airflow's own."""
    for name in DEFERRED:
        triggered.trigger(name, "first")
    for name in DEFERRED:
        until(f"{name} is deferred", lambda name=name: triggered.state(name, "first") == "deferred")  # type: ignore[misc]
    survived = 0
    for _ in range(STARTS):
        triggered.airflow.restart_triggerer()
        survived += triggered.airflow.triggers_live(len(DEFERRED) + len(WATCHED), SECONDS)
    assert survived == STARTS, f"{survived} of {STARTS} starts: {triggered.airflow.log('triggerer')}"


@pytest.mark.parametrize("name", WATCHED)
def test_a_watcher_starts_runs(triggered: Triggered, name: str) -> None:
    before = triggered.events(name)
    triggered.send(name)
    triggered.until(f"{name} has an event", lambda: triggered.events(name) > before)

    def has_run() -> bool:
        runs = triggered.airflow.get(f"dags/on_{name}/dagRuns")["dag_runs"]
        return any(run["state"] == "success" and run["run_type"] == "asset_triggered" for run in runs)

    triggered.until(f"on_{name} has run", has_run)


@pytest.mark.parametrize("name", [name for name in DEFERRED if name in ("filtered", "templated")])
def test_a_deferred_sensor_ends(triggered: Triggered, name: str) -> None:
    triggered.send(name, 2)
    triggered.wait_for(name, "first", "success")
    assert triggered.xcom(name) == {"messages": 2, "expired": 0}


def test_a_drain_waits_deferred_and_hands_its_batch_to_spark(triggered: Triggered) -> None:
    triggered.send("drained", 2)
    triggered.wait_for("drained", "first", "success")
    assert (triggered.xcom("drained")["batch"]["messages"], triggered.xcom("drained")["result"]) == (2, 2)


def test_the_callback_of_a_deadline_sends_a_message_for_each_run(triggered: Triggered) -> None:
    """Airflow may repeat a callback whose triggerer was restarted; the message then has the same id."""
    runs = {"second", "third"}
    for run in sorted(runs):
        triggered.trigger("overdue", run)
    told: list[Any] = []
    facts = {"dag_id", "run_id", "state", "deadline_id", "deadline_time"}

    def both_are_told() -> bool:
        told.extend(triggered.messages("told"))
        return {json.loads(message.body)["run_id"] for message in told} >= runs

    triggered.until("two runs are late", both_are_told)
    bodies = [json.loads(message.body) for message in told]
    assert all(body.keys() == facts and all(body.values()) for body in bodies)
    assert {body["dag_id"] for body in bodies} == {"overdue"}
    assert {body["state"] for body in bodies} <= {"queued", "running"}
    ids = {(body["run_id"], message.id) for body, message in zip(bodies, told, strict=True)}
    assert len(ids) == len({run for run, _ in ids}) == len({number for _, number in ids})
    assert {decode_headers(message.headers).values["Ops.Team"] for message in told} == {"billing"}
    triggered.send("overdue")
    for run in sorted(runs):
        triggered.wait_for("overdue", run, "success")


def test_no_log_of_the_triggerer_holds_text_of_a_message(triggered: Triggered) -> None:
    written = "\n".join(file.read_text("utf-8", "replace") for file in triggered.airflow.home.rglob("*.log*"))
    assert "Trigger fired event" in written
    assert "secret body" not in written
