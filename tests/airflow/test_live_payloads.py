"""Payloads of the data bus in tasks, on a server: ``execute``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import DataBusUnreachableError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueConsumeOperator, SqlQueueDrainOperator
from tests.payloads import KEY, SECRET, as_json, names, new_key, put


@pytest.fixture
def share(tmp_path: Path) -> Path:
    put(tmp_path / "share", "other\\payload", b"1")
    return tmp_path / "share"


@pytest.fixture
def error_queue(hook: SqlQueueHook, queue_name: str) -> Iterator[str]:
    name = f"{queue_name}.error"
    hook.create_queue(name)
    yield name
    hook.client.tables.drop(name, force=True)


def contents(messages: Any, batch: Batch, hook: SqlQueueHook) -> list[Any]:
    """Reasons for missing payloads, and the lengths of the others."""
    assert list(messages)
    return [row.reason or len(row.content or b"") for row in hook.client.batches.payloads(batch)]


def drain_task(queue_name: str, staging: Any, **arguments: Any) -> SqlQueueDrainOperator:
    return SqlQueueDrainOperator(
        task_id="task", queue_name=queue_name, staging=str(staging), python_callable=contents, **arguments
    )


def test_a_drain_fetches_payloads_before_its_job(
    hook: SqlQueueHook, queue_name: str, share: Path, tmp_path: Path, context: Any, caplog: Any, capsys: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = as_json(SECRET.encode())
    key = put(share, new_key(), secret)
    large = put(share, new_key(), b"x" * 1001)
    hook.send(queue_name, [Message(names(Picture=key, Contract=KEY)), Message(names(Picture=large)), Message({})])
    task = drain_task(queue_name, tmp_path / "s", data_bus=str(share), payload_options={"payload_bytes": 1000})
    done = task.execute(context())
    assert done["result"] == [len(secret), "gone", "too_large"]
    counts = {name: done["payloads"][name] for name in ("fetched", "gone", "too_large", "refused")}
    assert counts == {"fetched": 1, "gone": 1, "too_large": 1, "refused": 0}
    assert done["batch"]["state"] == "consumed"
    log = caplog.text + capsys.readouterr().out + json.dumps(done)
    assert "2 of 3 payloads of batch" in log
    for hidden in (SECRET, *(each.rpartition("\\")[2] for each in (key, KEY, large))):
        assert hidden not in log


def test_a_retry_fetches_what_an_unreachable_data_bus_has_not_given(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    share = tmp_path / "share"
    hook.send(queue_name, [Message(names(Picture=KEY))])
    task = drain_task(queue_name, tmp_path / "s", data_bus=str(share))
    with pytest.raises(DataBusUnreachableError, match="its share is mounted"):
        task.execute(context())
    assert hook.depth(queue_name).messages == 0
    put(share, KEY, b"12")
    done = drain_task(queue_name, tmp_path / "s", data_bus=str(share)).execute(context())
    assert (done["result"], done["batch"]["messages"]) == ([2], 1)


def test_a_task_that_is_ended_fetches_no_further_payload(
    hook: SqlQueueHook, queue_name: str, share: Path, tmp_path: Path, context: Any, monkeypatch: Any
) -> None:
    hook.send(queue_name, [Message(names(Picture=put(share, new_key(), b"1")))] * 3)
    task = drain_task(queue_name, tmp_path / "s", data_bus=str(share), payload_options={"workers": 1})
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

    fetch, fetched = DataBus.fetch, []

    def fetch_and_end(self: DataBus, *arguments: Any, **options: Any) -> bytes:
        fetched.append(1)
        task.on_kill()
        return fetch(self, *arguments, **options)

    monkeypatch.setattr(DataBus, "fetch", fetch_and_end)
    with pytest.raises(AirflowException, match="Airflow ended the task"):
        task.execute(context())
    assert len(fetched) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"data_bus": "http://host/databus"},
        {"data_bus": "/share", "payload_options": {"payload_bytes": 0}},
        {"data_bus": "/share", "staging": None, "stage": "table"},
    ],
)
def test_unusable_options_fail_the_task_before_the_drain(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, arguments: dict[str, Any]
) -> None:
    hook.send(queue_name, [Message({})])
    given = {"staging": str(tmp_path), "task_id": "task", "queue_name": queue_name, **arguments}
    with pytest.raises(AirflowFailException):
        SqlQueueDrainOperator(**given).execute(context())
    assert hook.depth(queue_name).messages == 1


def test_a_handler_of_a_task_fetches_payloads(
    hook: SqlQueueHook, queue_name: str, error_queue: str, share: Path, context: Any
) -> None:
    key = put(share, new_key(), as_json(b"123"))
    hook.send(queue_name, [Message(names(Picture=key)), Message(names(Picture=KEY))])
    seen: list[bytes] = []
    done = SqlQueueConsumeOperator(
        task_id="t",
        queue_name=queue_name,
        python_callable=lambda message: seen.append(message.payload("Picture").data()),
        data_bus=str(share),
        consume_options={"error_queue": error_queue, "payload_bytes": 1000, "max_handlers": 1},
    ).execute(context(task_id="t"))
    assert (seen, done["handled"], done["failed"], done["rolled_back"]) == ([b"123"], 1, 1, 1)


def test_the_data_bus_is_templated() -> None:
    assert {"data_bus", "payload_options"} <= set(SqlQueueDrainOperator.template_fields)
    assert "data_bus" in SqlQueueConsumeOperator.template_fields
