"""Redaction by operators: the values that rules name, and the key, are in no trace of a run."""

from __future__ import annotations

import json
import logging
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk import DAG

from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueRequeueOperator,
)
from airflow_sqlqueue.server.sql import Query
from tests.airflow.conftest import HOME
from tests.airflow.running_dag import run_in_full
from tests.airflow.test_canary import note_metrics, texts_under

TYPE = "Shop.PlaceOrder"
RULES = [
    {
        "message_type": TYPE,
        "headers": {"Person": "hash", HeaderNames.CORRELATION_ID: "drop"},
        "fields": {"Customer.Email": "hash", "Lines[].Card": "mask", "Note": "drop"},
    }
]


@pytest.fixture
def key(connection: Any) -> str:
    """The connection ``redaction_key``, and its password."""
    password = f"hush-key-{uuid.uuid4().hex}"
    connection(conn_type="generic", conn_id="redaction_key", password=password)
    return password


def secrets_and_messages() -> tuple[list[str], list[Message]]:
    """Values that the rules name, in messages of every sort that a drain handles in its own way."""
    header, column, email, card, note, unparsed, large, malformed = secrets = [
        f"hush-{name}-{uuid.uuid4().hex}"
        for name in ("header", "column", "email", "card", "note", "unparsed", "large", "malformed")
    ]
    headers = {HeaderNames.ENCLOSED_MESSAGE_TYPES: TYPE, "Person": header, HeaderNames.CORRELATION_ID: column}
    body = {"Customer": {"Email": email}, "Lines": [{"Card": card}], "Note": note, "Public": "told"}
    xml = f"<PlaceOrder><Customer><Email>{email}</Email></Customer><Lines><Line><Card>{card}</Card></Line></Lines>"
    long = {"Customer": {"Email": large}, "Public": "x" * 2_000}
    bodies = [json.dumps(body), f"{xml}<Note>{note}</Note></PlaceOrder>", f"{unparsed} {{", json.dumps(long)]
    sent = [Message(headers, text.encode(encoding)) for text in bodies for encoding in ("utf-8", "utf-16")]
    return secrets, [*sent, Message(f'{{"Person": "{malformed}"', json.dumps({"Note": malformed}).encode())]


def ledger_rows(hook: SqlQueueHook, batch_ids: list[str]) -> str:
    texts = []
    with hook.client.session() as session:
        for table in ("Batch", "Part", "BatchMessage", "Quarantine"):
            for batch_id in batch_ids:
                text = f"SELECT * FROM [sqlqueue].[{table}] WHERE [BatchId] = '{batch_id}'"
                texts += [str(row) for row in session.run(Query("test", "read a table", text))]
    return "\n".join(texts)


@pytest.mark.airflow
def test_values_that_rules_name_are_nowhere(
    hook: SqlQueueHook,
    queue_name: str,
    key: str,
    metadata_db: None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    metrics = note_metrics(monkeypatch)
    secrets, messages = secrets_and_messages()
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    options = {"inline_body_bytes": 1_000}
    with DAG(
        f"redacted_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)
    ) as dag:
        common = {"queue_name": queue_name, "redaction_conn_id": "redaction_key"}
        files = SqlQueueDrainToSparkOperator(
            task_id="files", staging=str(tmp_path / "staging"), redaction=str(rules), drain_options=options, **common
        )
        table = SqlQueueDrainToSparkOperator(task_id="table", stage="table", redaction=RULES, **common)
        files.pre_execute = table.pre_execute = lambda context: hook.send(queue_name, messages)
        files >> table
    run = run_in_full(dag)
    tasks = {task.task_id: task for task in run.get_task_instances()}
    output = "".join(capfd.readouterr())
    assert {name: str(task.state) for name, task in tasks.items()} == {"files": "success", "table": "success"}, output
    returned = [task.xcom_pull(task_ids=name) for name, task in tasks.items()]
    batches = [value["batch"] for value in returned]
    assert [batch["messages"] for batch in batches] == [len(messages)] * 2
    assert len({batch["redacted"] for batch in batches}) == 1
    found = [file for file in (tmp_path / "staging").rglob("*") if file.is_file()]
    parquet = [str(pq.read_table(file).to_pylist()) for file in found if file.suffix == ".parquet"]
    large = [file.read_bytes() for file in found if file.suffix == ".bin"]
    places = {
        "part files": "\n".join(parquet),
        "body files": "\n".join(body.decode("utf-16" if body[:1] == b"\xff" else "utf-8") for body in large),
        "tables": ledger_rows(hook, [batch["batch_id"] for batch in batches]),
        "XCom": json.dumps(returned),
        "lineage": str([DefaultExtractor(task).extract_on_complete(None) for task in (files, table)]),
        "output": output,
        "log": caplog.text,
        "metrics": " ".join(metrics),
        "Airflow's home": texts_under(HOME),
    }
    assert all(places.values())
    assert TYPE in places["part files"]
    assert "told" in places["tables"], "the places are searched"
    named = [*secrets, key]
    assert {where: left for where, text in places.items() if (left := [one for one in named if one in text])} == {}


def test_rules_and_keys_that_cannot_be_used_fail_without_a_retry(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, connection: Any
) -> None:
    connection(conn_type="generic", conn_id="no_key")
    for arguments, sentence in (
        ({"redaction": [{"message_type": "*"}]}, "changes nothing"),
        ({"redaction": str(tmp_path / "none.json")}, "cannot be read"),
        ({"redaction": RULES}, "needs a key"),
        ({"redaction": RULES, "redaction_conn_id": "no_key"}, "no password"),
    ):
        drain: Any = SqlQueueDrainOperator(task_id="d", queue_name=queue_name, staging=str(tmp_path), **arguments)
        with pytest.raises(AirflowFailException, match=sentence):
            drain.execute(context())


def test_a_redacted_batch_is_put_back_only_with_a_word(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, key: str
) -> None:
    hook.send(queue_name, [Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: TYPE}, b'{"Note": "x", "Id": 1}')])
    drain = SqlQueueDrainOperator(
        task_id="d",
        queue_name=queue_name,
        staging=str(tmp_path),
        redaction=RULES,
        redaction_conn_id="redaction_key",
    )
    drained = drain.execute(context())
    refused = SqlQueueRequeueOperator(task_id="r", batch=drained)
    with pytest.raises(BatchError, match="accept_redacted"):
        refused.execute(context())
    done = SqlQueueRequeueOperator(task_id="r", batch=drained, accept_redacted=True).execute(context())
    assert done["batch"]["state"] == "requeued"
    (message,) = hook.client.queue(queue_name).peek()
    assert message.body == b'{"Id":1}'


def test_a_job_gets_no_batch_of_an_earlier_run_that_other_rules_have_left(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, key: str
) -> None:
    """Rules may be added, or corrected, after a run whose job failed."""
    seen: list[bytes] = []

    def job(messages: Any, fails: bool) -> None:
        if fails:
            raise InterruptedError
        seen.extend(message.body for message in messages)

    def drain(run_id: str, redaction: Any, *, fails: bool = False) -> Any:
        task = SqlQueueDrainOperator(
            task_id="d",
            queue_name=queue_name,
            staging=str(tmp_path),
            python_callable=job,
            op_kwargs={"fails": fails},
            redaction=redaction,
            redaction_conn_id="redaction_key",
        )
        return task.execute(context(run_id=run_id, dag_id=dag_id))

    dag_id = uuid.uuid4().hex
    others = [{**RULES[0], "fields": {"Customer.Email": "hash"}}]
    for run_id, rules in (("plain", None), ("others", others), ("same", RULES)):
        hook.send(queue_name, [Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: TYPE}, b'{"Note": "hush", "Id": 1}')])
        with pytest.raises(InterruptedError):
            drain(run_id, rules, fails=True)
    done = drain("next", RULES)
    assert [each["messages"] for each in done["adopted"]] == [1], "that of the same rules"
    assert seen == [b'{"Id":1}']
    left = hook.client.batches.list(queue_name, states=["sealed"])
    assert [each.origin.split()[1] for each in left] == ["plain", "others"]
    for each in left:
        hook.client.batches.requeue(each, accept_redacted=True)
    assert drain("last", RULES)["batch"]["messages"] == 2
    assert seen == [b'{"Id":1}'] * 3
    assert drain("without", None)["adopted"] == []


def test_a_key_without_its_connection_ends_the_task(queue_name: str, tmp_path: Path, context: Any) -> None:
    task = SqlQueueDrainOperator(
        task_id="t", queue_name=queue_name, staging=str(tmp_path), redaction=RULES, redaction_conn_id="nowhere"
    )
    with pytest.raises(AirflowFailException, match="Airflow has no connection 'nowhere', whose password is the key"):
        task.execute(context())
