"""The operators and the sensor on a server, over ODBC: what ``execute`` does, without a metadata database."""

from __future__ import annotations

import json
import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from airflow_sqlqueue.drain.drain import Progress
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.envelope.replying import reply
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.errors import BatchError, ConfigurationError, QueueNotFoundError, SparkJobError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import (
    SqlQueueCreateOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueMarkConsumedOperator,
    SqlQueuePurgeExpiredOperator,
    SqlQueuePurgeOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor, depth
from airflow_sqlqueue.traffic import generate


@pytest.fixture
def hook(live: str) -> SqlQueueHook:
    return SqlQueueHook(live)


def drain(queue_name: str, staging: Any, **arguments: Any) -> SqlQueueDrainToSparkOperator:
    return SqlQueueDrainToSparkOperator(task_id="task", queue_name=queue_name, staging=staging, **arguments)


# Create, send, purge


def test_create_makes_tables_once(live: str, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    address = f"{name}@[dbo]@[sqlqueue]"
    assert SqlQueueCreateOperator(task_id="first", queue_name=name).execute(context()) == [address]
    again = SqlQueueCreateOperator(task_id="again", queue_name=name, delayed=True)
    assert again.execute(context()) == [f"{name}.Delayed@[dbo]@[sqlqueue]"]
    assert again.execute(context()) == []


def test_create_tells_how_a_table_differs(live: str, context: Any, capfd: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    SqlQueueCreateOperator(task_id="old", queue_name=name, layout="v1").execute(context())
    SqlQueueCreateOperator(task_id="new", queue_name=name, layout="v4").execute(context())
    assert "the column Headers is varchar(max) NOT NULL, not nvarchar(max) NOT NULL" in capfd.readouterr().out


def test_create_refuses_a_table_that_is_no_queue_without_retry(hook: SqlQueueHook, context: Any) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.run(f"CREATE TABLE {hook.client.resolve(name).qualified_name} ([Id] int NOT NULL)", autocommit=True)
    with pytest.raises(AirflowFailException, match="is not a queue table"):
        SqlQueueCreateOperator(task_id="t", queue_name=name).execute(context())


def test_send_fills_in_headers_and_repeats_its_ids(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    operator = SqlQueueSendOperator(
        task_id="send",
        queue_name=queue_name,
        messages=lambda context: [{"body": {"for": context["ti"].dag_id}}, {"body": "<x/>", "time_to_be_received": 60}],
        enclosed_message_types="Shop.Messages.PlaceOrder",
    )
    assert operator.execute(context(dag_id="shop")) == 2
    assert operator.execute(context(dag_id="shop")) == 2
    rows = hook.receive(queue_name, 10)
    headers = [decode_headers(row.headers).values for row in rows]
    assert [row.body for row in rows] == [b'{"for":"shop"}', b"<x/>"] * 2
    assert [row.expires is None for row in rows] == [True, False] * 2
    ids = [values[HeaderNames.MESSAGE_ID] for values in headers]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]
    assert headers[0][HeaderNames.ORIGINATING_ENDPOINT] == "airflow.shop"
    assert headers[0][HeaderNames.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.PlaceOrder"


def test_ids_of_keys_survive_a_retry_that_sends_fewer_in_another_order(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    (tmp_path / "b").write_bytes(b"from a file")
    path = ObjectStoragePath(f"file://{tmp_path}/b")
    tries = [
        [{"key": "a", "message_type": "Shop.A"}, {"key": "b", "body": path, "reply_to": "Sales"}, {"key": "c"}],
        [{"key": "c"}, {"key": "b", "body": path, "reply_to": "Sales"}],
    ]
    operator = SqlQueueSendOperator(
        task_id="send", queue_name=queue_name, messages=lambda context: tries.pop(0), enclosed_message_types="Shop.Any"
    )
    assert [operator.execute(context()), operator.execute(context())] == [3, 2]
    first_a, first_b, first_c, again_c, again_b = (Envelope.of(row) for row in hook.receive(queue_name, 10))
    assert (again_b.identity, again_c.identity) == (first_b.identity, first_c.identity)
    assert again_b.row_id == first_b.row_id == uuid.UUID(first_b.identity.message_id)
    assert [one.content.message_type for one in (first_a, first_b)] == ["Shop.A", "Shop.Any"]
    assert (first_b.body, first_b.routing.reply_to_address) == (b"from a file", "Sales")
    assert hook.depth(queue_name).messages == 0


def test_a_body_that_cannot_be_read_yet_is_tried_again_and_nothing_is_sent(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    missing = ObjectStoragePath(f"file://{tmp_path}/missing")
    operator = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{}, {"body": missing}])
    with pytest.raises(FileNotFoundError):
        operator.execute(context())
    assert hook.depth(queue_name).messages == 0


def test_a_reply_reaches_the_queue_that_the_request_names(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    SqlQueueSendOperator(
        task_id="t", queue_name=queue_name, messages=[{"reply_to": hook.client.resolve(queue_name)}]
    ).execute(context())
    (request,) = hook.receive(queue_name)
    address, answer = reply(request, {"ok": True}, endpoint="airflow.dag")
    hook.send(address, [answer])
    (received,) = hook.receive(queue_name)
    assert Envelope.of(received).identity.correlation_id == Envelope.of(request).identity.message_id
    assert Envelope.of(received).json() == {"ok": True}


def test_a_repeated_task_sends_once_where_it_keeps_the_ledger(
    hook: SqlQueueHook, queue_name: str, context: Any
) -> None:
    operator = SqlQueueSendOperator(task_id="s", queue_name=queue_name, messages=[{}, {}], exactly_once=True)
    assert [operator.execute(context(run_id="one")), operator.execute(context(run_id="one"))] == [2, 2]
    assert operator.execute(context(run_id="two")) == 2
    assert hook.depth(queue_name).messages == 4


def test_a_message_that_cannot_be_sent_fails_without_retry_and_sends_nothing(
    hook: SqlQueueHook, queue_name: str, context: Any
) -> None:
    operator = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{}, {"body": {1}}])
    with pytest.raises(AirflowFailException, match="Message 1 cannot be sent"):
        operator.execute(context())
    assert hook.depth(queue_name).messages == 0


def test_purge_deletes_what_expired(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.send(queue_name, [Message({}, b"", timedelta(seconds=-1)), Message({}, b"stays")])
    count = SqlQueuePurgeExpiredOperator(task_id="count", queue_name=queue_name, only_count=True).execute(context())
    assert (count["deleted"], count["remaining"]) == (0, 1)
    purged = SqlQueuePurgeExpiredOperator(task_id="purge", queue_name=queue_name).execute(context())
    assert (purged["deleted"], purged["remaining"], purged["complete"]) == (1, 0, True)
    assert [message.body for message in hook.client.queue(queue_name).peek()] == [b"stays"]


def test_purge_deletes_old_ones_and_all(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    old = {"NServiceBus.TimeSent": "2020-01-01 00:00:00:000000 Z"}
    hook.send(queue_name, [Message(old), Message({}, b"undated"), Message(old)])
    week = timedelta(days=7)
    purge = SqlQueuePurgeOperator(task_id="old", queue_name=queue_name, older_than=week, confirm=True, max_messages=1)
    assert purge.execute(context())["deleted"] == 1
    purge.max_messages = None
    purged = purge.execute(context())
    assert (purged["deleted"], purged["remaining"], purged["undated"], purged["complete"]) == (1, 0, 1, True)
    count = SqlQueuePurgeOperator(task_id="count", queue_name=queue_name, all_messages=True, only_count=True)
    assert count.execute(context())["remaining"] == 1
    every = SqlQueuePurgeOperator(task_id="all", queue_name=queue_name, all_messages=True, confirm=True)
    assert every.execute(context())["deleted"] == 1
    assert hook.depth(queue_name).total == 0


def test_a_missing_queue_may_come_yet(live: str, context: Any) -> None:
    with pytest.raises(QueueNotFoundError, match=r"test\.missing"):
        SqlQueuePurgeExpiredOperator(task_id="t", queue_name="test.missing").execute(context())


# Sensor


def test_the_sensor_pokes_until_there_is_enough(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, threshold="3", poke_interval=0, timeout=60)
    hook.send(queue_name, [Message()] * 2)
    assert not sensor.poke(context())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sensor.execute, context())
        hook.send(queue_name, [Message()] * 2)
        assert waiting.result(60) == {"messages": 4, "expired": 0}


def test_the_sensor_gives_its_slot_back_between_pokes(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, mode="reschedule", poke_interval=90)
    with pytest.raises(AirflowRescheduleException):
        sensor.execute(context())
    hook.send(queue_name, [Message()])
    assert sensor.execute(context()) == {"messages": 1, "expired": 0}


def test_expired_messages_do_not_count_however_many_stand_in_front(
    hook: SqlQueueHook, queue_name: str, context: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(depth, "EXPIRED_ALLOWANCE", 2)
    hook.send(queue_name, [*[Message({}, b"", timedelta(seconds=-1))] * 5, *[Message()] * 2])
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, threshold=2)
    assert sensor.poke(context()).xcom_value == {"messages": 2, "expired": 5}
    sensor.threshold = 3
    assert not sensor.poke(context())


@pytest.mark.parametrize("kind", ["quick", "catalog"])
def test_a_poke_may_read_no_rows(hook: SqlQueueHook, queue_name: str, context: Any, kind: str) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, threshold=2, kind=kind)
    hook.send(queue_name, [Message()])
    assert not sensor.poke(context())
    hook.send(queue_name, [Message({}, b"", timedelta(seconds=-1))])
    found = sensor.poke(context())
    assert found
    assert found.xcom_value == {"messages": 2, "expired": None}


def test_the_sensor_waits_for_an_age(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name, oldest_seconds="600")
    assert not sensor.poke(context())
    young = format_time(datetime.now(timezone.utc))
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": young})])
    found = sensor.poke(context())
    assert not found
    assert 0 <= found.xcom_value["oldest_seconds"] < 300
    sensor.threshold = 1
    assert sensor.poke(context())
    sensor.threshold = None
    hook.receive(queue_name)
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": "2020-01-01 00:00:00:000000 Z"})])
    assert sensor.poke(context())


# Drain


def test_a_drain_without_a_job_leaves_the_batch_to_others(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str
) -> None:
    hook.send(queue_name, generate(300, seed=1))
    expired = hook.depth(queue_name).expired
    done = drain(queue_name, str(tmp_path)).execute(context())
    assert json.loads(json.dumps(done)) == done
    batch = Batch.from_dict(done["batch"])
    assert (batch.state, batch.messages, batch.expired, done["locked"]) == ("sealed", 300 - expired, expired, 0)
    assert batch.batch_id == str(batch_id_for("dag", run_id, "task"))
    for given in (done, done["batch"]):
        SqlQueueMarkConsumedOperator(task_id="mark", batch=given).execute(context())
    again = drain(queue_name, str(tmp_path), python_callable=not_again).execute(context())
    assert again["batch"] == {**done["batch"], "state": "consumed"}


def not_again(spark: Any, batch: Batch) -> None:
    raise AssertionError("a consumed batch was given to a job")


def test_a_batch_that_is_unknown_is_not_marked(live: str, context: Any) -> None:
    settings = SqlQueueHook(live).queue_connection.settings
    batch = Batch(str(uuid.uuid4()), f"q@[dbo]@[{settings.database}]", "sealed", (), 0, 0, 0, 0)
    with pytest.raises(BatchError, match="does not know"):
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
            batch_id=batch_id_for("dag", run_id, "task", 3),
            options=DrainOptions(rows_per_part=30, workers=1),
            on_progress=kill,
        )
    assert hook.depth(queue_name).messages + hook.depth(queue_name).expired == 70
    done = drain(queue_name, str(tmp_path), drain_options={"rows_per_part": 40}).execute(context(map_index=3))
    assert done["batch"]["messages"] == 100 - expired
    assert done["batch"]["parts"] == 3
    assert hook.depth(queue_name).messages == 0


def test_another_run_and_another_map_index_drain_another_batch(queue_name: str, tmp_path: Path, context: Any) -> None:
    contexts = [context(), context(run_id="other"), context(map_index=0)]
    ids = {drain(queue_name, str(tmp_path)).execute(each)["batch"]["batch_id"] for each in contexts}
    assert len(ids) == 3


def test_an_empty_batch_runs_no_job_and_is_consumed(queue_name: str, tmp_path: Path, context: Any) -> None:
    done = drain(queue_name, str(tmp_path), python_callable=not_again).execute(context())
    assert (done["batch"]["state"], done["batch"]["messages"], done["result"]) == ("consumed", 0, None)


def test_staging_may_be_an_object_storage_path(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    hook.send(queue_name, [Message({}, b"x")])
    done = drain(queue_name, ObjectStoragePath(f"file://{tmp_path}")).execute(context())
    assert done["batch"]["paths"][0].startswith(f"file://{tmp_path}/")


def test_no_body_and_no_header_reaches_a_log_or_xcom(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, caplog: Any, capsys: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    message = {"headers": {"Secret": "hush-header"}, "body": "hush-body"}
    sent = SqlQueueSendOperator(task_id="send", queue_name=queue_name, messages=[message]).execute(context())
    SqlQueueDepthSensor(task_id="wait", queue_name=queue_name).execute(context())
    done = drain(queue_name, str(tmp_path)).execute(context())
    assert sent == done["batch"]["messages"] == 1
    log = caplog.text + capsys.readouterr().out
    assert "Sent 1 messages" in log
    assert "Drained 1 messages" in log
    for text in (log, json.dumps(done), repr(hook.client.queue(queue_name).peek())):
        assert "hush" not in text


# Spark


@pytest.mark.spark
def test_a_failed_job_keeps_its_batch_for_the_next_try(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str
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
        drain(queue_name, str(tmp_path), op_kwargs={"fail": True}, **arguments).execute(context())
    batch = hook.client.batches.get(batch_id_for("dag", run_id, "task"))
    assert (batch.state, batch.messages) == ("sealed", 20)

    hook.send(queue_name, [Message({}, b"later")])
    done = drain(queue_name, str(tmp_path), op_kwargs={"fail": False}, **arguments).execute(context())
    assert done["result"] == {"rows": 20}
    assert done["batch"] == {**batch.to_dict(), "state": "consumed"}
    assert seen == [batch.batch_id] * 2

    again = drain(queue_name, str(tmp_path), op_kwargs={"fail": False}, **arguments).execute(context())
    assert again["result"] is None
    assert len(seen) == 2
    assert hook.depth(queue_name).messages == 1


@pytest.mark.spark
def test_an_application_gets_the_manifest(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str, capsys: Any
) -> None:
    application = tmp_path / "job.py"
    application.write_text(
        "import json, sys\n"
        "option, manifest, answer, code = sys.argv[1:]\n"
        "assert option == '--manifest'\n"
        "open(answer, 'w').write(open(manifest).read())\n"
        "print('the application was here')\n"
        "sys.exit(int(code))\n"
    )
    answer = tmp_path / "answer.json"
    hook.send(queue_name, [Message({}, b"x")] * 5)

    def run(code: int) -> dict[str, Any]:
        arguments = [str(answer), str(code)]
        operator = drain(queue_name, str(tmp_path), application=str(application), application_args=arguments)
        return operator.execute(context())

    with pytest.raises(SparkJobError, match="exit code 3"):
        run(3)
    assert hook.client.batches.get(batch_id_for("dag", run_id, "task")).state == "sealed"
    done = run(0)
    assert json.loads(answer.read_text()) == {**done["batch"], "state": "sealed"}
    assert done["batch"]["state"] == "consumed"
    assert capsys.readouterr().out.count("the application was here") == 2


@pytest.mark.spark
def test_executors_drain_and_the_job_has_their_session(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.spark import executors

    drained_with: list[str] = []
    frame = executors.drained_frame

    def note(spark: Any, *arguments: Any) -> Any:
        drained_with.append(spark.sparkContext.applicationId)
        return frame(spark, *arguments)

    def job(spark: Any, batch: Batch) -> dict[str, Any]:
        # Nobody has asked for a web UI.
        assert spark.sparkContext.uiWebUrl is None
        conf = spark.sparkContext.getConf()
        return {"application": spark.sparkContext.applicationId, "speculation": conf.get("spark.speculation")}

    monkeypatch.setattr(executors, "drained_frame", note)
    hook.send(queue_name, [Message({}, b"x")] * 20)
    done = drain(queue_name, str(tmp_path), python_callable=job, engine="spark").execute(context())
    assert done["batch"]["messages"] == 20
    assert [done["result"]] == [{"application": name, "speculation": "false"} for name in drained_with]


def test_an_engine_needs_what_it_runs_on(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="'cluster' is not known: use threads or spark"):
        drain(queue_name, str(tmp_path), engine="cluster").execute(context())
    with pytest.raises(ConfigurationError, match="needs a session to drain with"):
        hook.drain(queue_name, tmp_path, engine="spark")
