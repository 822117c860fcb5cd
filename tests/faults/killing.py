"""Work in processes of its own, each of which kills itself at one of its statements; and such kills by the hundred.

``SQLQUEUE_KILLS`` is the number of kills of each kind of work, ``SQLQUEUE_SEED`` the seed of their moments.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.server.session import Session
from tests.forks import CONTEXT, fork

log = logging.getLogger(__name__)

LONG = os.environ.get("SQLQUEUE_FAULTS") == "long"
MANY = bool(os.environ.get("SQLQUEUE_KILLS"))
KILLS = int(os.environ.get("SQLQUEUE_KILLS") or (100 if LONG else 3))
SEED = int(os.environ.get("SQLQUEUE_SEED") or 1)

BEFORE, AFTER = "before", "after"
"""The statement has not been sent; the server has run it, and the process does not learn of it."""

SECONDS = 120
"""Seconds for which a process may be silent."""

ROUNDS = 3
"""Rounds over all moments after which each statement has to have been one at which a process died."""


@dataclass(frozen=True)
class Life:
    """Statements that a process has begun, by their names, and whether it was killed at the last one."""

    statements: tuple[str, ...]
    killed: bool


def live(
    work: Callable[..., None], *arguments: Any, statement: int = 0, moment: str = BEFORE, thread: str = ""
) -> Life:
    """Run work in a process, which kills itself at a statement, counted from 1; at 0 it lives to its end.

    Only statements of threads whose names begin with ``thread`` count.
    """
    reports, child = CONTEXT.Pipe(duplex=False)
    process = fork(_live, work, arguments, statement, moment, thread, child)
    child.close()
    names: list[str] = []
    try:
        with suppress(EOFError):
            while reports.poll(SECONDS):
                names.append(reports.recv())
        process.join(SECONDS)
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    finally:
        process.kill()
        process.join()
        reports.close()
    return Life(tuple(names), bool(process.exitcode))


def _live(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    statement: int,
    moment: str,
    thread: str,
    reports: Connection[str, str],
) -> None:
    execute, seen, lock = Session._execute, 0, threading.Lock()

    def counted(session: Session, *given: Any) -> list[Any]:
        nonlocal seen
        if not threading.current_thread().name.startswith(thread):
            return execute(session, *given)
        with lock:
            seen += 1
            is_last = seen == statement
            reports.send(given[0].name)
        if is_last and moment == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(session, *given)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    with patch.object(Session, "_execute", counted):
        work(*arguments)


@dataclass(frozen=True)
class Endured:
    """Result of many kills.

    :param statements: the statements of a run that is not killed, by their names.
    :param hits: the number of kills by statement and moment.
    :param rounds: how often all moments have had their turn.
    """

    statements: tuple[str, ...]
    hits: Counter[tuple[str, str]]
    rounds: int


def endure(
    name: str,
    run: Callable[[int, str], Life],
    top_up: Callable[[], object],
    check: Callable[[], object],
    *,
    kills: int = KILLS,
    seed: int = SEED,
) -> Endured:
    """Kill runs before and after their statements, in an order by the seed, again and again.

    ``top_up`` gives the next run something to do, and ``check`` asserts each time that nothing is lost or duplicated.
    At the end a run is left alone. Where all moments have had several turns, each statement has to have been hit.
    """
    chance = Random(f"{seed} {name}")
    top_up()
    whole = run(0, BEFORE)
    check()
    assert not whole.killed
    points = [(number, moment) for number in range(1, len(whole.statements) + 1) for moment in (BEFORE, AFTER)]
    assert points, "the run has no statement"
    hits, runs, rounds = Counter[tuple[str, str]](), 0, 0
    while hits.total() < kills:
        chance.shuffle(points)
        for number, moment in points:
            if hits.total() == kills:
                break
            top_up()
            life = run(number, moment)
            runs += 1
            if life.killed:
                hits[life.statements[-1], moment] += 1
            check()
        else:
            rounds += 1
        assert runs <= 4 * kills + len(points), "few runs come to the statements at which they are to die"
    top_up()
    assert not run(0, BEFORE).killed
    check()
    hit = {statement for statement, _ in hits}
    log.info(
        "%s: %d kills in %d rounds at %d of %d statements, by the seed %d",
        *(name, hits.total(), rounds, len(hit), len(set(whole.statements) | hit), seed),
    )
    missed = set(whole.statements) - hit
    assert rounds < ROUNDS or not missed, f"never hit in {rounds} rounds: {missed}"
    return Endured(whole.statements, hits, rounds)
