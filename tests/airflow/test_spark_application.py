"""Applications of a drain's job, submitted by the provider: the command, and the end of the driver with its task.

``spark-submit`` is a script here, so that no Java machine has to start; ``test_live_drain.py`` runs the real one.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.hooks.spark_target import SparkTarget
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.operators.spark_application import SparkApplication
from airflow_sqlqueue.operators.spark_job import SparkJob

AIRFLOW_RESUMES = find_spec("airflow.sdk.bases.resumablejobmixin") is not None


def batch(batch_id: str) -> Batch:
    return Batch(batch_id, "q@[dbo]@[shop]", "sealed", (), 0)


BATCH = batch("b")


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: Any) -> Callable[[str], Path]:
    """Makes a Spark whose spark-submit is a shell script."""

    def make(script: str) -> Path:
        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir(exist_ok=True)
        submit.write_text(f"#!/bin/sh\n{script}\n")
        submit.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        return tmp_path

    return make


def job(**options: Any) -> SparkJob:
    made = SparkJob("dag.task", logging.getLogger("airflow.task"), application="job.py", **options)
    made.check()
    return made


def test_settings_and_the_manifest_are_in_files(spark_home: Any, capsys: Any) -> None:
    """Other users of the machine see command lines."""
    folder = spark_home(
        'echo "python: $PYSPARK_PYTHON"; for word in "$@"; do echo "<$word>"; done; '
        'cp "$5" "$SPARK_HOME/properties"; while [ "$1" != --manifest ]; do shift; done; cp "$2" "$SPARK_HOME/manifest"'
    )
    settings = {"spark.hadoop.secret": "a\\b\nc"}
    job(application_args=["--lake", "it's"], spark_conf=settings).run(BATCH)
    out = capsys.readouterr().out
    words = [line.split("<")[1].split(">")[0] for line in out.splitlines() if "<" in line]
    assert words[:3] == ["--load-spark-defaults", "--master", "local[*]"]
    assert words[-5:-3] == ["job.py", "--manifest"]
    assert words[-2:] == ["--lake", "it's"]
    assert {("--deploy-mode", "client"), ("--name", "dag.task")} <= set(pairwise(words))
    assert "secret" not in out
    assert f"python: {sys.executable}" in out
    assert (folder / "properties").read_text() == "spark.hadoop.secret a\\\\b\\nc\n"
    assert json.loads((folder / "manifest").read_text()) == BATCH.to_dict()


def test_the_installed_pyspark_brings_spark_submit(monkeypatch: Any) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = SparkApplication(SparkTarget(), "job.py", "job", {})._submit
    assert Path(found).parent == Path(sys.executable).parent
    assert os.access(found, os.X_OK)


def test_options_that_cannot_be_submitted_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    for target, options, said in (
        (SparkTarget("sc://spark/"), {}, "A Spark Connect server runs no applications: give a python_callable"),
        (SparkTarget("yarn", {"spark.submit.deployMode": "cluster"}), {}, "give deploy_mode in submit_options"),
        (
            SparkTarget(),
            {"conf": {"spark.x": "1"}},
            "'conf', which SparkSubmitOperator does not take or the task",
        ),
        (SparkTarget(), {"deploymode": "cluster"}, "'deploymode', which SparkSubmitOperator does not take"),
        (SparkTarget(), {"spark_binary": "no-submit"}, "There is no no-submit: pip install 'airflow-sqlqueue"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            SparkApplication(target, "job.py", "job", options)
    with pytest.raises(ConfigurationError, match="submit_options is given without an application"):
        SparkJob("t", logging.getLogger(), submit_options={"deploy_mode": "cluster"}).check()


def test_arguments_of_another_kind_are_refused() -> None:
    given: dict[str, Any] = {"application_args": 5, "submit_options": "--deploy-mode cluster"}
    for name, value in given.items():
        with pytest.raises(ConfigurationError, match=f"{name} is a .*, not {type(value).__name__}"):
            SparkJob("t", logging.getLogger(), application="job.py", **{name: value}).check()


@pytest.mark.parametrize("job", [{"application": "job.py"}, {"python_callable": print}])
def test_a_connection_that_does_not_exist_ends_the_task_before_the_drain(job: dict[str, Any]) -> None:
    """Airflow would run the task again for its own error of that."""
    with pytest.raises(ConfigurationError, match="Airflow has no connection 'nowhere' for Spark: create it"):
        SparkJob("t", logging.getLogger(), spark_conn_id="nowhere", **job).check()


def test_a_missing_provider_is_named_with_its_extra(monkeypatch: Any) -> None:
    monkeypatch.delitem(sys.modules, "airflow_sqlqueue.operators.spark_application")
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark.operators.spark_submit", None)
    said = (
        r"An application needs the package apache-airflow-providers-apache-spark.*airflow-sqlqueue\[spark-provider\]'"
    )
    with pytest.raises(ConfigurationError, match=said):
        job()


def test_bytes_that_are_no_text_do_not_end_the_task(spark_home: Any, capsys: Any) -> None:
    spark_home(r"printf 'caf\351\n'; echo after")
    job().run(BATCH)
    assert "after" in capsys.readouterr().out


def test_the_error_of_an_application_does_not_quote_its_output(spark_home: Any) -> None:
    spark_home("echo the body of a message; exit 3")
    with pytest.raises(SparkJobError, match=r"^The application job\.py failed: see the log\.$") as raised:
        job().run(BATCH)
    assert raised.value.__suppress_context__


# The end of the driver

TASK = """
import logging
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.operators.spark_job import SparkJob

job = SparkJob("t", logging.getLogger(), application="job.py")
job.check()
job.run(Batch("b", "q@[dbo]@[shop]", "sealed", (), 0))
"""

LISTENING = "import time; print(flush=True); time.sleep(900)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LISTENING}"

DRIVER = """
# A JVM that ends when it is told to, with a Python driver that may not listen.
{python} -c '{driver}' > {pipe} &
echo $$ $! > {pids}
cat {pipe} > {pipe}.heard
wait
"""


@pytest.fixture
def drivers(request: pytest.FixtureRequest, spark_home: Any, tmp_path: Path) -> Callable[[], list[psutil.Process]]:
    """An application that runs until it is ended; gives its processes when they run."""
    pipe, pids = tmp_path / "pipe", tmp_path / "pids"
    os.mkfifo(pipe)
    driver = getattr(request, "param", LISTENING)
    spark_home(DRIVER.format(python=sys.executable, driver=driver, pipe=pipe, pids=pids))

    def running() -> list[psutil.Process]:
        deadline = time.monotonic() + 120
        while not (heard := Path(f"{pipe}.heard")).exists() or not heard.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return [psutil.Process(int(pid)) for pid in pids.read_text().split()]

    return running


def assert_ended(drivers: list[psutil.Process]) -> None:
    gone, alive = psutil.wait_procs(drivers, 120)
    assert (len(gone), alive) == (2, [])


@pytest.mark.parametrize("drivers", [DEAF], indirect=True, ids=["deaf"])
def test_a_driver_ends_with_its_task_that_is_killed(drivers: Any) -> None:
    """It would run beside the driver of the next try else, on the same batch."""
    with subprocess.Popen([sys.executable, "-c", TASK]) as task:
        found = drivers()
        task.kill()
    assert_ended(found)


def test_killing_the_task_ends_the_application(drivers: Any) -> None:
    running = job()
    operator = SqlQueueDrainToSparkOperator(task_id="t", queue_name="q", staging="/tmp", application="job.py")
    operator._job = running
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(running.run, BATCH)
        found = drivers()
        operator.on_kill()
        with pytest.raises(SparkJobError):
            done.result(60)
    assert_ended(found)


class Interrupted(BaseException):
    """Airflow's exception for a task whose time is over is not an ``Exception`` either."""


def test_an_interrupted_task_does_not_wait_for_its_application(drivers: Any) -> None:
    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    found: list[psutil.Process] = []

    def wait() -> None:
        found.extend(drivers())
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        with pytest.raises(Interrupted):
            job().run(BATCH)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert_ended(found)


# Cluster mode

unclosed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The provider does not close the output of the processes that it asks the master with."""


class Master(ThreadingHTTPServer):
    """The REST interface of a standalone master: each driver has the states that it was given, one after the other."""

    def __init__(self) -> None:
        self.states: dict[str, list[str]] = {}
        self.asked = threading.Event()
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    server: Master

    def do_GET(self) -> None:
        driver = self.path.rpartition("/")[2]
        state, *others = states = self.server.states[driver]
        self.server.states[driver] = others or states
        self.server.asked.set()
        found = {"driverState": state, "submissionId": driver, "success": True}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found, indent=2, separators=(",", " : ")).encode())

    def do_POST(self) -> None:
        self.server.states[self.path.rpartition("/")[2]] = ["KILLED"]
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def master(connection: Any) -> Iterator[Master]:
    with Master() as master:
        thread = threading.Thread(target=master.serve_forever)
        thread.start()
        extra = {"deploy-mode": "cluster", "rest-port": master.server_port}
        connection("spark", extra, "cluster", host="spark://127.0.0.1", port=7077)
        yield master
        master.shutdown()
        thread.join()


class Store(dict[str, Any]):
    """Airflow's store of a task's state."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


class Task:
    """A task whose application runs in cluster mode, with drivers that are numbered."""

    def __init__(self, context: dict[str, Any], submits: Path) -> None:
        self.store, self._submits = Store(), submits
        context["ti"].stats_tags = {}
        given = {**context, "task_state_store": self.store}
        self.job = job(spark_conn_id="cluster", context=given, submit_options={"status_poll_interval": 0.05})

    def run(self, batch_id: str) -> None:
        self.job.run(batch(batch_id))

    @property
    def submitted(self) -> int:
        return len(self._submits.read_text())


@pytest.fixture
def task(master: Master, spark_home: Any, context: Any, tmp_path: Path) -> Task:
    count = 'printf x >> "$SPARK_HOME/submits"; echo "submitted driver-$(wc -c < "$SPARK_HOME/submits")"'
    spark_home(f'{count}; echo "python: <$PYSPARK_PYTHON>"; echo "$@"')
    return Task(context(), tmp_path / "submits")


resumes = pytest.mark.skipif(not AIRFLOW_RESUMES, reason="Airflow resumes jobs from 3.3 on")
unclosed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The provider does not close the output of the processes that it asks the master with."""


@unclosed
def test_the_task_waits_for_a_driver_in_the_cluster(master: Master, task: Task, capsys: Any) -> None:
    master.states = {"driver-1": ["SUBMITTED", "RUNNING", "FINISHED"], "driver-2": ["RUNNING", "FAILED"]}
    task.run("first")
    assert master.states["driver-1"] == ["FINISHED"]
    said = capsys.readouterr().out
    assert "--deploy-mode cluster" in said
    assert "python: <>" in said, "the cluster has a Python of its own"
    manifest, _ = json.JSONDecoder().raw_decode(said.partition("--manifest ")[2])
    assert manifest == batch("first").to_reference(), "the driver cannot read a file of this machine"
    with pytest.raises(SparkJobError, match="see the log"):
        task.run("second")
    assert "Driver driver-2 exited with status FAILED" in capsys.readouterr().out


@unclosed
def test_killing_the_task_ends_a_driver_in_the_cluster(master: Master, task: Task) -> None:
    master.states = {"driver-1": ["RUNNING"]}
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(task.run, "first")
        assert master.asked.wait(60)
        task.job.kill()
        with pytest.raises(SparkJobError):
            done.result(60)
    assert master.states["driver-1"] == ["KILLED"]


@unclosed
@resumes
def test_a_retry_waits_for_the_driver_of_the_first_try(master: Master, task: Task) -> None:
    # The master was away for a moment, and the task gave its driver up.
    master.states = {"driver-1": ["UNKNOWN", "RUNNING", "FINISHED"], "driver-2": ["FINISHED"]}
    with pytest.raises(SparkJobError):
        task.run("first")
    task.run("first")
    assert (task.submitted, master.states["driver-1"]) == (1, ["FINISHED"])
    assert task.store == {}
    task.run("first")
    assert task.submitted == 2, "a driver that has ended is not taken for another run of the job"


@unclosed
@resumes
def test_the_drivers_of_two_batches_are_not_taken_for_each_other(master: Master, task: Task) -> None:
    master.states = {"driver-1": ["UNKNOWN", "FINISHED"], "driver-2": ["FINISHED"]}
    with pytest.raises(SparkJobError):
        task.run("first")
    task.run("second")
    assert task.submitted == 2
    assert list(task.store.values()) == ["driver-1"]
