"""The consume operator and its decorator under an Airflow that runs: scheduler, workers, API server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import Message
from tests.airflow.running.running_airflow import RunningAirflow, until


@pytest.fixture
def client(server_url: str) -> QueueClient:
    return QueueClient.from_url(server_url)


@pytest.fixture
def names(client: QueueClient) -> Iterator[dict[str, str]]:
    """The queues, and a table of the handler's own; dropped afterwards."""
    own = uuid.uuid4().hex[:10]
    names = {name: f"test.{own}.{name}" for name in ("orders", "billing", "error")}
    for name in names.values():
        client.tables.create(name)
    client.run_sql(f"CREATE TABLE [dbo].[archive_{own}] (body varbinary(max) NOT NULL, run nvarchar(250) NOT NULL)")
    yield {**names, "table": f"[dbo].[archive_{own}]"}
    for name in names.values():
        client.tables.drop(name, force=True)
    client.run_sql(f"DROP TABLE [dbo].[archive_{own}]")


@pytest.mark.airflow
@pytest.mark.timeout(900)
def test_messages_go_through_two_handlers(
    running_airflow: RunningAirflow, client: QueueClient, names: dict[str, str]
) -> None:
    bodies = [b"%d" % n for n in range(30)]
    client.queue(names["orders"]).send(Message(body=body) for body in [*bodies, b"broken"])
    airflow = running_airflow
    airflow.add_dags("consuming.py", names, ["consuming"])
    airflow.post("dags/consuming/dagRuns", {"dag_run_id": "first", "logical_date": None})

    def state() -> str:
        return str(airflow.get("dags/consuming/dagRuns/first")["state"])

    until("the run ends", lambda: state() in {"success", "failed"})
    tasks = "dags/consuming/dagRuns/first/taskInstances"
    assert state() == "success", json.dumps(airflow.get(f"{tasks}/orders/logs/1", full_content=True)["content"])
    orders, archive = (
        airflow.get(f"{tasks}/{task}/xcomEntries/return_value")["value"] for task in ("orders", "archive")
    )
    assert (orders["handled"], orders["failed"], orders["rolled_back"]) == (30, 1, 2)
    assert archive["handled"] == 30
    rows = client.run_sql(f"SELECT body, run FROM {names['table']}")
    assert sorted(bytes(body) for body, _ in rows) == sorted(bodies)
    assert {run for _, run in rows} == {"first"}
    assert client.queue(names["error"]).depth().messages == 1
    log = json.dumps(airflow.get(f"{tasks}/orders/logs/1", full_content=True)["content"])
    assert "Handled 30 messages" in log
    assert "failed with ValueError" in log
    assert "cannot be billed" not in log
