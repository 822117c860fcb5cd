from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.spark_target import SparkTarget


def test_this_machine_unless_a_connection_is_named() -> None:
    assert SparkTarget.of(None, {"spark.x": "1"}) == SparkTarget("local[*]", {"spark.x": "1"})


def test_a_spark_connection_names_the_master_and_settings(connection: Any) -> None:
    extra = {"spark.executor.memory": "2g", "spark.cores.max": 4, "deploy-mode": "cluster"}
    conn_id = connection("spark", extra, "spark", host="spark://master", port=7077)
    target = SparkTarget.of(conn_id, {"spark.cores.max": "1", "spark.x": "2"})
    settings = {"spark.executor.memory": "2g", "spark.cores.max": "1", "spark.x": "2"}
    assert target == SparkTarget("spark://master:7077", settings, conn_id, "cluster")
    assert "2g" not in repr(target)


def test_settings_of_a_task_may_be_numbers_and_switches(connection: Any) -> None:
    given = {"spark.executor.cores": 2, "spark.memory.fraction": 0.5, "spark.x": True, "spark.y": False}
    texts = {"spark.executor.cores": "2", "spark.memory.fraction": "0.5", "spark.x": "true", "spark.y": "false"}
    for conn_id in (None, connection("spark", conn_id="spark", host="yarn")):
        assert SparkTarget.of(conn_id, given).settings == texts


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{'spark.x': 's3cret'}", "a mapping of Spark's settings, not str"),
        ({"spark.x": None}, "a NoneType for 'spark.x'"),
        ({"spark.x": ["s3cret"]}, "a list for 'spark.x'"),
    ],
)
def test_settings_of_a_task_that_spark_cannot_read_are_refused(settings: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        SparkTarget.of(None, settings)
    assert "s3cret" not in str(raised.value)


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


START = r"""
import sys
from airflow_sqlqueue.hooks.spark_target import SparkTarget

for url in sys.argv[1:]:
    try:
        with SparkTarget(url, {"spark.hadoop.fs.s3a.secret.key": "a\\b hush"}).session("job"):
            pass
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.spark
def test_settings_are_no_arguments_of_the_java_process(tmp_path: Path, monkeypatch: Any) -> None:
    """Other users of the machine see those."""
    submit, seen, read = tmp_path / "bin" / "spark-submit", tmp_path / "seen", tmp_path / "read"
    submit.parent.mkdir()
    submit.write_text(f'#!/bin/sh\necho "$@" >> "{seen}"\ncat "$3" >> "{read}"\nexit 1\n')
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    urls = ["local[2]", "spark://cluster:7077"]
    done = subprocess.run(
        [sys.executable, "-c", START, *urls], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.stdout.count("JAVA_GATEWAY_EXITED") == 2, done.stderr
    assert "hush" not in seen.read_text()
    lines = read.read_text().splitlines()
    assert lines.count(r"spark.hadoop.fs.s3a.secret.key a\\b hush") == 2
    assert {f"spark.master {url}" for url in urls} <= set(lines)


PROBE = """
import sys
from airflow_sqlqueue.hooks.spark_target import SparkTarget

with SparkTarget.of(None).session("probe"):
    print("of this process", file=sys.stderr)
"""


@pytest.mark.spark
def test_output_of_starting_spark_is_not_logged_as_an_error() -> None:
    """Airflow takes for an error what a task prints on standard error."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stderr) == (0, "of this process\n")
    assert done.stdout, "Java prints what it was told to use at least"
