"""The example DAG ``queue_to_tables`` under an Airflow that runs, against the other ways to write the same tables."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark import local_session, write_message_tables
from airflow_sqlqueue.traffic import generate
from tests.airflow.running.running_airflow import RunningAirflow, until

EXAMPLES = Path(__file__).parents[3] / "example_dags"
ORDER, COUNT = "Shop.PlaceOrder", 60


def orders() -> list[Message]:
    """Orders of which some have a new field, one a total of another type, and one a body that is cut off."""
    headers = {"NServiceBus.EnclosedMessageTypes": f"{ORDER}, Shop", "NServiceBus.ContentType": "application/json"}
    bodies = [
        {"OrderId": f"o{n}", "Total": n + 0.5, **({"Coupon": "SPRING"} if n % 20 == 0 else {})} for n in range(40)
    ]
    texts = [json.dumps(body) for body in bodies]
    return [Message(headers, text.encode()) for text in (*texts, '{"OrderId":"o40","Total":"free"}', '{"OrderId":')]


def tables_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, in the order of the queue, without what a name of a file adds."""
    return {
        table.name: pyarrow.dataset.dataset(table, partitioning="hive").to_table().sort_by("RowVersion").to_pylist()
        for table in folder.iterdir()
        if table.name != "_schemas"
    }


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_batch_has_the_same_tables_from_the_dag_the_program_and_a_notebook(
    running_airflow: RunningAirflow, server_url: str, tmp_path: Path
) -> None:
    airflow, client, own = running_airflow, QueueClient.from_url(server_url), f"test.{uuid.uuid4().hex[:10]}"
    ways = {name: tmp_path / name for name in ("dag", "program", "notebook")}
    for folder in ways.values():
        SchemaFolder(folder / "_schemas").put(
            ORDER,
            {
                "type": "struct",
                "fields": [{"name": "OrderId", "type": "string"}, {"name": "Total", "type": "decimal(18,2)"}],
            },
        )
    client.tables.create(own)
    sent = client.queue(own).send([*orders(), *generate(COUNT, seed=5)])
    airflow.add_dags("queue_to_tables.py", {}, ["queue_to_tables"], folder=EXAMPLES)
    settings = {
        "queue_name": own,
        "staging": str(tmp_path / "staging"),
        "tables": str(ways["dag"]),
        "schemas": str(ways["dag"] / "_schemas"),
        "max_unparsed": 0.5,
        "max_rescued": 0.5,
    }
    run = ended(airflow, own, settings)
    assert airflow.get(run)["state"] == "success", logs(airflow, run)
    drained = airflow.get(f"{run}/taskInstances/drain/xcomEntries/return_value")["value"]
    batch, result = Batch.from_dict(drained["batch"]), drained["result"]
    assert batch.messages + batch.expired == sent
    rescued = {table["message_type"]: table["rescued"] for table in result["largest"] if not table["is_unparsed"]}
    assert (result["messages"], rescued[ORDER]) == (batch.messages, 3)
    (fields,) = [each["rescued_fields"] for each in result["worst"] if each["table"].endswith(ORDER)]
    assert [(each["field"], each["messages"]) for each in fields] == [("Coupon", 2), ("Total", 1)]
    assert "'Coupon': 2 of 41 rescued, as 'Coupon'" in logs(airflow, run)

    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(batch.to_dict()), "utf-8")
    program = [sys.executable, "-m", "airflow_sqlqueue.spark.jobs.message_tables", "--manifest", str(manifest)]
    done = subprocess.run(
        [*program, "--location", str(ways["program"]), "--no-new-fields", "--master", "local[2]"],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == {
        name: value for name, value in result.items() if name not in ("largest", "worst", "warnings")
    }

    with local_session("notebook") as spark:
        written = write_message_tables(spark, client.batches.get(batch), str(ways["notebook"]), new_fields=False)
    assert sum(table.messages for table in written) == batch.messages

    found = {name: tables_in(folder) for name, folder in ways.items()}
    assert len(found["dag"]) == result["tables"] > 5
    assert sum(map(len, found["dag"].values())) == batch.messages
    assert [row["_rescued"] for row in found["dag"][ORDER] if row["_rescued"]] == [
        '{"Coupon":"SPRING"}', '{"Coupon":"SPRING"}', '{"Total":"free"}',
    ]  # fmt: skip
    assert [row["Body"] for row in found["dag"][f"{ORDER}~unparsed"]] == [b'{"OrderId":']
    assert found["dag"] == found["program"] == found["notebook"]
    schemas = [SchemaFolder(folder / "_schemas").all() for folder in ways.values()]
    assert schemas[0] == schemas[1] == schemas[2]

    # Three of the orders are rescued, which is more than a share of 0.01.
    client.queue(own).send(orders())
    run = ended(airflow, f"{own}.again", {**settings, "max_rescued": 0.01})
    assert airflow.get(run)["state"] == "failed"
    said = logs(airflow, run)
    assert "3 of 42 messages of the type 'Shop.PlaceOrder' have rescued values, most at 'Coupon'" in said
    assert airflow.get(f"{run}/taskInstances/drain")["try_number"] == 1
    states = {str(info.batch_id): info.state for info in client.batches.list(own)}
    assert states.pop(batch.batch_id) == "consumed"
    ((waiting, state),) = states.items()
    assert state == "sealed"
    rows = tables_in(ways["dag"])[ORDER]
    assert [row["batch_id"] for row in rows].count(waiting) == 41


def ended(airflow: RunningAirflow, run_id: str, settings: dict[str, Any]) -> str:
    """Run the DAG to its end, and return the path of the run."""
    run = f"dags/queue_to_tables/dagRuns/{run_id}"
    airflow.post("dags/queue_to_tables/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": settings})
    until("the run ends", lambda: airflow.get(run)["state"] in {"success", "failed"}, seconds=900)
    return run


def logs(airflow: RunningAirflow, run: str) -> str:
    return json.dumps(airflow.get(f"{run}/taskInstances/drain/logs/1", full_content=True)["content"])
