"""Waiting in an Airflow that runs, with its scheduler and its triggerer: sensors, operators and event-driven DAGs.

``SQLQUEUE_FAULTS=long`` has the storm, the stop of the server and the hundred sensors at length.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_sqlqueue import QueueClient, reply
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from fakemssql import FakeServer
from tests.airflow.running.running_airflow import WAIT, RunningAirflow, until

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("SQLQUEUE_TEST_SERVER" in os.environ, reason="that server is not ours to stop"),
]

LONG = os.environ.get("SQLQUEUE_FAULTS") == "long"
STORM = 50_000 if LONG else 3_000
SENSORS = 100 if LONG else 5
ENDED = {"success", "failed", "skipped", "upstream_failed"}
APP = "waits"
TYPES = HeaderNames.ENCLOSED_MESSAGE_TYPES
OURS = f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name = '{APP}'"


@dataclass
class Waiting:
    """The Airflow, the server, and what can be asked of both."""

    airflow: RunningAirflow
    server: FakeServer

    @property
    def client(self) -> QueueClient:
        return QueueClient(ConnectionSettings.from_url(self.server.url()))

    def send(self, queue_name: str, count: int = 1) -> None:
        self.client.queue(queue_name).send([Message({}, b"secret body")] * count)

    def trigger(self, name: str) -> None:
        self.airflow.post(f"dags/{name}/dagRuns", {"dag_run_id": "run", "logical_date": None})

    def states(self, name: str) -> list[str]:
        tasks = self.airflow.get(f"dags/{name}/dagRuns/run/taskInstances", limit=SENSORS)["task_instances"]
        return [task["state"] for task in tasks]

    def wait_for(self, name: str, state: str) -> None:
        """Wait until all tasks of the DAG's run have the state."""

        def has_come() -> bool:
            states = set(self.states(name))
            assert not states & (ENDED - {state}), self.logs(name)
            return states == {state}

        until(f"{name} is {state}", has_come, seconds=900 if LONG else WAIT)

    def xcom(self, name: str) -> Any:
        return self.airflow.get(f"dags/{name}/dagRuns/run/taskInstances/wait/xcomEntries/return_value")["value"]

    def logs(self, name: str) -> str:
        """Logs of a DAG's tasks, as a person reads them."""
        return "\n".join(self.attempts(name).values())

    def attempts(self, name: str) -> dict[str, str]:
        """The logs of each try; the triggerer writes its share to a file of its own."""
        texts: dict[str, str] = {}
        for file in sorted((self.airflow.home / "logs" / f"dag_id={name}").rglob("*.log*")):
            attempt = str(file.with_name(file.name.partition(".log")[0]))
            texts[attempt] = texts.get(attempt, "") + file.read_text("utf-8")
        return texts

    def payloads(self, asset: str) -> list[dict[str, Any]]:
        """Contents of an asset's events, in the order in which they were stored."""
        events = self.airflow.get("assets/events", name_pattern=asset, limit=100)["asset_events"]
        return [event["extra"]["payload"] for event in sorted(events, key=lambda event: event["id"])]

    def cpu_seconds(self) -> float:
        triggerer = self.airflow.triggerer
        seconds = 0.0
        for process in (triggerer, *triggerer.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # a child may end meanwhile
                seconds += sum(process.cpu_times()[:2])
        return seconds


NAMES = ("classic", "deferred", "started", "missing", "late", "quiet", "stopped", "ask", "drain", "left")


@pytest.fixture(scope="module")
def received(tmp_path_factory: Any) -> Path:
    """The folder where the event-driven DAG writes what it has received."""
    return Path(tmp_path_factory.mktemp("received"))


@pytest.fixture(scope="module")
def waiting(running_airflow: RunningAirflow, received: Path) -> Iterator[Waiting]:
    """Waiting sensors, drains and triggers, on a server that can be stopped."""
    many = [f"many.{number}" for number in range(SENSORS)]
    patient = {"deferrable": True, "timeout": 3600}
    sensors = {
        "classic": {"queue_name": "classic", "wait_for": {"min_messages": 3}, "deferrable": False},
        "deferred": {"queue_name": "deferred", "wait_for": {"min_messages": "{{ 1 + 2 }}"}, **patient},
        "started": {
            "queue_name": "{{ dag.dag_id }}",
            "wait_for": {"min_messages": "{{ 1 + 2 }}"},
            "start_from_trigger": True,
            "timeout": 3600,
        },
        "missing": {"queue_name": "missing", **patient},
        "late": {"queue_name": "late", "deferrable": True, "timeout": 15},
        "quiet": {"queue_name": "quiet", "deferrable": True, "timeout": 15, "soft_fail": True},
        "stopped": {"queue_name": "stopped", **patient},
        "many": {"queue_names": many, "poke_interval": 5, **patient},
    }
    settings = {
        "conn_id": APP,
        "sensors": sensors,
        "staging": str(running_airflow.home / "staging"),
        "storm": {"queue_name": "storm", "folder": str(received)},
    }
    with FakeServer(databases=["sqlqueue"]) as server:
        running_airflow.add_connection(APP, server.url(), APP=APP)
        found = Waiting(running_airflow, server)
        for name in [*NAMES, *many, "storm", "replies", "commands", "commands.error"]:
            found.client.tables.create(name)
        running_airflow.add_dags("waiting.py", settings, [*NAMES, "many", "storm", "commanded"])
        for name in NAMES:
            found.trigger(name)
        yield found


def test_a_classic_sensor_pokes_until_there_is_enough(waiting: Waiting) -> None:
    waiting.wait_for("classic", "running")
    waiting.send("classic", 3)
    waiting.wait_for("classic", "success")
    assert waiting.xcom("classic") == {"messages": 3, "expired": 0}


def test_a_deferred_sensor_is_woken_by_the_triggerer(waiting: Waiting) -> None:
    waiting.wait_for("deferred", "deferred")
    waiting.send("deferred", 3)
    waiting.wait_for("deferred", "success")
    assert waiting.xcom("deferred") == {"messages": 3, "expired": 0}


def test_a_sensor_starts_in_the_triggerer_which_renders_its_templates(waiting: Waiting) -> None:
    waiting.wait_for("started", "deferred")
    waiting.send("started", 3)
    waiting.wait_for("started", "success")
    assert waiting.xcom("started") == {"messages": 3, "expired": 0}
    assert "waiting for" not in waiting.logs("started")  # What a poke in a worker writes.


def test_a_queue_that_goes_while_a_sensor_waits_fails_it_without_a_retry(waiting: Waiting) -> None:
    waiting.wait_for("missing", "deferred")
    waiting.client.tables.drop("missing")
    waiting.wait_for("missing", "failed")
    sentence = "The queue missing@[dbo]@[sqlqueue] does not exist"
    assert len([name for name, text in waiting.attempts("missing").items() if sentence in text]) == 1


def test_a_deferred_sensor_times_out_as_a_classic_one_does(waiting: Waiting) -> None:
    waiting.wait_for("late", "failed")
    waiting.wait_for("quiet", "skipped")


def test_a_drain_waits_deferred_and_then_drains(waiting: Waiting) -> None:
    waiting.wait_for("drain", "deferred")
    waiting.send("drain", 2)
    waiting.wait_for("drain", "success")
    assert waiting.xcom("drain")["batch"]["messages"] == 2


def test_a_deferred_sensor_finds_a_batch_that_was_left(waiting: Waiting, tmp_path: Path) -> None:
    waiting.wait_for("left", "deferred")
    waiting.send("left", 2)
    waiting.client.queue("left").drain(tmp_path, DrainRequest(origin="a test"))
    waiting.wait_for("left", "success")
    assert (waiting.xcom("left")["count"], waiting.xcom("left")["messages"]) == (1, 2)


def test_each_message_is_an_event_and_unaccepted_ones_go_to_the_error_queue(waiting: Waiting) -> None:
    def command(number: int) -> Message:
        return Message({TYPES: "Shop.Reprice, Shop", "Shop.List": str(number)}, b"secret body")

    queue, errors = waiting.client.queue("commands"), waiting.client.queue("commands.error")
    queue.send([command(0), Message({TYPES: "Shop.Other, Shop"}, b"secret body"), command(1)])
    until("all have left the queue", lambda: queue.depth().messages == 0 and errors.depth().messages == 1)
    payloads = waiting.payloads("commanded")
    assert [payload["headers"] for payload in payloads] == [{"Shop.List": "0"}, {"Shop.List": "1"}]
    assert [payload["message_type"] for payload in payloads] == ["Shop.Reprice"] * 2
    runs = until("a run begins", lambda: waiting.airflow.get("dags/commanded/dagRuns")["dag_runs"])
    assert {run["run_type"] for run in runs} == {"asset_triggered"}


def test_a_triggerer_that_is_killed_between_receive_and_commit_loses_no_message(waiting: Waiting) -> None:
    """Its supervisor, which stores events, stands still, so that the message is held and its event is not stored."""
    queue = waiting.client.queue("commands")
    queue.send([Message({TYPES: "Shop.Reprice, Shop", "Shop.List": "first"}, b"secret body")])
    until("the triggerer receives", lambda: queue.depth().messages == 0)
    told = len(waiting.payloads("commanded"))
    triggerer = waiting.airflow.triggerer
    (runner,) = triggerer.children()
    triggerer.suspend()
    queue.send([Message({TYPES: "Shop.Reprice, Shop", "Shop.List": "killed"}, b"secret body")])

    def is_held() -> bool:
        with queue.open() as table:
            table.session.begin()
            free = table.receive(1)
            table.session.roll_back()
        return not free

    until("the message is held", is_held)
    time.sleep(1)
    assert is_held()
    assert queue.depth().messages == 1
    for process in (runner, triggerer):
        process.kill()
    until("the server has given it back", lambda: not is_held())
    assert len(waiting.payloads("commanded")) == told
    waiting.airflow.start_triggerer()
    until("it has left the queue", lambda: queue.depth().messages == 0)
    assert [payload["headers"] for payload in waiting.payloads("commanded")[told:]] == [{"Shop.List": "killed"}]


def test_a_request_is_sent_once_and_its_reply_is_taken(waiting: Waiting) -> None:
    """A task that is cleared while it waits is another try, as a retry is."""
    waiting.wait_for("ask", "deferred")
    waiting.airflow.post("dags/ask/clearTaskInstances", {"dag_run_id": "run", "dry_run": False, "only_failed": False})
    until("another try has begun", lambda: "An earlier try has sent the request" in waiting.logs("ask"))
    waiting.wait_for("ask", "deferred")
    (request,) = waiting.client.queue("ask").receive(2)
    address, message = reply(request, b"secret body", endpoint="Pricing")
    waiting.client.queue(address).send([message])
    waiting.wait_for("ask", "success")
    done = waiting.xcom("ask")
    assert done["result"] == done["reply"]["bytes"] == len(b"secret body")
    assert waiting.client.queue("replies").depth().messages == 0


def test_the_event_driven_dag_leaves_no_message_of_a_storm_behind(waiting: Waiting, received: Path) -> None:
    """They come in while runs come and go; what comes after the last look of a run is for the next signal."""
    queue = waiting.client.queue("storm")
    for first in range(0, STORM, 500):
        queue.send([Message({}, b"%d" % number) for number in range(first, first + 500)])
        if first in (0, STORM // 2):
            until("a run has begun to receive", lambda: any(received.iterdir()))
    until("the queue is empty", lambda: queue.depth().messages == 0, seconds=900)

    def ended() -> bool:
        runs = waiting.airflow.get("dags/storm/dagRuns", limit=100)["dag_runs"]
        return all(run["state"] == "success" for run in runs)

    until("the runs are over", ended)
    numbers = [int(line) for file in received.iterdir() for line in file.read_text().split()]
    assert sorted(numbers) == list(range(STORM))
    runs = waiting.airflow.get("dags/storm/dagRuns", limit=100)["dag_runs"]
    assert {run["run_type"] for run in runs} == {"asset_triggered"}
    payloads = waiting.payloads("arrived")
    assert all(payload.keys() == {"queue_name", "messages", "expired"} for payload in payloads)


def test_many_deferred_sensors_cost_one_connection_and_little_time(waiting: Waiting, record_property: Any) -> None:
    waiting.trigger("many")
    waiting.wait_for("many", "deferred")
    waiting.wait_for("stopped", "deferred")
    until("one connection is left", lambda: waiting.client.run_sql(OURS)[0][0] == 1)
    before, began = waiting.cpu_seconds(), time.monotonic()
    looks = 30 if LONG else 5
    while time.monotonic() < began + looks:
        assert waiting.client.run_sql(OURS)[0][0] == 1
        time.sleep(1)
    share = (waiting.cpu_seconds() - before) / (time.monotonic() - began)
    record_property("cpu_share_of_the_triggerer", share)
    # With other tests beside it, or a few sensors, it says little.
    assert share < 0.1 or not LONG
    for number in range(SENSORS):
        waiting.send(f"many.{number}")
    waiting.wait_for("many", "success")


def test_a_deferred_sensor_outlives_a_stop_of_the_server(waiting: Waiting) -> None:
    waiting.wait_for("stopped", "deferred")
    until("the trigger tries", lambda: waiting.client.run_sql(OURS)[0][0] == 1)
    waiting.server.kill()
    stopped = time.monotonic()
    until("two polls have failed", lambda: waiting.logs("stopped").count("Trying again in") >= 2)
    while LONG and time.monotonic() < stopped + 30:
        time.sleep(1)
    waiting.server.start()
    assert waiting.states("stopped") == ["deferred"]
    waiting.send("stopped")
    waiting.wait_for("stopped", "success")
    assert waiting.xcom("stopped") == {"messages": 1, "expired": 0}


def test_no_log_holds_a_secret_or_text_of_a_message(waiting: Waiting) -> None:
    written = "\n".join(file.read_text("utf-8", "replace") for file in waiting.airflow.home.rglob("*.log*"))
    assert "Trigger fired event" in written
    assert "secret body" not in written
    assert waiting.server.password not in written
