from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark import register, typed_columns
from airflow_sqlqueue.spark.executors import SparkEngine
from airflow_sqlqueue.spark.session import check_java, java_version, local_session
from airflow_sqlqueue.versions import VersionedFeature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_version_of_java(text: str, version: int | None) -> None:
    assert java_version(text) == version


def fake_java(folder: Path, script: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "says"), [("echo 'openjdk version \"11.0.2\"' >&2", "is 11"), ("exit 1", "does not report")]
)
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, script)))
    with pytest.raises(ConfigurationError, match=f"{says}.*apt-get install -y openjdk-17.*brew install openjdk@17"):
        check_java()


def test_no_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no Java was found: install it with"):
        check_java()


def test_a_java_home_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="JAVA_HOME"):
        check_java()


def test_the_session_is_private_and_strict(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    # The fixture has asked for a web UI.
    assert str(spark.sparkContext.uiWebUrl).startswith("http://127.0.0.1:")
    assert spark.conf.get("spark.sql.files.ignoreMissingFiles") == "false"


def test_delta_reads_a_log_in_as_many_tasks_as_there_are_cores(spark: SparkSession) -> None:
    cores = spark.sparkContext.defaultParallelism
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == str(cores)


def test_sorting_uses_memory_outside_the_heap(spark: SparkSession) -> None:
    """By the REST API: a Java object of the memory manager cannot be handed to Python from Spark 4.3 on."""
    url = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/executors"
    with urlopen(url, timeout=60) as answer:
        (driver,) = json.load(answer)
    assert driver["memoryMetrics"]["totalOffHeapStorageMemory"] == 512 * 1024**2


def test_workers_run_this_python(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_an_older_spark_is_refused(spark: SparkSession, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever begins work with Spark, in one sentence, and not by an error about a missing name."""
    lacking = VersionedFeature("airflow_sqlqueue.spark", "Spark", "4.0", "3.5.9", is_available=False)
    monkeypatch.setattr("airflow_sqlqueue.versions.spark.SPARK", lacking)
    rows = spark.createDataFrame([], "Id string, Headers string")

    def start() -> None:
        with local_session("older"):
            pass

    for use in (start, lambda: register(spark), lambda: typed_columns(rows), lambda: SparkEngine(spark, settings)):
        with pytest.raises(
            ConfigurationError, match=r"^airflow_sqlqueue\.spark needs Spark 4\.0 or later, and 3\.5\.9 "
        ):
            use()


def test_a_second_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="already"), local_session("second"):
        pass


TYPED = """
from airflow_sqlqueue.spark import local_session, typed_columns

columns = "Id string, CorrelationId string, ReplyToAddress string, Recoverable boolean, Expires timestamp, "
columns += "Headers string, Body binary, RowVersion long, Expired boolean, BodyFile string"
with local_session("typed", "local[1]", {"spark.log.level": "WARN"}) as spark:
    rows = typed_columns(spark.createDataFrame([], columns))
    assert rows.collect() == []
"""


def test_typed_columns_make_spark_warn_of_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", TYPED], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert "Setting Spark log level to" in done.stderr, "Spark's log is seen here"
    assert "deprecated" not in done.stderr
