"""The example DAG ``error_triage`` under an Airflow that runs: a person decides whether messages are returned."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.traffic import FAILED_QUEUES, generate_failed
from tests.airflow.running.running_airflow import RunningAirflow, until

EXAMPLES = Path(__file__).parents[3] / "example_dags"

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


def test_messages_are_returned_after_a_person_has_approved(
    running_airflow: RunningAirflow, server_url: str, tmp_path: Path
) -> None:
    airflow, client, own = running_airflow, QueueClient.from_url(server_url), f"test.{uuid.uuid4().hex[:10]}"
    table = client.resolve(own)
    for name in (own, *FAILED_QUEUES):
        client.tables.create(name)
    client.queue(own).send(generate_failed(60, seed=3, schema=table.schema, catalog=table.catalog))
    groups = client.errors.triage(own).groups
    wanted = groups[0].values["exception_type"]
    count = sum(group.messages for group in groups if group.values["exception_type"] == wanted)
    # A run of its schedule would wait for an answer before these.
    text = (EXAMPLES / "error_triage.py").read_text("utf-8")
    (tmp_path / "error_triage.py").write_text(text.replace('schedule="@daily"', "schedule=None"), "utf-8")
    airflow.add_dags("error_triage.py", {}, ["error_triage"], folder=tmp_path)
    airflow.patch("dags/error_triage", {"is_paused": False})

    def run(name: str, answer: str) -> dict[str, str | None]:
        path = f"dags/error_triage/dagRuns/{name}"
        conf = {"error_queue": own, "exception_type": wanted}
        airflow.post("dags/error_triage/dagRuns", {"dag_run_id": name, "logical_date": None, "conf": conf})
        asked = f"{path}/taskInstances/ask/-1/hitlDetails"
        until("a person is asked", lambda: is_asked(path, asked))
        assert f"{count} messages failed with {wanted}." in airflow.get(asked)["body"]
        assert client.queue(own).depth().messages == 60

        def is_over() -> bool:
            # A task that is answered before the executor has seen its process end fails, and its next try asks again.
            if is_asked(path, asked):
                time.sleep(3)
                airflow.patch(asked, {"chosen_options": [answer], "params_input": {}})
            return airflow.get(path)["state"] in {"success", "failed"}

        until("the run ends", is_over, seconds=420)
        return {task: state(path, task) for task in ("groups", "ask", "give_back")}

    def is_asked(path: str, asked: str) -> bool:
        waits = state(path, "ask") in {"deferred", "awaiting_input"}
        return waits and not airflow.get(asked)["response_received"]

    def state(path: str, task: str) -> str | None:
        found: str | None = airflow.get(f"{path}/taskInstances/{task}")["state"]
        return found

    assert run("rejected", "Reject") == {"groups": "success", "ask": "success", "give_back": "skipped"}
    assert set(run("approved", "Approve").values()) == {"success"}
    assert client.queue(own).depth().messages == 60 - count
