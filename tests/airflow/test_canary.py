"""Canary values in messages and logins appear nowhere: a DAG is run, and all its traces are searched.

Beside the secrets goes a word that is told on purpose: a place where it is not found was not searched.
"""

from __future__ import annotations

import json
import logging
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator, SqlQueuePurgeOperator
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.server.sql import Query
from tests.airflow.conftest import HOME
from tests.airflow.running_dag import run_in_full

APPLICATION = """
import json, pathlib, sys
from pyspark.sql import SparkSession
from airflow_sqlqueue import Batch, read_batch

_, manifest, searched, found, told = sys.argv[1:]
batch = Batch.from_dict(json.loads(pathlib.Path(manifest).read_text()))
spark = SparkSession.builder.getOrCreate()
rows = read_batch(spark, batch)
assert rows.where("body = cast('' as binary)").count() == 0
plan = rows._jdf.queryExecution().toString()
places = {"command lines": b"", "temporary files": b"", "plan": plan.encode()}
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        places["command lines"] += (process / "cmdline").read_bytes()
    except OSError:
        pass
for file in pathlib.Path(searched).rglob("*"):
    if file.is_file() and file.name != "spark.properties":
        places["temporary files"] += file.read_bytes()
places = {where: text.decode("utf-8", "replace") for where, text in places.items() if text}
pathlib.Path(found).write_text(json.dumps(places))
"""


@dataclass(frozen=True)
class Secrets:
    """Each is in what the DAG works with."""

    body: str
    header: str
    password: str
    spark: str

    def in_text(self, text: str) -> set[str]:
        return {name for name, secret in vars(self).items() if secret in text}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for temporary files, so that all of them are known."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def secrets(hook: SqlQueueHook) -> Secrets:
    body, header, spark = (f"hush-{kind}-{uuid.uuid4().hex}" for kind in ("body", "header", "spark"))
    return Secrets(body, header, str(hook.queue_connection.settings.password), spark)


@pytest.fixture
def throwing(hook: SqlQueueHook, queue_name: str) -> str:
    """A queue whose trigger quotes the body of a message that is taken out of it."""
    name = f"{queue_name}.throwing"
    hook.create_queue(name)
    table = hook.client.resolve(name).table
    trigger = f"""CREATE TRIGGER [{name}.trigger] ON [{table}] AFTER DELETE AS
DECLARE @text nvarchar(2000) = (SELECT TOP (1) CONVERT(varchar(2000), [Body]) FROM deleted);
THROW 51000, @text, 1;"""
    with hook.client.session() as session:
        session.run(Query("trigger", "make a test's trigger", trigger))
    return name


@pytest.mark.airflow
@pytest.mark.spark
def test_secrets_of_messages_and_logins_are_nowhere(
    hook: SqlQueueHook,
    queue_name: str,
    throwing: str,
    secrets: Secrets,
    temporary: Path,
    metadata_db: None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    metrics = note_metrics(monkeypatch)
    told = f"told-{uuid.uuid4().hex}"
    for queue in (queue_name, throwing):
        hook.send(queue, [Message({"Secret": secrets.header}, secrets.body.encode())] * 3)
    application, found, events = tmp_path / "job.py", tmp_path / "found.json", tmp_path / "events"
    application.write_text(APPLICATION)
    events.mkdir()
    (temporary / "told").write_text(told)
    with DAG(f"canary_{told}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        wait = SqlQueueDepthSensor(task_id="wait", queue_name=queue_name, poke_interval=1)
        drain = SqlQueueDrainToSparkOperator(
            task_id="drain",
            queue_name=queue_name,
            staging=str(tmp_path / "staging"),
            application=str(application),
            application_args=[str(temporary), str(found), told],
            spark_conf={
                "spark.hadoop.fs.s3a.secret.key": secrets.spark,
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": events.as_uri(),
                "spark.executorEnv.TOLD": told,
            },
        )
        purge = SqlQueuePurgeOperator(task_id="purge", queue_name=queue_name)
        refused = SqlQueueDrainToSparkOperator(task_id="refused", queue_name=throwing, staging=str(tmp_path / "other"))
        wait >> drain >> purge >> refused
    run = run_in_full(dag)
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    output = "".join(capfd.readouterr())
    assert states == {"wait": "success", "drain": "success", "purge": "success", "refused": "failed"}, output

    places = json.loads(found.read_text())
    assert places.keys() == {"command lines", "temporary files", "plan"}
    places["output"] = output
    places["log"] = caplog.text
    places["metrics"] = " ".join(metrics)
    places["event log"] = texts_under(events)
    places["Airflow's home"] = texts_under(HOME)
    places["errors"] = errors_of(hook, throwing) + told
    silent = {"metrics", "plan", "log"}
    assert {where for where, text in places.items() if told not in text} <= silent
    assert "sqlqueue.drain.messages" in places["metrics"]
    assert {where: names for where, text in places.items() if (names := secrets.in_text(text))} == {}
    left = texts_under(temporary)
    assert secrets.in_text(left) == set(), "nothing of them is left behind"


def note_metrics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from airflow_sqlqueue.operators import metrics

    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    noted: list[str] = []
    for name in ("incr", "gauge", "timing"):
        monkeypatch.setattr(metrics.TaskStats, name, lambda *given, **named: noted.append(f"{given} {named}"))
    return noted


def errors_of(hook: SqlQueueHook, queue_name: str) -> str:
    """An error's text and that of every error that caused it."""
    texts = []
    with suppress(SqlQueueError):
        try:
            hook.receive(queue_name, 1)
        except SqlQueueError as error:
            cause: Any = error
            while cause is not None:
                texts.append(f"{cause!r} {cause} {getattr(cause, '__notes__', '')}")
                cause = cause.__cause__
    assert texts
    return "\n".join(texts)


def texts_under(folder: Path) -> str:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)
