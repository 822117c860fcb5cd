"""Metrics that reach a statsd server by Airflow's own backend: each count once, bounded tags, none if they are off."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainOperator,
    SqlQueueForwardOperator,
    SqlQueuePublishOperator,
    SqlQueuePurgeOperator,
    SqlQueueRequeueOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSendOperator,
    metrics,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor
from airflow_sqlqueue.spark.jobs.message_tables import result_of
from airflow_sqlqueue.spark.message_tables import MessageTypeTable
from tests.airflow.versions import send_metrics_to

OPERATING = Path(__file__).parents[2] / "docs" / "guides" / "operating.md"


@pytest.fixture
def tags(queue_name: str) -> str:
    return f"conn_id=sqlqueue_default,queue=sqlqueue.dbo.{queue_name}"


@pytest.fixture
def more(hook: SqlQueueHook) -> Any:
    """Makes another queue, dropped afterwards."""
    names: list[str] = []

    def make() -> str:
        names.append(f"test.{uuid.uuid4().hex[:12]}")
        hook.create_queue(names[-1])
        return names[-1]

    yield make
    for name in names:
        hook.client.tables.drop(name, force=True)


def test_sent_forwarded_and_purged_messages_are_counted(
    hook: SqlQueueHook, queue_name: str, tags: str, more: Callable[[], str], context: Any, statsd: Any
) -> None:
    send = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{"body": n} for n in range(5)])
    send.execute(context())
    assert statsd.named("send.messages") == {tags: 5}
    SqlQueueDepthSensor(task_id="t", queue_name=queue_name).poke(context())
    assert statsd.named("backlog.messages") == {tags: 5}
    assert 0 <= statsd.named("backlog.oldest_seconds")[tags] < 3600
    target = more()
    SqlQueueForwardOperator(task_id="t", queue_name=queue_name, to_queue=target, max_messages=2).execute(context())
    assert statsd.named("forward.messages") == {tags: 2}
    options = {"task_id": "t", "queue_name": queue_name, "all_messages": True}
    SqlQueuePurgeOperator(**options, only_count=True).execute(context())
    assert statsd.named("purge.messages") == {}
    SqlQueuePurgeOperator(**options, confirm=True).execute(context())
    assert statsd.named("purge.messages") == {tags: 3}
    assert statsd.named("backlog.messages") == {tags: 0}


def test_events_and_their_copies_are_counted(
    hook: SqlQueueHook, queue_name: str, more: Callable[[], str], context: Any, statsd: Any
) -> None:
    topic = f"Metrics.{queue_name}"
    for name in (queue_name, more()):
        hook.create_queue(name, subscriptions=True)
        hook.client.subscriptions.subscribe(name, [topic])
    SqlQueuePublishOperator(task_id="t", message_type=topic, messages=[{}] * 3).execute(context())
    assert list(statsd.named("publish.messages").values()) == [3]
    assert list(statsd.named("publish.copies").values()) == [6]


def test_a_send_that_is_repeated_is_counted_once(queue_name: str, tags: str, context: Any, statsd: Any) -> None:
    send = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{"body": 1}], exactly_once=True)
    assert send.execute(context()) == send.execute(context()) == 1
    assert statsd.named("send.messages") == {tags: 1}


def test_returned_and_requeued_messages_are_counted(
    hook: SqlQueueHook, queue_name: str, tags: str, more: Callable[[], str], context: Any, statsd: Any, tmp_path: Path
) -> None:
    errors = more()
    failed = {HeaderNames.FAILED_Q: hook.client.resolve(queue_name).canonical}
    hook.send(errors, [Message(failed, b"x")] * 3)
    SqlQueueReturnToSourceOperator(task_id="t", queue_name=errors, all_messages=True).execute(context())
    assert statsd.named("return.messages") == {tags.replace(queue_name, errors): 3}
    batch = hook.drain(queue_name, tmp_path).batch
    requeue = SqlQueueRequeueOperator(task_id="t", batch=batch.to_dict())
    requeue.execute(context())
    requeue.execute(context())
    assert statsd.named("requeue.messages") == {tags: 3}


def test_messages_of_tables_are_counted(
    hook: SqlQueueHook, queue_name: str, tags: str, context: Any, statsd: Any, tmp_path: Path
) -> None:
    tables = [
        MessageTypeTable("Shop.A", "lake/Shop.A", False, 7, rescued=2),
        MessageTypeTable("Shop.A", "lake/Shop.A~unparsed", True, 3, reasons={"json": 3}),
    ]
    results: list[dict[str, Any]] = [{"messages": 5, "rescued": "no", "tables": 1}, result_of(tables)]
    for result in results:

        def job(messages: Any, result: dict[str, Any] = result) -> dict[str, Any]:
            return result

        hook.send(queue_name, [Message({}, b"{}")])
        drain = SqlQueueDrainOperator(
            task_id="t", queue_name=queue_name, staging=str(tmp_path), renew=True, python_callable=job
        )
        drain.execute(context())
    assert statsd.named("tables.messages") == {tags: 10}
    assert statsd.named("tables.rescued") == {tags: 2}
    assert statsd.named("tables.unparsed") == {tags: 3}


def test_metrics_that_are_off_read_nothing(
    queue_name: str, context: Any, statsd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "False")
    sensor = SqlQueueDepthSensor(task_id="t", queue_name=queue_name)
    noted = metrics.Metrics(sensor, sensor.sql_queue)
    noted.depth()
    noted.count("send.messages", 1)
    sensor.poke(context())
    assert noted._queue is None
    assert statsd.read().lines == []


def test_a_queue_that_is_gone_fails_no_task_for_its_metrics(live: str, statsd: Any) -> None:
    sensor = SqlQueueDepthSensor(task_id="t", queue_name="test.gone")
    metrics.Metrics(sensor, sensor.sql_queue).depth()
    assert statsd.read().lines == []


class Broken:
    """Statistics backend of somebody's own."""

    def incr(self, *arguments: Any, **options: Any) -> None:
        raise RuntimeError("secret")


@pytest.mark.parametrize("is_missing", [False, True])
def test_metrics_that_fail_fail_no_task(
    hook: SqlQueueHook,
    queue_name: str,
    context: Any,
    statsd: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_missing: bool,
) -> None:
    """The messages are sent by then: a retry would send them again."""
    if is_missing:
        monkeypatch.setattr(metrics, "TaskStats", None)
    else:
        send_metrics_to(Broken)
    send = SqlQueueSendOperator(task_id="t", queue_name=queue_name, messages=[{"body": 1}])
    assert send.execute(context()) == 1
    assert hook.depth(queue_name).messages == 1
    assert caplog.text.count("No metrics are sent from here on") == 1
    assert "secret" not in caplog.text
    noted = metrics.Metrics(send, send.sql_queue)
    for _ in range(3):
        noted.count("send.messages", 1)
    assert caplog.text.count("No metrics are sent from here on") == 2


def test_names_and_values_fit_every_backend(live: str, statsd: Any) -> None:
    for name in metrics.COUNTERS | metrics.GAUGES | metrics.TIMERS:
        assert re.fullmatch(r"[a-z_.]+", name)
    odd = SqlQueueDepthSensor(task_id="t", queue_name=f"a,b=c:{'d' * 100}@[my schema]")
    noted = metrics.Metrics(odd, odd.sql_queue)
    noted.count("send.messages", 1)
    ((tags, _),) = statsd.named("send.messages").items()
    assert re.fullmatch(r"conn_id=[\w.-]+,queue=[\w.-]{,120}", tags)


def test_the_guide_lists_each_metric() -> None:
    text = OPERATING.read_text("utf-8")
    listed = set(re.findall(r"`sqlqueue\.([a-z_.]+)`", text))
    assert listed == metrics.COUNTERS | metrics.GAUGES | metrics.TIMERS
