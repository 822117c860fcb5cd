"""Processes that are killed while they fetch the payloads of a batch: a reader finds all of them, or none."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.databus import batch_payloads
from airflow_sqlqueue.endpoint.databus.batch_payloads import fetch_payloads, staged_payloads
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.errors import BatchError
from tests.forks import fork
from tests.payloads import KEY, names, new_key, put, staged

PAYLOADS = 6


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(number: int, call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that dies after its ``number``-th call."""
    calls = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        result = call(*arguments, **options)
        if calls == number:
            die()
        return result

    return counted


STEPS: dict[str, Callable[[], dict[Any, tuple[str, Any]]]] = {
    "before the first payload": lambda: {batch_payloads._Fetch: ("_settle", die)},
    "with one payload": lambda: {batch_payloads._Writer: ("add", after(1, batch_payloads._Writer.add))},
    "with half of them": lambda: {batch_payloads._Writer: ("add", after(3, batch_payloads._Writer.add))},
    "before the file is durable": lambda: {batch_payloads.DurableFile: ("close", die)},
    "before the manifest is written": lambda: {batch_payloads: ("replace_file", die)},
    "before the manifest is renamed": lambda: {os: ("replace", die)},
    "after the manifest is renamed": lambda: {os: ("replace", after(1, os.replace))},
}
COMPLETE = {"after the manifest is renamed"}


def fetch_and_die(step: str, batch: Batch, parts: list[Part], share: str, staging: str) -> None:
    for owner, (name, does) in STEPS[step]().items():
        setattr(owner, name, does)
    batch_payloads._GROUP_ROWS = 1
    fetch_payloads(batch, parts, DataBus(share), StagingFolder.of(staging))


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_fetch_lists_all_payloads_or_none(staging: StagingFolder, tmp_path: Path, step: str) -> None:
    share = tmp_path / "share"
    contents = [b"%d" % number for number in range(PAYLOADS)]
    keys = [put(share, new_key(), content) for content in contents]
    batch, parts = staged(staging, [*(names(Picture=key) for key in keys), names(Picture=KEY)])
    process = fork(fetch_and_die, step, batch, parts, str(share), staging.root)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    if step in COMPLETE:
        assert [row.content for row in staged_payloads(batch)] == [*contents, None]
    else:
        with pytest.raises(BatchError, match="were not fetched"):
            list(staged_payloads(batch))
    result = fetch_payloads(batch, parts, DataBus(share), staging)
    assert (result.fetched, result.gone) == (PAYLOADS, 1)
    assert [row.content for row in staged_payloads(batch)] == [*contents, None]
