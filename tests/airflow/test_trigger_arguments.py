"""Arguments of the triggers on their way through Airflow's database to the triggerer, and wrong ones at its end."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing, nullcontext
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.executors import workloads
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.models.trigger import Trigger
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger

from airflow_sqlqueue.errors import AddressError, SqlQueueError
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.triggers import (
    SqlQueueDepthEventTrigger,
    SqlQueueDepthTrigger,
    SqlQueueMessageEventTrigger,
    SqlQueueReplyTrigger,
    SqlQueueStrandedBatchTrigger,
    base,
)
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from tests.airflow.tasks import run_coroutine
from tests.airflow.versions import DagSerialization, encode_trigger, needs

msg_queue = pytest.importorskip("airflow.providers.common.messaging.triggers.msg_queue")

SINCE = datetime(2026, 1, 31, 8, 0, tzinfo=timezone(timedelta(hours=2)))
HOOK_PARAMS = {
    "queue_schemas": {"b": "x", "a": "y", "__type": "dict", "Encoding.VAR": "set"},
    "allowed_catalogs": {"two", "one"},
    "allowed_schemas": ("b", "a"),
    "lock_timeout": 5,
    "log_sql": False,
    "default_schema": None,
}
WAITS: list[Any] = [
    None,
    {},
    {"min_messages": 1},
    {"min_messages": "1000", "oldest_seconds": 3600.5, "min_expired": 2, "kind": "exact"},
    {"min_delayed": 3, "kind": "quick"},
    {"min_messages": 2, "incremental": "archive"},
    {"filters": {"headers": {"Shop.List": "a", "__var": None, "\u00e9\u2603 \"'{}": "\U0001f600"}}},
    {"filters": {"message_type": "Shop.OrderPlaced", "since": SINCE, "until": "2026-12-31T00:00:00Z"}},
    {"filters": MessageFilter(endpoint="Sales", since=SINCE), "max_messages": 0},
]
message_trigger = pytest.param(
    SqlQueueMessageEventTrigger,
    {"message_types": ("b", "a"), "headers": {"h", "g"}, "error_queue": "e", "max_held": 7, "poll_interval": 2},
    marks=needs(SHARED_STREAMS),
)
CASES = [
    *((SqlQueueDepthTrigger, {"wait_for": each, "poll_interval": "2.5"}) for each in WAITS),
    *((SqlQueueDepthEventTrigger, {"wait_for": each, "repeat_interval": 7}) for each in WAITS[:-1]),
    message_trigger,
    (SqlQueueReplyTrigger, {"correlation_id": '["c"]'}),
    (SqlQueueReplyTrigger, {"correlation_id": "17"}),
    (SqlQueueStrandedBatchTrigger, {"states": ("sealed", "open"), "older_than": 60}),
]
NAMES = [{"queue_name": "orders@[dbo]"}, {"queue_name": "17"}, {"endpoint": "Sales"}]


def stored(trigger: Any) -> Trigger:
    """The row of a deferred task."""
    return Trigger.from_object(trigger)


def watched(trigger: Any) -> Trigger:
    """The row of a watcher, from a DAG in its serialized form."""
    with DAG("watching", schedule=[Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])]) as dag:
        pass
    dag = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    ((_, asset),) = dag.timetable.asset_condition.iter_assets()
    encoded = encode_trigger(asset.watchers[0].trigger)
    row = Trigger(classpath=encoded["classpath"], kwargs=encoded["kwargs"])
    # Airflow compares them at each parse of the DAG, and replaces a trigger that differs.
    assert BaseEventTrigger.hash(row.classpath, row.kwargs) == BaseEventTrigger.hash(
        encoded["classpath"], encoded["kwargs"]
    )
    return row


def made_from(row: Trigger) -> Any:
    """The trigger that Airflow's triggerer makes of a row, or None where it notes that it cannot."""
    runner = TriggerRunner()
    made: list[Any] = []

    async def run_trigger(number: int, trigger: Any, *_: Any, **__: Any) -> None:
        made.append(trigger)

    runner.run_trigger = run_trigger
    fields = {"id": 1, "ti": None, "classpath": row.classpath, "encrypted_kwargs": row.encrypted_kwargs}
    defaults = {"timeout_after": None, "dag_data": None, "dag_run_data": None, "watched_assets": None}
    runner.to_create.append(workloads.RunTrigger.model_construct(**defaults, **fields))

    async def create() -> None:
        await runner.create_triggers()
        await asyncio.sleep(0)

    run_coroutine(create)
    assert len(made) + len(runner.failed_triggers) == 1
    return made[0] if made else None


def again(trigger: Any) -> Any:
    """The trigger from its own arguments; times are then those of UTC."""
    return type(trigger)(**trigger.serialize()[1])


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize(("cls", "options"), CASES)
def test_arguments_reach_the_triggerer_as_they_were(cls: Any, options: dict[str, Any], names: dict[str, str]) -> None:
    if cls is SqlQueueStrandedBatchTrigger:
        names = {"queue_name": "orders"}
    trigger = cls(hook_params=HOOK_PARAMS, sqlqueue_conn_id="17", **names, **options)
    rows = [stored(trigger)]
    if issubclass(cls, BaseEventTrigger):
        rows.append(watched(trigger))
    for row in rows:
        made = made_from(row)
        made.check()
        assert again(made).serialize() == again(trigger).serialize()
        assert made.hook_params == {**HOOK_PARAMS, "allowed_catalogs": ["one", "two"], "allowed_schemas": ["b", "a"]}
        for name in ("queue_name", "endpoint", "sqlqueue_conn_id", "correlation_id", "error_queue", "max_held"):
            assert getattr(made, name, None) == getattr(trigger, name, None)
        for name in ("message_types", "headers", "states", "poll_interval", "repeat_interval", "older_than"):
            assert getattr(made, name, None) == getattr(trigger, name, None)
        if "wait_for" in options:
            assert again(made).condition == again(trigger).condition


def test_a_watcher_of_common_messaging_reaches_the_triggerer() -> None:
    arguments = {"scheme": "mssql+queue", "queue_name": "orders", "wait_for": {"min_messages": 1}}
    made = made_from(watched(msg_queue.MessageQueueTrigger(**arguments)))
    assert isinstance(made, SqlQueueDepthEventTrigger)
    assert made.condition.min_messages == 1


HOSTILE: list[Any] = [
    None,
    "",
    "x",
    "{",
    "[" * 5_000,
    "{{ x }}",
    -1,
    0,
    1e300,
    True,
    [],
    [1],
    ["x", None],
    {},
    {"min_messages": -1},
    {"Encoding.VAR": {"min_messages": 1}, "Encoding.TYPE": "dict"},
    {"filters": {"since": "never"}},
]
ARGUMENTS: dict[Any, list[str]] = {
    SqlQueueDepthTrigger: ["wait_for", "poll_interval", "hook_params", "queue_name", "endpoint", "sqlqueue_conn_id"],
    SqlQueueDepthEventTrigger: ["wait_for", "poll_interval", "repeat_interval", "hook_params", "queue_name"],
    SqlQueueMessageEventTrigger: ["message_types", "headers", "error_queue", "max_held", "poll_interval", "endpoint"],
    SqlQueueReplyTrigger: ["correlation_id", "poll_interval", "hook_params", "queue_name"],
    SqlQueueStrandedBatchTrigger: ["states", "older_than", "queue_name", "poll_interval", "hook_params"],
}


@pytest.mark.parametrize(("cls", "argument"), [(cls, name) for cls, names in ARGUMENTS.items() for name in names])
def test_a_wrong_argument_in_the_database_fails_no_triggerer(cls: Any, argument: str) -> None:
    for value in HOSTILE:
        needed = {"queue_name": "q", **({"correlation_id": "c"} if cls is SqlQueueReplyTrigger else {})}
        row = Trigger(classpath=f"{cls.__module__}.{cls.__name__}", kwargs={**needed, argument: value})
        assert isinstance(made_from(row), cls)


@needs(SHARED_STREAMS)
@pytest.mark.parametrize("error_queue", [None, "", "@[dbo]", ["error"]])
def test_an_error_queue_without_a_name_fails_where_the_dag_is_parsed(error_queue: Any) -> None:
    with pytest.raises(AddressError, match="The queue address"):
        SqlQueueMessageEventTrigger(queue_name="q", error_queue=error_queue)


WRONG: list[tuple[Any, dict[str, Any]]] = [
    (SqlQueueDepthTrigger, {"wait_for": {"min_messages": 0}}),
    (SqlQueueDepthTrigger, {"wait_for": {"Encoding.VAR": {}}}),
    (SqlQueueDepthTrigger, {"wait_for": "soon"}),
    (SqlQueueDepthTrigger, {"endpoint": "Sales"}),
    (SqlQueueDepthTrigger, {"queue_name": ["q"]}),
    (SqlQueueDepthTrigger, {"queue_name": " "}),
    (SqlQueueDepthEventTrigger, {"queue_name": None, "endpoint": ""}),
    (SqlQueueDepthEventTrigger, {"queue_name": None, "endpoint": 5}),
    (SqlQueueDepthTrigger, {"poll_interval": "nan"}),
    (SqlQueueDepthTrigger, {"poll_interval": float("inf")}),
    (SqlQueueDepthTrigger, {"hook_params": "x"}),
    (SqlQueueDepthTrigger, {"hook_params": {"lock_timout": 3}}),
    (SqlQueueDepthEventTrigger, {"hook_params": {"sqlqueue_conn_id": "x"}}),
    (SqlQueueReplyTrigger, {"correlation_id": "c", "poll_interval": -1}),
    (SqlQueueReplyTrigger, {"correlation_id": uuid.UUID(int=5)}),
    (SqlQueueStrandedBatchTrigger, {"older_than": "1e300"}),
    (SqlQueueStrandedBatchTrigger, {"states": "open"}),
    (SqlQueueStrandedBatchTrigger, {"states": []}),
    (SqlQueueStrandedBatchTrigger, {"states": ["open", "consumed"]}),
    (SqlQueueDepthEventTrigger, {"wait_for": {"max_messages": 0}}),
    (SqlQueueDepthEventTrigger, {"repeat_interval": 0}),
    (SqlQueueDepthEventTrigger, {"repeat_interval": None}),
    (SqlQueueDepthEventTrigger, {"endpoint": "Sales"}),
]


@pytest.mark.parametrize(("cls", "wrong"), WRONG)
def test_a_wrong_argument_fails_where_the_dag_is_parsed_and_else_the_one_trigger(
    cls: Any, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"queue_name": "q", **wrong}
    with pytest.raises(SqlQueueError) as refused:
        cls(**given)

    async def made_in_an_event_loop() -> Any:
        trigger = cls(**given)
        with pytest.raises(SqlQueueError):
            trigger.serialize()
        return trigger

    trigger = run_coroutine(made_in_an_event_loop)
    said: list[str] = []

    async def failed(self: Any, error: Exception) -> None:
        said.append(str(error))
        raise asyncio.CancelledError

    monkeypatch.setattr(base.Attempts, "failed", failed)

    async def run() -> None:
        async with aclosing(trigger.run()) as events:
            said.append((await anext(events)).payload["message"])

    with pytest.raises(asyncio.CancelledError) if isinstance(trigger, BaseEventTrigger) else nullcontext():
        run_coroutine(run)
    assert said == [str(refused.value)]
