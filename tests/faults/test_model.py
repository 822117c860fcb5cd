"""The protocol of a drain as a state space; the test visits every interleaving (docs/design.md, "A part is one
transaction", "The seal" and "The batch is what the ledger lists").

Two tries of one task share a batch. Each has a worker, which may stall at any step for as long as it likes, or die, and
a driver, which seals and lists when its own worker is at rest and READPAST shows it no row. Either try may be a zombie:
it goes on, whatever the other one has done meanwhile.

The protocol is right if, in every state in which nothing can happen any more, each row is in the queue or in one file
that the list of every driver has, and nowhere twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

ROWS = frozenset({1, 2, 3})
PARTS_OF_A_WORKER = 2

IDLE, HOLDING, WRITTEN, CHECKED, SENT, DEAD = "idle", "holding", "written", "checked", "sent", "dead"
WORKING, SEALED, LISTED = "working", "sealed", "listed"


@dataclass(frozen=True)
class Worker:
    """A worker and its transaction. Its rows are deleted, and the delete is not yet committed."""

    step: str = IDLE
    holds: frozenset[int] = frozenset()
    parts_left: int = PARTS_OF_A_WORKER


@dataclass(frozen=True)
class Driver:
    """A driver, and the files that it has listed."""

    step: str = WORKING
    files: frozenset[frozenset[int]] = frozenset()


@dataclass(frozen=True)
class State:
    """``queue`` are the rows that no committed transaction has deleted; a file is the rows that are in it."""

    queue: frozenset[int] = ROWS
    ledger: frozenset[frozenset[int]] = frozenset()
    removed: frozenset[frozenset[int]] = frozenset()
    is_open: bool = True
    workers: tuple[Worker, ...] = (Worker(), Worker())
    drivers: tuple[Driver, ...] = (Driver(), Driver())

    @property
    def free(self) -> list[int]:
        """Rows that READPAST returns, in order."""
        return sorted(self.queue.difference(*(worker.holds for worker in self.workers)))

    def with_worker(self, n: int, worker: Worker) -> State:
        return replace(self, workers=tuple(worker if k == n else other for k, other in enumerate(self.workers)))

    def with_driver(self, n: int, driver: Driver) -> State:
        return replace(self, drivers=tuple(driver if k == n else other for k, other in enumerate(self.drivers)))


@dataclass(frozen=True)
class Protocol:
    """The rules; without any one of them rows are lost.

    :param seal: the driver closes the batch to further parts before it lists them.
    :param lock: the state of the batch is read in the round trip that commits, under a lock that is held to its end.
    :param keep: a worker whose COMMIT got no answer leaves its file alone.
    """

    seal: bool = True
    lock: bool = True
    keep: bool = True


def steps(state: State, protocol: Protocol) -> Iterator[State]:
    """Every state that may come next."""
    for n, worker in enumerate(state.workers):
        yield from _worker_steps(state, n, worker, protocol)
    for n, driver in enumerate(state.drivers):
        yield from _driver_steps(state, n, driver, protocol)


def _worker_steps(state: State, n: int, worker: Worker, protocol: Protocol) -> Iterator[State]:
    undone = Worker(IDLE, parts_left=worker.parts_left - 1)
    if worker.step == DEAD:
        return
    if worker.step != SENT:
        # The server rolls back what a dead client held.
        yield state.with_worker(n, Worker(DEAD))
    if worker.step == IDLE and worker.parts_left:
        for count in range(1, min(len(state.free), 2) + 1):
            yield state.with_worker(n, replace(worker, step=HOLDING, holds=frozenset(state.free[:count])))
    elif worker.step == HOLDING:
        yield state.with_worker(n, replace(worker, step=WRITTEN))
        yield state.with_worker(n, undone)
    elif worker.step == WRITTEN and protocol.lock:
        yield state.with_worker(n, replace(worker, step=SENT))
    elif worker.step == WRITTEN:
        yield state.with_worker(n, replace(worker, step=CHECKED) if state.is_open else undone)
    elif worker.step == CHECKED:
        yield state.with_worker(n, replace(worker, step=SENT))
    elif worker.step == SENT:
        yield from _at_the_server(state, n, worker, undone, protocol)


def _at_the_server(state: State, n: int, worker: Worker, undone: Worker, protocol: Protocol) -> Iterator[State]:
    """The last round trip: it takes effect or not, and its sender gets the answer or dies before."""
    ends = (undone, Worker(DEAD))
    yield from (state.with_worker(n, end) for end in ends)
    if protocol.lock and not state.is_open:
        return
    committed = replace(state, queue=state.queue - worker.holds, ledger=state.ledger | {worker.holds})
    yield from (committed.with_worker(n, end) for end in ends)
    if not protocol.keep:
        yield replace(committed, removed=committed.removed | {worker.holds}).with_worker(n, undone)


def _driver_steps(state: State, n: int, driver: Driver, protocol: Protocol) -> Iterator[State]:
    worker = state.workers[n]
    if driver.step == WORKING and worker.step in {IDLE, DEAD} and (not state.free or not worker.parts_left):
        yield replace(state, is_open=state.is_open and not protocol.seal).with_driver(n, Driver(SEALED))
    elif driver.step == SEALED:
        yield state.with_driver(n, Driver(LISTED, state.ledger))


def end_states(protocol: Protocol) -> Iterator[State]:
    """The states in which nothing can happen any more."""
    seen, waiting = {State()}, [State()]
    while waiting:
        state = waiting.pop()
        following = set(steps(state, protocol))
        if not following:
            yield state
        waiting += following - seen
        seen |= following


def is_right(state: State) -> bool:
    """Whether each row is in one place, for each driver that has listed the batch."""
    for driver in state.drivers:
        if driver.step == LISTED:
            places = [*state.queue, *(row for file in driver.files - state.removed for row in file)]
            if sorted(places) != sorted(ROWS):
                return False
    return True


def test_no_interleaving_loses_or_duplicates_a_row() -> None:
    ends = list(end_states(Protocol()))
    listed = [state for state in ends if all(driver.step == LISTED for driver in state.drivers)]
    assert any(not state.queue for state in listed), "a batch may end with all the rows"
    assert any(state.queue for state in listed), "and with some, where a part came after the seal"
    assert [state for state in ends if not is_right(state)] == []


@pytest.mark.parametrize("rule", ["seal", "lock", "keep"])
def test_without_any_rule_rows_are_lost(rule: str) -> None:
    assert any(not is_right(state) for state in end_states(Protocol(**{rule: False})))
