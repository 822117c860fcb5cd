"""A DAG with a drain that is stopped half-way: actions of a person, and the account of its messages afterwards."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pyspark

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.batches import BatchInfo
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.sql import Query
from tests.airflow.running.running_airflow import RunningAirflow, until

DRAIN, IN_JOB = "drain", "job"
"""State of a run when it is interrupted: its batch is open, or sealed with a job at work on it."""

SMALL_PARTS = {"rows_per_part": 20, "rows_per_statement": 5, "workers": 2, "locked_wait_seconds": 600}
"""Dozens of parts; a drain waits long for a message that somebody holds."""

ENDED = {"success", "failed"}

_SPARK = Path(pyspark.__file__).parent

JOB = (
    f"""#!/bin/sh
case " $* " in
  *" --manifest "*) ;;
  *) SPARK_HOME='{_SPARK}' exec '{_SPARK}/bin/spark-submit' "$@" ;;
esac
"""
    + """\
while [ "$1" != --manifest ]; do shift; done
manifest=$2 lake=$4
batch=$(sed 's/.*"batch_id": "\\([^"]*\\)".*/\\1/' "$manifest")
touch "$lake/begun"
while [ -e "$lake/wait" ]; do sleep 0.2; done
draft=$(mktemp "$lake/draft.XXXXXX")
tar -c -f "$draft" $(grep -o 'file://[^"]*' "$manifest" | cut -c 8-)
mv "$draft" "$lake/$batch.tar"
"""
)
"""Stands for spark-submit and its application: a sink keyed by the batch, which writes the whole batch each time.

A session of a task's own function starts by the same script; it gets the real one.
"""


def spark_home(folder: Path) -> Path:
    """A Spark whose spark-submit is the job, without a Java machine."""
    script = folder / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(JOB, "utf-8")
    script.chmod(0o755)
    return folder


class InterruptedDrain:
    """DAG with one queue, whose first run is interrupted.

    :param name: the case, which no other DAG of this Airflow has.
    :param halt: where its first run stands still until it has been interrupted: ``drain`` or ``job``.
    :param settings: further settings of the DAG: ``retries``, ``execution_timeout`` in seconds.
    """

    def __init__(
        self, airflow: RunningAirflow, url: str, folder: Path, name: str, halt: str = DRAIN, **settings: Any
    ) -> None:
        self.airflow, self.halt = airflow, halt
        # A batch's id is made of it, and the ledger of a test server keeps the batches of all.
        self.dag_id = f"{name.replace(' ', '_')}_{uuid.uuid4().hex[:8]}"
        self._client = QueueClient.from_url(url)
        self._lake = folder / self.dag_id
        self._lake.mkdir()
        self._queue = f"test.{uuid.uuid4().hex[:12]}"
        self._sent: list[str] = []
        self.settings = {
            "dag_id": self.dag_id,
            "queue_name": self._queue,
            "staging": str(folder / "staging"),
            "lake": str(self._lake),
            "application": "job.py",
            "drain_options": SMALL_PARTS,
            "retries": 0,
            "execution_timeout": None,
            **settings,
        }

    # What happens to it

    @contextmanager
    def interrupted(self) -> Iterator[psutil.Process]:
        """The first run, which stands still within this block; gives the process of its task."""
        self._client.tables.create(self._queue)
        self._send(400)
        (self._lake / "wait").touch()
        with self._client.session() as session:
            Ledger(session, self._client.settings.database).create()
            session.begin()
            if self.halt == DRAIN:
                table = self._client.resolve(self._queue).qualified_name
                last = f"SELECT TOP (1) 1 FROM {table} WITH (UPDLOCK, ROWLOCK) ORDER BY [RowVersion] DESC"
                session.run(Query("lock", "lock a test's row", last))
            self.trigger("first")
            until(f"{self.dag_id} stands still", self._stands_still)
            yield self._process()
            session.roll_back()
        (self._lake / "wait").unlink()

    def trigger(self, run: str) -> None:
        self.airflow.post(f"dags/{self.dag_id}/dagRuns", {"dag_run_id": run, "logical_date": None})

    def mark(self, state: str) -> None:
        """Give the first run's task another state, as a person does in the web interface."""
        self.airflow.patch(self._task("first"), {"new_state": state})

    def clear(self) -> None:
        body = {"dag_run_id": "first", "task_ids": ["drain"], "dry_run": False, "only_failed": False}
        self.airflow.post(f"dags/{self.dag_id}/clearTaskInstances", body)

    def pause(self, paused: bool = True) -> None:
        self.airflow.patch(f"dags/{self.dag_id}", {"is_paused": paused})

    def kill_worker(self, task: psutil.Process) -> None:
        """As when the machine of a worker goes down: the task and who watches over it."""
        watching = task.parent()
        assert watching is not None
        watching.kill()
        os.killpg(task.pid, signal.SIGKILL)

    def wait_for(self, *states: str, run: str = "first") -> None:
        """Wait until the task of a run has one of the states."""
        until(f"{run} of {self.dag_id} is {states}", lambda: self._state(run) in states)

    def wait_for_another_try(self, before: psutil.Process) -> None:
        """Wait until the first run's task has a new process that is at work."""

        def is_at_work() -> bool:
            task = self.airflow.get(self._task("first"))
            return task["state"] == "running" and task["pid"] not in (None, before.pid)

        until(f"another try of {self.dag_id}", is_at_work)

    def run_next(self) -> None:
        """Send more, and run the DAG again, to its end."""
        self._send(50)
        self.trigger("next")
        self.wait_for(*ENDED, run="next")
        assert self._state("next") == "success", self._log("next")

    def drop_queue(self) -> None:
        self._client.run_sql(f"DROP TABLE IF EXISTS {self._client.resolve(self._queue).qualified_name}")

    # What is seen of it

    def is_noticed(self) -> bool:
        """Whether the first run's batch is shown as one without a worker."""
        found = self._client.batches.stranded(self._queue, older_than=timedelta(0))
        return [batch.state for batch in found] == ["open" if self.halt == DRAIN else "sealed"]

    def account(self, adopted: bool) -> None:
        """Every message is in one batch, which was read; fail otherwise. ``adopted``: the next run took the first's."""
        batches = self._batches()
        assert {batch.state for batch in batches} == {"consumed"}
        assert self._client.queue(self._queue).depth().messages == 0
        read = {path.stem: _bodies(path) for path in self._lake.glob("*.tar")}
        assert {str(batch.batch_id): batch.messages for batch in batches if batch.messages} == {
            batch_id: len(bodies) for batch_id, bodies in read.items()
        }
        assert sorted(body for bodies in read.values() for body in bodies) == sorted(self._sent)
        left = [{"batch_id": str(batches[0].batch_id), "messages": batches[0].messages}] if adopted else []
        assert self._xcom("next")["adopted"] == left
        assert (f"An earlier run left batch {batches[0].batch_id}" in self._log("next")) == adopted

    def _stands_still(self) -> bool:
        batches = self._batches()
        if self.halt == IN_JOB:
            return [batch.state for batch in batches] == ["sealed"] and (self._lake / "begun").exists()
        return bool(batches) and batches[0].state == "open" and batches[0].messages > 0

    def _batches(self) -> list[BatchInfo]:
        return list(self._client.batches.list(self._queue))

    def _send(self, count: int) -> None:
        bodies = [f"message {len(self._sent) + number}" for number in range(count)]
        self._client.queue(self._queue).send(Message({}, body.encode()) for body in bodies)
        self._sent += bodies

    def _task(self, run: str) -> str:
        return f"dags/{self.dag_id}/dagRuns/{run}/taskInstances/drain"

    def _process(self) -> psutil.Process:
        return psutil.Process(self.airflow.get(self._task("first"))["pid"])

    def _state(self, run: str) -> str | None:
        state: str | None = self.airflow.get(self._task(run))["state"]
        return state

    def _xcom(self, run: str) -> Any:
        return self.airflow.get(f"{self._task(run)}/xcomEntries/return_value")["value"]

    def _log(self, run: str) -> str:
        tries = self.airflow.get(self._task(run))["try_number"]
        return json.dumps(self.airflow.get(f"{self._task(run)}/logs/{tries}", full_content=True)["content"], indent=1)


def _bodies(archive: Path) -> list[str]:
    with tarfile.open(archive) as files:
        parts = [io.BytesIO(files.extractfile(name).read()) for name in files.getnames()]  # type: ignore[union-attr]
    tables = [pyarrow.parquet.ParquetFile(part).read(columns=["Body"]) for part in parts]
    return [body.decode() for table in tables for body in table["Body"].to_pylist()]
