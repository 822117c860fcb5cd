"""The drain's operators on a server, over ODBC: ``execute`` without a metadata database."""

from __future__ import annotations

import json
import logging
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import ObjectStoragePath

from airflow_sqlqueue.drain.drain import Progress
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueMarkConsumedOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.traffic import generate
from tests.airflow.tasks import drain_task


def test_a_drain_without_a_job_leaves_the_batch_to_others(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str
) -> None:
    hook.send(queue_name, generate(300, seed=1))
    expired = hook.depth(queue_name).expired
    done = drain_task(queue_name, str(tmp_path)).execute(context())
    assert json.loads(json.dumps(done)) == done
    batch = Batch.from_dict(done["batch"])
    assert (batch.state, batch.messages, batch.expired, done["locked"]) == ("sealed", 300 - expired, expired, 0)
    assert batch.batch_id == str(batch_id_for("dag", run_id, "task"))
    for given in (done, done["batch"]):
        SqlQueueMarkConsumedOperator(task_id="mark", batch=given).execute(context())
    again = drain_task(queue_name, str(tmp_path), python_callable=not_again).execute(context())
    assert again["batch"] == {**done["batch"], "state": "consumed"}


def not_again(spark: Any, batch: Batch) -> None:
    raise AssertionError("a consumed batch was given to a job")


def test_a_batch_that_is_unknown_is_not_marked(live: str, context: Any) -> None:
    settings = SqlQueueHook(live).queue_connection.settings
    batch = Batch(str(uuid.uuid4()), f"q@[dbo]@[{settings.database}]", "sealed", (), 0)
    with pytest.raises(AirflowFailException, match="does not know"):
        SqlQueueMarkConsumedOperator(task_id="mark", batch=batch.to_dict()).execute(context())


def test_a_retry_resumes_an_open_batch(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str
) -> None:
    class Killed(Exception):
        pass

    def kill(progress: Progress) -> None:
        raise Killed

    hook.send(queue_name, generate(100, seed=2))
    expired = hook.depth(queue_name).expired
    with pytest.raises(Killed):
        hook.drain(
            queue_name,
            tmp_path,
            DrainRequest(
                batch_id=batch_id_for("dag", run_id, "task", 3), options=DrainOptions(rows_per_part=30, workers=1)
            ),
            on_progress=kill,
        )
    assert hook.depth(queue_name).messages + hook.depth(queue_name).expired == 70
    done = drain_task(queue_name, str(tmp_path), drain_options={"rows_per_part": 40}).execute(context(map_index=3))
    assert done["batch"]["messages"] == 100 - expired
    assert done["batch"]["parts"] == 3
    assert hook.depth(queue_name).messages == 0


def test_another_run_and_another_map_index_drain_another_batch(queue_name: str, tmp_path: Path, context: Any) -> None:
    contexts = [context(), context(run_id="other"), context(map_index=0)]
    ids = {drain_task(queue_name, str(tmp_path)).execute(each)["batch"]["batch_id"] for each in contexts}
    assert len(ids) == 3


def test_an_empty_batch_runs_no_job_and_is_consumed(queue_name: str, tmp_path: Path, context: Any) -> None:
    done = drain_task(queue_name, str(tmp_path), python_callable=not_again).execute(context())
    assert (done["batch"]["state"], done["batch"]["messages"], done["result"]) == ("consumed", 0, None)


def test_staging_may_be_an_object_storage_path(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    hook.send(queue_name, [Message({}, b"x")])
    done = drain_task(queue_name, ObjectStoragePath(f"file://{tmp_path}")).execute(context())
    assert done["batch"]["paths"][0].startswith(f"file://{tmp_path}/")


def test_no_body_and_no_header_reaches_a_log_or_xcom(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, caplog: Any, capsys: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    message = {"headers": {"Secret": "hush-header"}, "body": "hush-body"}
    sent = SqlQueueSendOperator(task_id="send", queue_name=queue_name, messages=[message]).execute(context())
    SqlQueueDepthSensor(task_id="wait", queue_name=queue_name).execute(context())
    done = drain_task(queue_name, str(tmp_path)).execute(context())
    assert sent == done["batch"]["messages"] == 1
    log = caplog.text + capsys.readouterr().out
    assert "Sent 1 message to" in log
    assert "Drained 1 message," in log
    for text in (log, json.dumps(done), repr(hook.client.queue(queue_name).peek())):
        assert "hush" not in text


@pytest.mark.spark
def test_a_failed_job_keeps_its_batch_for_the_next_try(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str, capsys: Any, caplog: Any
) -> None:
    seen: list[str] = []

    def job(spark: Any, batch: Batch, fail: bool) -> dict[str, int]:
        rows = spark.read.parquet(*batch.paths).count()
        seen.append(batch.batch_id)
        if fail:
            raise RuntimeError("the job failed")
        return {"rows": rows}

    hook.send(queue_name, [Message({}, b"x")] * 20)
    arguments: dict[str, Any] = {"python_callable": job, "spark_conf": {"spark.sql.shuffle.partitions": "1"}}
    with pytest.raises(RuntimeError, match="the job failed"):
        drain_task(queue_name, str(tmp_path), op_kwargs={"fail": True}, **arguments).execute(context())
    batch = hook.client.batches.get(batch_id_for("dag", run_id, "task"))
    assert (batch.state, batch.messages) == ("sealed", 20)
    log = capsys.readouterr().out
    lines = (
        "Drained 20 ",
        "Starting a Spark session on local[*] ...",
        "The Spark session started",
        "The job gets batch",
    )
    assert re.findall("|".join(map(re.escape, lines)), log) == list(lines)
    assert "runs again" not in log

    hook.send(queue_name, [Message({}, b"later")])
    done = drain_task(queue_name, str(tmp_path), op_kwargs={"fail": False}, **arguments).execute(context())
    assert done["result"] == {"rows": 20}
    assert done["batch"] == {**batch.to_dict(), "state": "consumed"}
    assert seen == [batch.batch_id] * 2
    assert f"Batch {batch.batch_id} was sealed by an earlier try: its job runs again" in capsys.readouterr().out

    again = drain_task(queue_name, str(tmp_path), op_kwargs={"fail": False}, **arguments).execute(context())
    assert again["result"] is None
    assert len(seen) == 2
    assert "runs again" not in capsys.readouterr().out.replace("the job does not run again", "")
    assert hook.depth(queue_name).messages == 1


@pytest.mark.spark
def test_an_application_gets_the_manifest(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, capsys: Any
) -> None:
    application = tmp_path / "job.py"
    application.write_text(
        "import json, sys\n"
        "option, manifest, answer = sys.argv[1:]\n"
        "assert option == '--manifest'\n"
        "open(answer, 'w').write(open(manifest).read())\n"
        "print('the application was here')\n"
    )
    answer = tmp_path / "answer.json"
    hook.send(queue_name, [Message({}, b"x")] * 5)

    operator = drain_task(queue_name, str(tmp_path), application=str(application), application_args=[str(answer)])
    done = operator.execute(context())
    assert json.loads(answer.read_text()) == {**done["batch"], "state": "sealed"}
    assert done["batch"]["state"] == "consumed"
    log = capsys.readouterr().out
    assert log.count("the application was here") == 1
    assert log.count("The Spark job on batch") == 1, "it ended once without an error"


@pytest.mark.spark
def test_executors_drain_and_the_job_has_their_session(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.spark import executors

    drained_with: list[str] = []
    reports = executors.drained_reports

    def note(spark: Any, *arguments: Any) -> Any:
        drained_with.append(spark.sparkContext.applicationId)
        return reports(spark, *arguments)

    def job(spark: Any, batch: Batch) -> dict[str, Any]:
        # Nobody has asked for a web UI.
        assert spark.sparkContext.uiWebUrl is None
        conf = spark.sparkContext.getConf()
        return {"application": spark.sparkContext.applicationId, "speculation": conf.get("spark.speculation")}

    monkeypatch.setattr(executors, "drained_reports", note)
    hook.send(queue_name, [Message({}, b"x")] * 20)
    done = drain_task(queue_name, str(tmp_path), python_callable=job, engine="spark").execute(context())
    assert done["batch"]["messages"] == 20
    assert [done["result"]] == [{"application": name, "speculation": "false"} for name in drained_with]


def test_an_engine_needs_its_runtime(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="'cluster' is not known: use threads or spark"):
        drain_task(queue_name, str(tmp_path), engine="cluster").execute(context())
    with pytest.raises(ConfigurationError, match="needs a session to drain with"):
        hook.drain(queue_name, tmp_path, engine="spark")
