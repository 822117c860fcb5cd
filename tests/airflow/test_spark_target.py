from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.spark_target import SparkTarget


def test_this_machine_unless_a_connection_is_named() -> None:
    assert SparkTarget.of(None, {"spark.x": "1"}) == SparkTarget("local[*]", {"spark.x": "1"})


def test_a_spark_connection_names_the_master_and_settings(connection: Any) -> None:
    extra = {"spark.executor.memory": "2g", "spark.cores.max": 4, "deploy-mode": "client"}
    conn_id = connection("spark", extra, "spark", host="spark://master", port=7077)
    target = SparkTarget.of(conn_id, {"spark.cores.max": "1", "spark.x": "2"})
    assert target == SparkTarget(
        "spark://master:7077", {"spark.executor.memory": "2g", "spark.cores.max": "1", "spark.x": "2"}
    )
    assert "2g" not in repr(target)


@pytest.mark.parametrize(
    "name",
    [
        *("spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.jars", "spark.plugins"),
        *("spark.submit.pyFiles", "spark.master", "spark.eventLog.dir", "spark.hadoop.fs.s3a.endpoint"),
        *("spark.sql.extensions", "spark.executor.memory.x", "spark.Executor.memory"),
    ],
)
@pytest.mark.parametrize("kind", ["spark", "spark_connect"])
def test_an_extra_sets_nothing_of_spark_that_may_load_code_or_write_files(
    connection: Any, kind: str, name: str, monkeypatch: Any
) -> None:
    conn_id = connection(kind, {name: "-XX:OnOutOfMemoryError='touch /some/file'"}, "spark", host="cluster")
    with pytest.raises(ConfigurationError, match=f"'spark' may not set '{name}' in its extra.*spark_conf") as raised:
        SparkTarget.of(conn_id)
    assert "touch" not in str(raised.value)
    assert SparkTarget.of(None, {name: "the task's"}).settings == {name: "the task's"}
    for allowed in (f"spark.x, {name}", "*"):
        monkeypatch.setenv("AIRFLOW__SQLQUEUE__SPARK_SETTINGS_IN_EXTRA", allowed)
        assert name in SparkTarget.of(conn_id).settings


@pytest.mark.parametrize("value", ["1g -XX:OnOutOfMemoryError=x", "1g\n", "", "'1'"])
def test_a_setting_in_an_extra_is_a_number_a_size_or_a_name(connection: Any, value: str) -> None:
    with pytest.raises(ConfigurationError, match="not a number, size, time or name"):
        SparkTarget.of(connection("spark", {"spark.driver.memory": value}, "spark", host="local[1]"))
    for good in ("1g", "0.4", "-1", "true", "root.etl", "Europe/Berlin", "GMT+01:00"):
        assert SparkTarget.of(connection("spark", {"spark.yarn.queue": good}, "spark", host="yarn")).settings


def test_connections_name_the_masters_that_are_allowed_alone(connection: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__SPARK_MASTERS", "spark://master:7077, sc://spark:15002")
    assert SparkTarget.of(connection("spark", conn_id="spark", host="spark://master", port=7077)).url
    assert SparkTarget.of(connection("spark", conn_id="spark", host="local[2]")).url == "local[2]"
    connect = {"host": "spark", "port": 15002, "password": "token"}
    assert SparkTarget.of(connection("spark_connect", conn_id="spark", **connect)).url
    for kind, fields in (
        ("spark", {"host": "spark://master:7078"}),
        ("spark", {"host": "k8s://http://example.com"}),
        ("spark", {"host": "local-cluster[1,1,1024]"}),
        ("spark_connect", {**connect, "host": "example.com"}),
    ):
        with pytest.raises(ConfigurationError, match=r"\[sqlqueue\] spark_masters"):
            SparkTarget.of(connection(kind, conn_id="spark", **fields))


def test_a_master_needs_no_port(connection: Any) -> None:
    assert SparkTarget.of(connection("spark", conn_id="spark", host="local[2]")).url == "local[2]"


def test_a_spark_connect_connection_is_a_url_for_the_client(connection: Any) -> None:
    conn_id = connection("spark_connect", {"use_ssl": True}, "connect", host="spark", port=15002, password="token")
    assert SparkTarget.of(conn_id).url == "sc://spark:15002/;token=token;use_ssl=True"


@pytest.mark.parametrize("fields", [{"conn_type": "http"}, {"conn_type": "spark", "host": ""}])
def test_another_connection_is_refused(connection: Any, fields: Any) -> None:
    with pytest.raises(ConfigurationError, match="'elsewhere' is not a Spark cluster"):
        SparkTarget.of(connection(**{"conn_id": "elsewhere", **fields}))


def test_spark_connect_takes_no_applications(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="python_callable"):
        SparkTarget("sc://spark/").submit("job.py", [], name="job", folder=tmp_path)


def test_settings_are_passed_in_a_file_and_not_on_the_command_line(tmp_path: Path, monkeypatch: Any) -> None:
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$SPARK_HOME"; echo "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    target = SparkTarget("yarn", {"spark.hadoop.secret": "a\\b\nc"})
    with target.submit("job.py", ["--manifest", "m.json"], name="dag.task", folder=tmp_path) as process:
        assert process.stdout is not None
        home, command = process.stdout.read().splitlines()
    assert home == str(tmp_path)
    assert command.startswith("--master yarn --deploy-mode client --name dag.task --properties-file ")
    assert command.endswith(" job.py --manifest m.json")
    assert (tmp_path / "spark.properties").read_text() == "spark.hadoop.secret a\\\\b\\nc\n"


def test_the_installed_pyspark_brings_spark_submit(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    seen: dict[str, Any] = {}
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: seen.update(command=command, **options))
    SparkTarget().submit("job.py", [], name="job", folder=tmp_path)
    (submit,) = [part for part in seen["command"] if part.endswith("spark-submit")]
    assert os.access(submit, os.X_OK)


def test_no_spark_submit_is_one_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="There is no spark-submit"):
        SparkTarget().submit("job.py", [], name="job", folder=tmp_path)


def test_cluster_mode_in_which_the_job_outlives_its_task_is_refused(tmp_path: Path) -> None:
    target = SparkTarget("yarn", {"spark.submit.deployMode": "cluster"})
    with pytest.raises(ConfigurationError, match="client mode"):
        target.submit("job.py", [], name="job", folder=tmp_path)


TASK = """
import sys
from pathlib import Path
from airflow_sqlqueue.hooks.spark_target import SparkTarget

print(SparkTarget().submit("job.py", [], name="job", folder=Path(sys.argv[1])).stdout.read())
"""

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(900)"

DRIVER = """#!/bin/sh
# A JVM that ends when it is told to, with a Python driver that does not listen.
{python} -c '{deaf}' > {pipe} &
echo $$ $! > {pids}
cat {pipe} > {pipe}.heard
wait
"""


def test_a_driver_ends_with_its_task_that_is_killed(tmp_path: Path, monkeypatch: Any) -> None:
    """It would run beside the driver of the next try else, on the same batch."""
    script, pipe, pids = tmp_path / "bin" / "spark-submit", tmp_path / "pipe", tmp_path / "pids"
    script.parent.mkdir()
    script.write_text(DRIVER.format(python=sys.executable, deaf=DEAF, pipe=pipe, pids=pids))
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", TASK, str(tmp_path)]) as task:
        deadline = time.monotonic() + 120
        while not (heard := Path(f"{pipe}.heard")).exists() or not heard.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        drivers = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
        task.kill()
    gone, alive = psutil.wait_procs(drivers, 120)
    assert (len(gone), alive) == (2, [])


PROBE = """
import sys
from airflow_sqlqueue.hooks.spark_target import SparkTarget

lines = []
with SparkTarget.of(None).session("probe", lambda level, line: lines.append((level, line))):
    pass
print('lines:', lines)
"""


@pytest.mark.spark
def test_output_of_starting_spark_is_not_logged_as_an_error() -> None:
    """Airflow takes for an error what a task prints on standard error."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    lines = ast.literal_eval(re.findall("^lines: (.*)$", done.stdout, re.MULTILINE)[0])
    assert lines, "Java prints what it was told to use at least"
    assert {level for level, _ in lines} <= {logging.INFO, logging.WARNING}
    assert not {line for _, line in lines} & set(done.stderr.splitlines())
