"""Batches through the hook and the operators, on a server, over ODBC."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import Message


@pytest.fixture
def hook(live: str) -> SqlQueueHook:
    return SqlQueueHook(live)


@pytest.fixture
def batch(hook: SqlQueueHook, queue_name: str, tmp_path: Path) -> Batch:
    """A sealed batch of ten messages."""
    hook.send(queue_name, [Message({"n": f"{n}"}, b"%d" % n) for n in range(10)])
    return hook.drain(queue_name, tmp_path / "staging", origin="test").batch


def test_the_hook_lists_batches(hook: SqlQueueHook, queue_name: str, batch: Batch) -> None:
    (info,) = hook.batches(queue_name)
    assert (str(info.batch_id), info.state, info.messages) == (batch.batch_id, "sealed", 10)
    assert info.batch_id in {found.batch_id for found in hook.batches(states=["sealed"])}
    hook.mark_consumed(batch)
    assert [found.state for found in hook.batches(queue_name, states=["consumed"])] == ["consumed"]
    assert hook.batches(queue_name, older_than=timedelta(hours=1)) == []
