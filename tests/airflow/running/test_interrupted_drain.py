"""A drain that is interrupted in every way that Airflow has, in an Airflow that runs, and the run that comes next.

The cases are DAGs of one Airflow and happen at the same time, because each mostly waits; what happens to the scheduler
happens to all of them, and comes when they are over.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.airflow.running.interrupted_drain import DRAIN, IN_JOB, InterruptedDrain
from tests.airflow.running.running_airflow import WAIT, RunningAirflow, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


def marked_failed(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        drain.mark("failed")
        task.wait(WAIT)


def marked_successful(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        drain.mark("success")
        task.wait(WAIT)


def cleared(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        drain.clear()
        drain.wait_for_another_try(task)
    drain.wait_for("success")


def killed(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        task.kill()
        drain.wait_for("failed")


def killed_with_its_worker(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        drain.kill_worker(task)
        drain.wait_for("failed")


def timed_out(drain: InterruptedDrain) -> None:
    """The timer's own signal comes, before the timer."""
    with drain.interrupted() as task:
        task.send_signal(signal.SIGALRM)
        drain.wait_for("failed")


def paused(drain: InterruptedDrain) -> None:
    """Running work continues to its end."""
    with drain.interrupted():
        drain.pause()
    drain.wait_for("success")
    drain.pause(False)


def paused_before_its_retry(drain: InterruptedDrain) -> None:
    with drain.interrupted() as task:
        drain.pause()
        task.kill()
        drain.wait_for("up_for_retry")
    drain.pause(False)
    drain.wait_for("success")


@dataclass(frozen=True)
class Case:
    """A way to be interrupted; ``adopted``: the next run finds the batch, which no try of its own run takes up."""

    interrupt: Callable[[InterruptedDrain], None]
    adopted: bool
    halts: tuple[str, ...] = (DRAIN, IN_JOB)
    settings: dict[str, Any] = field(default_factory=dict)


CASES = {
    "marked failed": Case(marked_failed, adopted=True),
    "marked successful": Case(marked_successful, adopted=True),
    "cleared": Case(cleared, adopted=False),
    "killed": Case(killed, adopted=True),
    "killed with its worker": Case(killed_with_its_worker, adopted=True, halts=(DRAIN,)),
    "timed out": Case(timed_out, adopted=True, settings={"execution_timeout": 3600}),
    "paused": Case(paused, adopted=False, halts=(DRAIN,)),
    "paused before its retry": Case(paused_before_its_retry, adopted=False, halts=(DRAIN,), settings={"retries": 1}),
}
LONG = os.environ.get("SQLQUEUE_FAULTS") == "long"
SHORT = {
    f"marked failed in its {DRAIN}",
    f"marked successful in its {IN_JOB}",
    f"cleared in its {IN_JOB}",
    f"killed in its {DRAIN}",
    f"killed with its worker in its {DRAIN}",
    f"timed out in its {IN_JOB}",
    f"paused before its retry in its {DRAIN}",
}
"""Every way once; ``make faults`` has each in the drain and in the job."""
NAMES = [
    name for way, case in CASES.items() for halt in case.halts if (name := f"{way} in its {halt}") in SHORT or LONG
]
AT_ONCE = 8
RESTARTS = ["scheduler stopped", "scheduler killed", "scheduler killed with a worker"]


@pytest.fixture(scope="module")
def drains(server_url: str, running_airflow: RunningAirflow) -> Iterator[dict[str, InterruptedDrain]]:
    """The DAGs, in an Airflow that runs."""
    airflow, home = running_airflow, running_airflow.home
    drains = {}
    for name in NAMES:
        case, _, halt = name.rpartition(" in its ")
        drains[name] = InterruptedDrain(airflow, server_url, home, name, halt, **CASES[case].settings)
    for name in RESTARTS:
        drains[name] = InterruptedDrain(airflow, server_url, home, name)
    cases = [drain.settings for drain in drains.values()]
    airflow.add_dags("interrupted.py", cases, [drain.dag_id for drain in drains.values()])
    yield drains
    for drain in drains.values():
        drain.drop_queue()


@pytest.fixture(scope="module")
def stories(drains: dict[str, InterruptedDrain]) -> Iterator[dict[str, Future[None]]]:
    """Interrupt each DAG at the same time, except those of the scheduler's restart."""
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {name: pool.submit(interrupt_and_run_again, name, drains[name]) for name in NAMES}
    # Where a test has been given up, its story ends with the Airflow that it needs.
    pool.shutdown(wait=False, cancel_futures=True)


def interrupt_and_run_again(name: str, drain: InterruptedDrain) -> None:
    case = CASES[name.rpartition(" in its ")[0]]
    case.interrupt(drain)
    if case.adopted:
        until(f"the batch of {drain.dag_id} is left by its process and seen to be", drain.is_noticed)
    else:
        assert not drain.is_noticed()
    drain.run_next()
    drain.account(case.adopted)


@pytest.mark.parametrize("name", NAMES)
def test_no_message_stays_behind_and_none_is_read_twice(stories: dict[str, Future[None]], name: str) -> None:
    stories[name].result()


@pytest.fixture
def restarts(stories: dict[str, Future[None]], drains: dict[str, InterruptedDrain]) -> list[InterruptedDrain]:
    """The DAGs of the scheduler's restarts, when all others are over."""
    wait(stories.values())
    return [drains[name] for name in RESTARTS]


@pytest.mark.skipif(not LONG, reason="make faults runs it; the scheduler is killed here")
def test_the_scheduler_is_stopped_and_waits_for_running_tasks(restarts: list[InterruptedDrain]) -> None:
    drain = restarts[0]
    with drain.interrupted():
        drain.airflow.stop_scheduler(signal.SIGTERM)
    drain.wait_for("success")
    drain.airflow.start_scheduler()
    drain.run_next()
    drain.account(adopted=False)


def test_the_scheduler_is_killed_alone_and_with_a_worker(restarts: list[InterruptedDrain]) -> None:
    """A worker that lives goes on with its task until it hears that another try has begun: both work on one batch."""
    zombie, dead = restarts[1:]
    airflow = zombie.airflow
    with zombie.interrupted() as going_on, dead.interrupted() as killed:
        airflow.stop_scheduler(signal.SIGKILL)
        dead.kill_worker(killed)
        until("the scheduler is missed", airflow.is_scheduler_missed)
        airflow.start_scheduler()
        zombie.wait_for_another_try(going_on)
        dead.wait_for_another_try(killed)
    for drain in (zombie, dead):
        drain.wait_for("success")
        drain.run_next()
        drain.account(adopted=False)
