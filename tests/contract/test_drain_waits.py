"""Waits of a drain for locked messages, and interruptions during them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain import worker
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import Connect

SALES = {HeaderNames.ORIGINATING_ENDPOINT: "Sales"}


@pytest.mark.parametrize(
    "options", [{}, {"where": MessageFilter(endpoint="Sales")}, {"copy": True}], ids=["all", "filtered", "copied"]
)
def test_no_statement_waits_long_for_others(
    connect: Connect, queue: QueueTable, tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes just before a statement is seen when that ends, and the drain may wait for minutes."""
    assert worker.LONGEST_WAIT == 1
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.1)
    queue.send([Message(SALES, b"%d" % number) for number in range(3)])
    waits: list[float] = []
    with connect() as other:
        other.begin()
        assert len(QueueTable(other, queue.address).receive(1)) == 1

        class Watched(Session):
            def lock_timeout(self, seconds: float) -> AbstractContextManager[None]:
                waits.append(seconds)
                if len(waits) > 2:
                    other.roll_back()
                return super().lock_timeout(seconds)

        staging = StagingFolder.of(tmp_path / "staging")
        settings = DrainOptions(locked_wait_seconds=300)
        request = DrainRequest(options=settings, **options)
        done = Drain(lambda: Watched(queue.session.settings), queue.address, staging, request).run()
    assert (done.batch.messages, done.locked) == (3, 0)
    assert 0 < max(waits) <= 0.1


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 7),
        ({"where": MessageFilter(endpoint="Sales")}, 7),
        ({"where": MessageFilter(endpoint="Sales")}, 2_000),
        ({"copy": True}, 7),
    ],
    ids=["all", "filtered", "looked for", "copied"],
)
def test_a_part_gathers_no_longer_than_it_may(
    connect: Connect,
    queue: QueueTable,
    tmp_path: Path,
    options: dict[str, Any],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time that is over at once leaves one statement to each part: nothing else bounds these."""
    monkeypatch.setattr(browsing, "STRETCH", 7)
    for seconds, parts in ((1e-9, 3), (3_600.0, 1)):
        purge(queue, PurgeOptions(all_messages=True, confirm=True))
        queue.send([Message(SALES, b"%d" % number) for number in range(21)])
        settings = DrainOptions(rows_per_statement=rows, seconds_per_part=seconds, locked_wait_seconds=0)
        staging = StagingFolder.of(tmp_path / f"staging {seconds}")
        done = Drain(connect, queue.address, staging, DrainRequest(options=settings, **options)).run()
        assert (done.batch.messages, done.batch.parts) == (21, parts)
