"""Batches through the hook and the operators, on a server, over ODBC."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import ObjectStoragePath

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainToSparkOperator,
    SqlQueueMarkConsumedOperator,
    SqlQueueRequeueOperator,
    SqlQueueSweepOperator,
)


@pytest.fixture
def batch(hook: SqlQueueHook, queue_name: str, tmp_path: Path) -> Batch:
    """A sealed batch of ten messages."""
    hook.send(queue_name, [Message({"n": f"{n}"}, b"%d" % n) for n in range(10)])
    return hook.drain(queue_name, tmp_path / "staging", DrainRequest(origin="test")).batch


def test_the_hook_lists_batches(hook: SqlQueueHook, queue_name: str, batch: Batch) -> None:
    (info,) = hook.client.batches.list(queue_name)
    assert (str(info.batch_id), info.state, info.messages) == (batch.batch_id, "sealed", 10)
    assert info.batch_id in {found.batch_id for found in hook.client.batches.list(states=["sealed"])}
    hook.client.batches.mark_consumed(batch)
    assert [found.state for found in hook.client.batches.list(queue_name, states=["consumed"])] == ["consumed"]
    assert hook.client.batches.list(queue_name, older_than=timedelta(hours=1)) == []


def test_the_hook_requeues_within_a_transaction(hook: SqlQueueHook, queue_name: str, batch: Batch) -> None:
    batch_id = uuid.UUID(batch.batch_id)

    def undone() -> None:
        with hook.transaction():
            assert hook.client.batches.requeue(batch_id).batch.state == "requeued"
            raise InterruptedError

    with pytest.raises(InterruptedError):
        undone()
    assert (hook.client.batches.get(batch_id).state, hook.depth(queue_name).messages) == ("sealed", 0)
    assert not hook.client.batches.requeue(batch_id, queue_name).repeated
    assert [message.body for message in hook.receive(queue_name, 20)] == [b"%d" % n for n in range(10)]


def test_the_operator_requeues_the_batch_of_a_drain_once(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    hook.send(queue_name, [Message(body=b"x")] * 5)
    staging = ObjectStoragePath(f"file://{tmp_path}/staging")
    drain = SqlQueueDrainToSparkOperator(task_id="drain", queue_name=queue_name, staging=staging)
    drained = drain.execute(context())
    operator = SqlQueueRequeueOperator(task_id="requeue", batch=drained, staging=staging)
    done, again = operator.execute(context()), operator.execute(context())
    assert (done["batch"]["state"], done["repeated"], again["repeated"]) == ("requeued", False, True)
    assert hook.depth(queue_name).messages == 5
    with pytest.raises(AirflowFailException, match="ask for a new batch"):
        drain.execute(context())
    drain.renew = True
    assert drain.execute(context())["batch"]["messages"] == 5


@pytest.mark.parametrize(
    ("given", "sentence"),
    [(None, "batch is None: the drain"), ("{'batch': {}}", "batch is a text"), ([{}], "not list"), ({}, "misses")],
    ids=["of a drain that failed", "of a template", "of mapped drains", "of another task"],
)
@pytest.mark.parametrize("operator", [SqlQueueMarkConsumedOperator, SqlQueueRequeueOperator])
def test_a_value_that_is_no_batch_is_refused_by_one_sentence(
    live: str, context: Any, operator: Any, given: Any, sentence: str
) -> None:
    with pytest.raises(AirflowFailException, match=sentence):
        operator(task_id="task", batch=given).execute(context())


def test_the_operator_sweeps_consumed_batches(
    hook: SqlQueueHook, queue_name: str, batch: Batch, tmp_path: Path, context: Any
) -> None:
    hook.client.batches.mark_consumed(batch)
    staging = ObjectStoragePath(f"file://{tmp_path}/staging")

    def sweep(**arguments: Any) -> dict[str, Any]:
        return SqlQueueSweepOperator(task_id="sweep", staging=staging, **arguments).execute(context())

    assert sweep(sweep_options={"retain": timedelta(hours=1)}, queue_name=queue_name)["files"] == 0
    assert sweep(sweep_options={"retain": timedelta(0)}, only_count=True)["files"] == 1
    assert sweep(sweep_options={"retain": timedelta(0)})["files"] == 1
    assert hook.client.batches.list(queue_name) == []
    with pytest.raises(AirflowFailException, match="retain must be 0s or more"):
        sweep(sweep_options={"retain": timedelta(seconds=-1)})


def test_a_batch_in_a_table_needs_no_folder(hook: SqlQueueHook, queue_name: str, context: Any) -> None:
    hook.send(queue_name, [Message(body=b"x")] * 5)
    operator = SqlQueueDrainToSparkOperator(task_id="drain", queue_name=queue_name, stage="table")
    batch = Batch.from_dict(operator.execute(context())["batch"])
    assert (batch.stage, batch.messages, batch.paths) == ("table", 5, ())
    assert hook.drain(queue_name, stage="table").batch.messages == 0
    hook.client.batches.mark_consumed(batch)
    swept = SqlQueueSweepOperator(task_id="sweep", queue_name=queue_name, sweep_options={"retain": timedelta(0)})
    assert swept.execute(context())["rows"] >= 5
    assert batch.batch_id not in {str(info.batch_id) for info in hook.client.batches.list(queue_name)}
    cleared = operator.execute(context(try_number=2))["batch"]
    assert cleared["batch_id"] != batch.batch_id, "a sink that is keyed by the id has the swept batch"


def test_the_hook_reads_with_its_own_login(
    hook: SqlQueueHook, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests of Spark cover the tasks' use of it."""
    batch = hook.drain(queue_name, stage="table").batch
    given: list[Any] = []
    monkeypatch.setattr("airflow_sqlqueue.spark.read_batch", lambda *args, **kwargs: given.append((args, kwargs)))
    hook.read_batch(spark := object(), batch)  # type: ignore[arg-type]
    settings = hook.queue_connection.settings
    assert given == [((spark, batch, settings), {"headers_map": False})]
    assert settings.password


def test_no_sweep_inside_a_transaction(hook: SqlQueueHook, tmp_path: Path) -> None:
    with pytest.raises(TransactionError, match="outside the transaction"), hook.transaction():
        hook.client.batches.sweep(tmp_path)
