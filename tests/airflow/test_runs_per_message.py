"""The example that starts a run for each message, or for a number of them, by Airflow's partition keys."""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.versions.airflow import PARTITION_KEYS
from tests.airflow.versions import needs

EXAMPLES = Path(__file__).parents[2] / "example_dags"

pytestmark = [pytest.mark.airflow, needs(PARTITION_KEYS)]

Example = Callable[[int], Any]


@pytest.fixture
def example(live: str, metadata_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Loads the module for a queue of the test's own and a size of groups."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("SQLQUEUE_QUEUE", f"test.{uuid.uuid4().hex[:12]}")

    def load(group_size: int) -> Any:
        monkeypatch.setenv("SQLQUEUE_GROUP_SIZE", str(group_size))
        return importlib.import_module("run_per_message")

    yield load
    sys.modules.pop("run_per_message", None)


def keys_of(asset: str) -> list[str]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    events = select(AssetEvent.partition_key).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
    with create_session() as session:
        return sorted(str(key) for key in session.scalars(events.where(AssetModel.name == asset)))


@pytest.mark.parametrize(("group_size", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1])])
def test_a_key_has_its_messages_alone(example: Example, live: str, group_size: int, sizes: list[int]) -> None:
    module = example(group_size)
    hook = SqlQueueHook(live)
    hook.create_queue(module.QUEUE)
    queue = hook.queue(module.QUEUE)
    queue.send(Message({HeaderNames.MESSAGE_ID: f"id-{number}"}) for number in range(5))
    assert module.dag.test().state == "success"
    assert queue.depth().messages == 5, "the first DAG removes no message"
    keys = keys_of(module.found.name)
    assert len(keys) == len(sizes)

    # Another receiver has taken one meanwhile.
    queue.receive()
    handled = [module.handle_messages.function(SimpleNamespace(partition_key=key)) for key in keys]
    assert sorted(name for names in handled for name in names) == [f"id-{number}" for number in range(1, 5)]
    assert max(map(len, handled)) == max(sizes)
    assert queue.depth().messages == 0
    again = module.handle_messages.function(SimpleNamespace(partition_key=keys[0]))
    assert again == [], "a key that comes twice finds no message"


def test_the_second_dag_has_a_run_for_each_key(example: Example) -> None:
    from airflow.sdk import PartitionedAssetTimetable

    module = example(1)
    assert isinstance(module.handling.timetable, PartitionedAssetTimetable)
    assert module.handling.timetable.asset_condition == module.found
