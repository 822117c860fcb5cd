"""Batches that a task has left, and what the next run makes of them; runs that overlap leave each other alone."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for, owner_of
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import StrandedBatchError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.operators.spark_job import SparkJob
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.versions.airflow import PARTITION_KEYS
from tests.airflow.versions import needs


class Jobs:
    """Stands for Spark: the batches that jobs got, in their order. ``during`` runs inside each job."""

    def __init__(self) -> None:
        self.got: list[Batch] = []
        self.during: Callable[[Batch], None] = lambda batch: None

    def run(self, batch: Batch) -> None:
        self.got.append(batch)
        self.during(batch)

    @property
    def ids(self) -> list[uuid.UUID]:
        return [uuid.UUID(batch.batch_id) for batch in self.got]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    jobs = Jobs()
    monkeypatch.setattr(SparkJob, "run", lambda self, batch, spark=None: jobs.run(batch))
    return jobs


@pytest.fixture
def drain(queue_name: str, tmp_path: Path) -> Callable[..., SqlQueueDrainToSparkOperator]:
    def make(**arguments: Any) -> SqlQueueDrainToSparkOperator:
        given = {"queue_name": queue_name, "staging": str(tmp_path), **arguments}
        return SqlQueueDrainToSparkOperator(**{"task_id": "task", "python_callable": print, **given})

    return make


@pytest.fixture
def dag_id() -> str:
    """A DAG of each test's own: batches are looked for in all of the ledger."""
    return f"dag {uuid.uuid4().hex[:8]}"


Leave = Callable[..., uuid.UUID]


@pytest.fixture
def leave(hook: SqlQueueHook, queue_name: str, tmp_path: Path, dag_id: str) -> Leave:
    """A batch that a run of the task leaves open, with 10 messages of 30 in it; the others stay in the queue."""

    class Killed(Exception):
        pass

    def kill(_: Any) -> None:
        raise Killed

    def run(run_id: str = "earlier", task_id: str = "task", map_index: int = -1) -> uuid.UUID:
        hook.send(queue_name, [Message({}, b"x")] * 30)
        batch_id = batch_id_for(dag_id, run_id, task_id, map_index)
        with suppress(Killed):
            hook.drain(
                queue_name,
                tmp_path,
                DrainRequest(
                    batch_id=batch_id,
                    origin=f"{dag_id} {run_id}",
                    owner=owner_of(dag_id, task_id, map_index),
                    options=DrainOptions(rows_per_part=10, workers=1),
                ),
                on_progress=kill,
            )
        info = hook.client.batches.info(batch_id)
        assert info is not None
        assert (info.state, info.messages) == ("open", 10)
        return batch_id

    return run


def state(hook: SqlQueueHook, batch_id: uuid.UUID) -> str | None:
    info = hook.client.batches.info(batch_id)
    return info and info.state


def test_a_batch_that_a_killed_run_left_open_is_adopted_by_the_next(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str, caplog: Any, capsys: Any
) -> None:
    first, second = leave("one"), leave("two")
    done = drain().execute(context(dag_id=dag_id))
    own = uuid.UUID(done["batch"]["batch_id"])
    assert jobs.ids == [first, second, own], "in the order in which they were opened, its own at the end"
    assert [batch.messages for batch in jobs.got] == [10, 10, 40]
    assert [state(hook, batch_id) for batch_id in jobs.ids] == ["consumed"] * 3
    assert done["adopted"] == [{"batch_id": str(each), "messages": 10} for each in (first, second)]
    log = caplog.text + capsys.readouterr().out
    assert f"An earlier run left batch {first} (open, 10 messages in 1 part" in log
    assert drain().execute(context("next", dag_id=dag_id))["adopted"] == []


@needs(PARTITION_KEYS)
def test_an_adopted_batch_has_a_partition_of_its_own(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str, queue_name: str
) -> None:
    leave()
    asset, outlet_events = hook.asset(queue_name), OutletEventAccessors()
    task = drain(outlets=[asset], partition_by_batch=True)
    task.execute({**context(dag_id=dag_id), "outlet_events": outlet_events})
    assert outlet_events[asset].partition_keys == set(map(str, jobs.ids))
    assert len(jobs.ids) == 2


def test_a_batch_is_adopted_whatever_the_spelling_of_its_queue(
    drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str, queue_name: str, hook: SqlQueueHook
) -> None:
    left, other = leave(), f"{queue_name.upper()}@[DBO]"
    if hook.client.find(other).table != queue_name:
        other = f"{queue_name}@[]"
    done = drain(queue_name=other).execute(context(dag_id=dag_id))
    assert jobs.ids == [left, uuid.UUID(done["batch"]["batch_id"])]


RUN = """
import sys
from types import SimpleNamespace
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator

queue_name, staging, dag_id = sys.argv[1:]
operator = SqlQueueDrainToSparkOperator(
    task_id="task", queue_name=queue_name, staging=staging, python_callable=print,
    drain_options={"rows_per_part": 10, "workers": 1, "locked_wait_seconds": 600},
)
operator.execute({"ti": SimpleNamespace(dag_id=dag_id, run_id="one", task_id="task", map_index=-1, try_number=1)})
"""


def test_a_living_process_keeps_its_batch_and_a_killed_one_leaves_it_to_the_next_run(
    hook: SqlQueueHook, drain: Any, queue_name: str, tmp_path: Path, jobs: Jobs, context: Any, dag_id: str
) -> None:
    """A task that is marked failed is ended by SIGTERM and SIGKILL: it says nothing to anybody."""
    hook.send(queue_name, [Message({}, b"x")] * 30)
    limits = {"locked_wait_seconds": 0}
    with hook.client.session() as session, ExitStack() as stack:
        Ledger(session, hook.client.settings.database).create()
        session.begin()
        last = f"SELECT TOP (1) 1 FROM [{queue_name}] WITH (UPDLOCK, ROWLOCK) ORDER BY [RowVersion] DESC"
        session.run(Query("lock", "lock a test's row", last))
        process = subprocess.Popen([sys.executable, "-c", RUN, queue_name, str(tmp_path), dag_id])
        stack.callback(process.wait)
        stack.callback(process.kill)
        left = batch_id_for(dag_id, "one", "task")
        while not ((info := hook.client.batches.info(left)) and info.messages == 29):
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        beside = drain(drain_options=limits).execute(context("two", dag_id=dag_id))
        assert (beside["adopted"], state(hook, left)) == ([], "open")
        process.kill()
        process.wait()
        with hook.client.batches.locks() as locks:
            assert locks.take(left, wait=60), "the server has seen the end of the process"
        after = drain(drain_options=limits).execute(context("three", dag_id=dag_id))
        assert after["adopted"] == [{"batch_id": str(left), "messages": 29}]
        session.roll_back()
    assert drain().execute(context("four", dag_id=dag_id))["batch"]["messages"] == 1
    assert sum(batch.messages for batch in jobs.got) == 30


def test_a_sealed_batch_that_no_job_ever_read_is_adopted(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str
) -> None:
    """As when somebody marks the task successful while it runs."""
    left = leave()
    hook.client.batches.seal(left)
    drain().execute(context(dag_id=dag_id))
    assert jobs.ids[0] == left
    assert state(hook, left) == "consumed"


@pytest.mark.parametrize(
    "other", [{"task_id": "other"}, {"map_index": 0}, {"run_id": "x"}], ids=["task", "map index", "DAG"]
)
def test_batches_of_other_tasks_are_not_adopted(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str, other: Any
) -> None:
    left = leave(**other)
    mine = f"{dag_id} of another" if "run_id" in other else dag_id
    assert drain().execute(context(dag_id=mine))["adopted"] == []
    assert state(hook, left) == "open"


def test_ids_with_blanks_are_not_mistaken() -> None:
    assert owner_of("a b", "c") != owner_of("a", "b c")
    assert owner_of("a", "b", 1) != owner_of("a", "b 1")


def test_runs_that_overlap_leave_each_others_batches_alone(
    hook: SqlQueueHook, drain: Any, queue_name: str, jobs: Jobs, context: Any, dag_id: str
) -> None:
    """The first one is in its job, the second one begins and ends meanwhile."""
    in_job, go_on = threading.Event(), threading.Event()

    def stay(batch: Batch) -> None:
        if batch is jobs.got[0]:
            in_job.set()
            assert go_on.wait(60)

    jobs.during = stay
    hook.send(queue_name, [Message({}, b"x")] * 5)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(drain().execute, context("one", dag_id=dag_id))
        try:
            assert in_job.wait(60)
            hook.send(queue_name, [Message({}, b"x")] * 3)
            second = drain().execute(context("two", dag_id=dag_id))
        finally:
            go_on.set()
        assert (second["adopted"], second["batch"]["messages"]) == ([], 3)
        assert (first.result(60)["adopted"], first.result()["batch"]["messages"]) == ([], 5)
    assert len(jobs.got) == 2


def test_stranded_batches_may_fail_the_task(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str
) -> None:
    left = leave()
    with pytest.raises(AirflowFailException, match=f"{left} .open, 10 messages.*sqlqueue abandon") as raised:
        drain(stranded="fail").execute(context(dag_id=dag_id))
    assert isinstance(raised.value.__cause__, StrandedBatchError)
    assert (state(hook, left), jobs.got) == ("open", [])
    assert state(hook, batch_id_for(dag_id, context().get("ti").run_id, "task")) is None, (
        "no batch of its own is opened"
    )


def test_stranded_batches_may_be_ignored(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str
) -> None:
    left = leave()
    assert drain(stranded="ignore").execute(context(dag_id=dag_id))["adopted"] == []
    assert state(hook, left) == "open"


def test_a_drain_without_a_job_leaves_sealed_batches_to_their_readers(
    hook: SqlQueueHook, drain: Any, leave: Leave, context: Any, dag_id: str, caplog: Any, capsys: Any
) -> None:
    waiting, left = leave("one"), leave("two")
    hook.client.batches.seal(waiting)
    done = drain(python_callable=None, stranded="adopt").execute(context(dag_id=dag_id))
    assert done["adopted"] == []
    assert (state(hook, waiting), state(hook, left)) == ("sealed", "sealed")
    log = caplog.text + capsys.readouterr().out
    assert f"An earlier run left batch {left}" in log
    assert f"An earlier run left batch {waiting}" not in log


def test_a_retry_goes_on_beside_a_try_that_does_not_end(
    hook: SqlQueueHook, drain: Any, jobs: Jobs, context: Any, dag_id: str, run_id: str, caplog: Any, capsys: Any
) -> None:
    """It waits for it as long as for any lock; the protocol is safe with both."""
    with hook.client.batches.locks() as zombie:
        assert zombie.take(batch_id_for(dag_id, run_id, "task"))
        operator = drain(hook_params={"lock_timeout": 0.1})
        assert operator.execute(context(dag_id=dag_id))["batch"]["state"] == "consumed"
    assert "Another try of this task still works on batch" in caplog.text + capsys.readouterr().out


def test_a_failed_job_on_an_adopted_batch_keeps_it(
    hook: SqlQueueHook, drain: Any, leave: Leave, jobs: Jobs, context: Any, dag_id: str
) -> None:
    def fail(batch: Batch) -> None:
        raise RuntimeError("the job failed")

    left = leave()
    jobs.during = fail
    with pytest.raises(RuntimeError, match="the job failed"):
        drain().execute(context(dag_id=dag_id))
    jobs.during = lambda batch: None
    done = drain().execute(context(dag_id=dag_id))
    assert jobs.ids == [left, left, uuid.UUID(done["batch"]["batch_id"])]


def test_a_renewed_drain_resumes_its_own_batch(
    hook: SqlQueueHook, drain: Any, queue_name: str, jobs: Jobs, context: Any, dag_id: str
) -> None:
    drain(renew=True, run_on_empty=True).execute(context(dag_id=dag_id))

    def fail(batch: Batch) -> None:
        raise RuntimeError

    jobs.during = fail
    hook.send(queue_name, [Message({}, b"x")])
    with pytest.raises(RuntimeError):
        drain(renew=True).execute(context(dag_id=dag_id))
    jobs.during = lambda batch: None
    done = drain(renew=True).execute(context(dag_id=dag_id))
    assert done["adopted"] == []
    assert [batch.batch_id for batch in jobs.got[1:]] == [done["batch"]["batch_id"]] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"stranded": "take"}, "stranded is one of adopt, fail, ignore"),
        ({"rerun": "drain"}, 'rerun is None or "job"'),
        ({"rerun": "job", "renew": True}, "Both rerun and renew"),
    ],
)
def test_unknown_options_are_refused(drain: Any, live: str, context: Any, arguments: Any, says: str) -> None:
    with pytest.raises(AirflowFailException, match=says):
        drain(**arguments).execute(context())


def test_a_cleared_task_runs_its_job_again_on_request(
    hook: SqlQueueHook, drain: Any, queue_name: str, jobs: Jobs, context: Any, dag_id: str
) -> None:
    hook.send(queue_name, [Message({}, b"x")] * 4)
    batch = drain().execute(context(dag_id=dag_id))["batch"]
    drain().execute(context(dag_id=dag_id))
    assert len(jobs.got) == 1
    again = drain(rerun="job").execute(context(dag_id=dag_id))
    assert (again["batch"], len(jobs.got)) == (batch, 2)
    Path(batch["paths"][0].removeprefix("file://")).unlink()
    with pytest.raises(Exception, match="is gone, as after a sweep"):
        drain(rerun="job").execute(context(dag_id=dag_id))
    assert len(jobs.got) == 2
