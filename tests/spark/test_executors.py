"""A drain whose workers are Spark's executors: on a session of this machine, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.drain import DrainResult, Engine
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.worker import WorkPlan
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError, StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.spark.errors import error_from_text
from airflow_sqlqueue.spark.executor_tasks import ExecutorPlan, TaskWindow, drain_tasks
from airflow_sqlqueue.spark.executors import BackgroundAction, SparkEngine
from tests.contract.conftest import Connect
from tests.drains import drain as drain_queue
from tests.drains import read_files
from tests.faults.account import Account
from tests.faults.conftest import account, batch_id  # noqa: F401 - fixtures
from tests.faults.faulty import DEADLOCK, FAIL, HANG, KILL, FaultyStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ruff: noqa: F811 - fixtures again

SMALL = DrainOptions(rows_per_statement=3, rows_per_part=6)

DrainWith = Callable[..., DrainResult]


@pytest.fixture
def drain(connect: Connect, queue: QueueTable, staging: StagingFolder, batch_id: uuid.UUID) -> DrainWith:
    """Drain the queue of the test into its batch."""

    def run(engine: Engine | None = None, *, stage: Any = staging, **options: Any) -> DrainResult:
        report = options.pop("on_progress", None)
        chosen = replace(SMALL, **options)
        return drain_queue(connect, queue, stage, chosen, engine=engine, on_progress=report, batch_id=batch_id)

    return run


@pytest.fixture
def engine(spark: SparkSession, settings: ConnectionSettings) -> SparkEngine:
    """Few tasks, so that each has several parts, and one that is worth few messages."""
    return SparkEngine(spark, settings, lock_timeout=10, tasks=3, messages_per_task=5)


def test_executors_redact_by_the_rules_of_the_drain(
    connect: Connect, queue: QueueTable, staging: StagingFolder, engine: SparkEngine
) -> None:
    rules = {"message_type": "*", "headers": {"Person": "hash"}, "fields": {"Email": "drop"}}
    redactor = Redactor.of(rules, "a key of 16 bytes or more")
    queue.send(Message({"Person": "ada"}, b'{"Id": %d, "Email": "ada@example.com"}' % n) for n in range(20))
    batch = drain_queue(connect, queue, staging, SMALL, engine=engine, redaction=redactor).batch
    rows = read_files(batch).to_pylist()
    assert sorted(row["Body"] for row in rows) == sorted(b'{"Id":%d}' % n for n in range(20))
    assert {row["Headers"] for row in rows} == {json.dumps({"Person": redactor.hashed("ada")}, separators=(",", ":"))}


@pytest.fixture
def parts(connect: Connect, queue: QueueTable, batch_id: uuid.UUID) -> Callable[[], list[Part]]:
    """Parts of the test's batch in the ledger."""

    def listed() -> list[Part]:
        with connect() as session:
            return Ledger(session, queue.address.catalog).parts(batch_id)

    return listed


def test_executors_drain_all_messages(
    engine: SparkEngine,
    drain: DrainWith,
    account: Account,
    staging: StagingFolder,
    connect: Connect,
    batch_id: uuid.UUID,
) -> None:
    account.send(100)
    seen: list[Progress] = []
    drained = drain(engine, on_progress=seen.append)
    account.check(batch_id)
    assert (account.queued(), drained.locked, drained.resumed) == (0, 0, False)
    assert (seen[-1].messages, seen[-1].bytes) == (drained.batch.messages, drained.batch.bytes)
    assert seen[-1].rows == 100
    with connect() as session:
        text = "SELECT DISTINCT [Worker] FROM [sqlqueue].[Part] WHERE [BatchId] = ?"
        workers = {row[0].split(":")[1] for row in session.run(Query("who", "who?", text), str(batch_id))}
    assert str(os.getpid()) not in workers
    assert [path.name for path in Path(staging.root).iterdir()] == [drained.batch.folder]


@pytest.mark.parametrize(
    ("tasks", "worth", "shares"),
    [(3, 5_000, [(100, 100)]), (3, 40, [(20, 40)] * 3), (2, 1, [(48, 52)] * 2)],
    ids=["too few", "enough", "many"],
)
def test_tasks_are_worth_their_start_and_about_as_large(
    spark: SparkSession,
    settings: ConnectionSettings,
    drain: DrainWith,
    account: Account,
    parts: Callable[[], list[Part]],
    tasks: int,
    worth: int,
    shares: list[tuple[int, int]],
) -> None:
    """Each of them makes one part here, as parts may be as large."""
    account.send(100)
    engine = SparkEngine(spark, settings, tasks=tasks, messages_per_task=worth)
    drain(engine, rows_per_part=1000)
    taken = sorted(part.rows for part in parts())
    assert sum(taken) == 100
    assert len(taken) == len(shares)
    assert all(least <= rows <= most for rows, (least, most) in zip(taken, shares, strict=True))


def test_an_empty_queue_starts_no_job(
    engine: SparkEngine, drain: DrainWith, spark: SparkSession, account: Account
) -> None:
    account.send(0)
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup()
    assert drain(engine).batch.messages == 0
    assert tracker.getJobIdsForGroup() == before


@pytest.mark.parametrize("limit", [None, 50])
def test_an_executor_that_is_killed_in_the_middle_of_a_part(
    engine: SparkEngine,
    drain: DrainWith,
    account: Account,
    staging: StagingFolder,
    batch_id: uuid.UUID,
    tmp_path: Path,
    limit: int | None,
) -> None:
    """Spark repeats its task, whose first part is in the ledger: nothing is lost, doubled, or over the limit."""
    account.send(80)
    stage = FaultyStage(FileStage(staging), tmp_path / "killed", KILL)
    drain(engine, stage=stage, max_messages=limit)
    assert stage.mark.exists()
    account.check(batch_id)
    assert account.queued() == 80 - (limit or 80)


@pytest.fixture
def plan(
    queue: QueueTable, account: Account, staging: StagingFolder, batch_id: uuid.UUID, settings: ConnectionSettings
) -> ExecutorPlan:
    """The plan of one task for the whole queue, in which 30 messages are, and an open batch."""
    account.send(30)
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.open(batch_id, queue.address.canonical, LAST)
    work = WorkPlan(batch_id, queue.address, FileStage(staging), SMALL, folder=ledger.folder(batch_id))
    return ExecutorPlan(settings, 0.1, work, windows=(TaskWindow(Window()),))


def errors(plan: ExecutorPlan) -> list[str | None]:
    """Drain like an executor, and return its reports."""
    return list(drain_tasks(plan, [0]))


def test_a_repeated_task_does_not_drain_its_share_twice(
    plan: ExecutorPlan, account: Account, batch_id: uuid.UUID, parts: Callable[[], list[Part]]
) -> None:
    """Its window holds more rows than its share: they came after it was cut. While it runs, another one waits."""
    plan = replace(plan, windows=(TaskWindow(Window(), limit=15),))
    first = drain_tasks(plan, [0])
    next(first)
    assert sum(part.rows for part in parts()) == 6
    assert errors(plan) == []
    cast(Any, first).close()
    assert errors(plan) == [None, None]
    assert errors(plan) == []
    assert [part.rows for part in parts()] == [6, 6, 3]
    account.check(batch_id)


def test_the_time_of_the_batch_is_that_of_executors(
    plan: ExecutorPlan, queue: QueueTable, account: Account, batch_id: uuid.UUID
) -> None:
    """However late Spark runs their task, and whatever their clocks say."""
    text = "UPDATE [sqlqueue].[Batch] SET [OpenedAt] = DATEADD(minute, -2, [OpenedAt]) WHERE [BatchId] = ?"
    queue.session.run(Query("age", "make the batch older", text), str(batch_id))
    late, in_time = (
        replace(plan, work=replace(plan.work, options=replace(SMALL, max_seconds=seconds))) for seconds in (60, 600)
    )
    assert errors(late) == []
    assert account.queued() == 30
    assert errors(in_time) == [None] * 5
    assert account.queued() == 0


def test_an_executor_takes_large_bodies_as_well(plan: ExecutorPlan, account: Account, batch_id: uuid.UUID) -> None:
    options = DrainOptions(rows_per_statement=3, rows_per_part=6, inline_body_bytes=1000)
    assert set(errors(replace(plan, work=replace(plan.work, options=options)))) == {None}
    assert account.queued() == 0
    account.check(batch_id)


def test_an_executor_takes_a_part_anew_that_was_undone(
    plan: ExecutorPlan, account: Account, batch_id: uuid.UUID, tmp_path: Path
) -> None:
    stage = FaultyStage(cast(FileStage, plan.work.stage), tmp_path / "deadlock", DEADLOCK)
    assert errors(replace(plan, work=replace(plan.work, stage=stage))) == [None] * 5
    assert stage.mark.exists()
    account.check(batch_id)


class Died(Exception):
    pass


class DiesAfterwards:
    """An engine whose driver dies before the seal."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def run(self, work: WorkPlan, up_to: int, budget: Budget, on_part: Callable[[Part], None]) -> None:
        self._engine.run(work, up_to, budget, on_part)
        raise Died


def die(_: Progress) -> None:
    raise Died


def test_threads_resume_a_batch_of_spark(
    engine: SparkEngine, drain: DrainWith, account: Account, batch_id: uuid.UUID
) -> None:
    account.send(60)
    with pytest.raises(Died):
        drain(DiesAfterwards(engine))
    account.check(batch_id)
    account.send(20, seed=1)
    drained = drain()
    assert (drained.resumed, drained.batch.state, account.queued()) == (True, "sealed", 20)
    account.check(batch_id)


def test_spark_resumes_a_batch_of_threads(
    engine: SparkEngine, drain: DrainWith, account: Account, batch_id: uuid.UUID, parts: Callable[[], list[Part]]
) -> None:
    account.send(60)
    with pytest.raises(Died):
        drain(workers=1, max_messages=40, on_progress=die)
    assert len(parts()) == 1
    drained = drain(engine, max_messages=40)
    assert (drained.resumed, drained.batch.state, account.queued()) == (True, "sealed", 20)
    account.check(batch_id)


def test_an_error_on_an_executor_is_ours(
    engine: SparkEngine,
    drain: DrainWith,
    account: Account,
    staging: StagingFolder,
    batch_id: uuid.UUID,
    tmp_path: Path,
) -> None:
    account.send(60)
    with pytest.raises(StagingError, match=r"On a Spark executor: The disk is full; the messages of this part stay"):
        drain(engine, stage=FaultyStage(FileStage(staging), tmp_path / "failed", FAIL))
    account.check(batch_id)
    assert drain(engine).batch.state == "sealed"
    account.check(batch_id)


def test_a_caller_that_gives_up_cancels_the_job(
    engine: SparkEngine,
    drain: DrainWith,
    account: Account,
    staging: StagingFolder,
    batch_id: uuid.UUID,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """An executor hangs for good, so the job would never end."""
    account.send(60)
    with pytest.raises(Died):
        drain(engine, stage=FaultyStage(FileStage(staging), tmp_path / "hangs", HANG), on_progress=die)
    assert (tmp_path / "hangs").exists()
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    account.check(batch_id)


def test_a_job_that_fails_is_one_error(
    engine: SparkEngine, drain: DrainWith, account: Account, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(numbers: Iterable[int]) -> Iterator[None]:
        raise RuntimeError("not one of ours")

    account.send(10)
    broken = spark.sparkContext.parallelize([0]).mapPartitions(breaks)
    monkeypatch.setattr("airflow_sqlqueue.spark.executors.drained_reports", lambda *_: broken)
    with pytest.raises(SparkJobError, match="Spark could not drain"):
        drain(engine)
    assert account.queued() == 10


def test_executors_without_this_package_are_reported(spark: SparkSession) -> None:
    def fail() -> None:
        raise RuntimeError("ModuleNotFoundError: No module named 'airflow_sqlqueue'")

    with (
        BackgroundAction(spark, "drain", fail) as action,
        pytest.raises(ConfigurationError, match="executors do not have this package"),
    ):
        action.result()


def test_a_folder_that_executors_do_not_share_is_refused_before_anything_is_taken(
    plan: ExecutorPlan, account: Account, tmp_path: Path
) -> None:
    (text,) = drain_tasks(replace(plan, marker_file=tmp_path / "elsewhere"), [0])
    assert text is not None
    error = error_from_text(text)
    assert isinstance(error, ConfigurationError)
    assert "not the one of the driver" in str(error)
    assert account.queued() == 30


def test_a_stage_that_cannot_be_pickled_is_refused(
    engine: SparkEngine, drain: DrainWith, account: Account, staging: StagingFolder
) -> None:
    account.send(10)
    unpicklable = replace(staging, filesystem=lambda: None, uri="store://bucket")
    with pytest.raises(ConfigurationError, match="cannot be pickled"):
        drain(engine, stage=unpicklable)
    assert account.queued() == 10


def test_speculation_and_spark_connect_are_refused(settings: ConnectionSettings) -> None:
    context = SimpleNamespace(getConf=lambda: {"spark.speculation": "True"})
    with pytest.raises(ConfigurationError, match=r"set spark\.speculation to false"):
        SparkEngine(cast(Any, SimpleNamespace(sparkContext=context)), settings)
    with pytest.raises(ConfigurationError, match="Spark Connect cannot hand a login"):
        SparkEngine(cast(Any, object()), settings)


def test_executors_need_no_airflow(
    plan: ExecutorPlan, account: Account, staging: StagingFolder, batch_id: uuid.UUID, server_url: str
) -> None:
    program = """
import sys, uuid
sys.modules["airflow"] = None
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.worker import WorkPlan
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import executors
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.spark.executor_tasks import ExecutorPlan, TaskWindow, drain_tasks
url, queue, folder, batch_id = sys.argv[1:]
stage = FileStage(StagingFolder.of(folder))
work = WorkPlan(uuid.UUID(batch_id), AddressResolver().resolve(queue), stage, DrainOptions())
plan = ExecutorPlan(ConnectionSettings.from_url(url), 10, work, windows=(TaskWindow(Window()),))
print(len(list(drain_tasks(plan, [0]))))
"""
    arguments = [server_url, plan.work.queue.canonical, staging.root, str(batch_id)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    account.check(batch_id)


def test_executors_move_messages_into_a_table(
    engine: SparkEngine, drain: DrainWith, account: Account, batch_id: uuid.UUID
) -> None:
    account.send(60)
    batch = drain(engine, stage=TableStage()).batch
    account.check(batch_id)
    assert (account.queued(), batch.stage, batch.paths) == (0, "table", ())
    assert batch.messages + batch.expired == 60
