"""Processes that are killed, stopped, or two where one was meant."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect
from tests.faults.account import Account
from tests.faults.conftest import KILLS, LONG, SEED
from tests.faults.faulty import FREEZE, FaultyStage
from tests.faults.processes import REFUSED, SEALED, SMALL_PARTS, Draining

TURNS = [(stage, seed) for seed in range(20) for stage in ("files", "table")] if LONG else [("files", 0), ("table", 1)]


class Start(Protocol):
    """Starts a process that drains the queue of the test."""

    def __call__(self, batch_id: uuid.UUID, locked_wait_seconds: float = 20, stage: Stage = ...) -> Draining: ...


@pytest.fixture
def start(server_url: str, queue: QueueTable, stage: Stage) -> Iterator[Start]:
    """Starts processes that drain the queue, and sees to it that none is left."""
    with ExitStack() as stack:

        def draining(batch_id: uuid.UUID, locked_wait_seconds: float = 20, stage: Stage = stage) -> Draining:
            options = replace(SMALL_PARTS, locked_wait_seconds=locked_wait_seconds)
            return stack.enter_context(closing(Draining(server_url, queue.address, stage, batch_id, options)))

        yield draining


@pytest.mark.timeout(7200)
def test_sigkill_at_random_moments_loses_and_duplicates_nothing(
    start: Start, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    """Batch after batch, the process is killed and resumed with the same batch id until the batch is sealed."""
    chance = random.Random(f"{SEED} drain")
    kills = 0
    while kills < KILLS:
        account, batch_id = Account(connect, queue.address, staging), uuid.uuid4()
        account.send(150, seed=SEED + kills)
        outcome = None
        while outcome is None:
            process = start(batch_id)
            process.started()
            if kills == KILLS or process.ended(within=chance.uniform(0, 0.5)):
                outcome = process.outcome()
            else:
                process.kill()
                kills += 1
            account.check(batch_id)
        assert outcome == SEALED
        assert account.queued() == 0


@pytest.mark.parametrize(("stage", "seed"), TURNS, indirect=["stage"])
def test_two_tasks_with_the_same_batch_id_share_the_batch(
    start: Start, account: Account, batch_id: uuid.UUID, seed: int
) -> None:
    """They share the batch. The first one at its end seals it; a part of the other one is undone."""
    account.send(150, seed=seed)
    tasks = [start(batch_id), start(batch_id)]
    outcomes = [task.outcome() for task in tasks]
    assert SEALED in outcomes
    assert set(outcomes) <= {SEALED, REFUSED}
    account.check(batch_id)


@pytest.mark.parametrize(("stage", "seed"), TURNS, indirect=["stage"])
def test_a_process_paused_while_another_seals_adds_nothing(
    start: Start, account: Account, batch_id: uuid.UUID, stage: Stage, tmp_path: Path, seed: int
) -> None:
    """A zombie, like a frozen virtual machine: its later commits are undone or were listed."""
    account.send(150, seed=seed)
    zombie = start(batch_id, stage=FaultyStage(stage, tmp_path / "stood still", FREEZE, nth=1 + seed))
    with zombie.standing_still():
        assert start(batch_id, locked_wait_seconds=0).outcome() == SEALED
    assert zombie.outcome() in {SEALED, REFUSED}
    account.check(batch_id)
