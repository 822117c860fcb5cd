"""Spark session on this machine, for examples, tests and small batches. Clusters have their own sessions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.versions import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED = 17
_LOG_TASKS = "spark.databricks.delta.snapshotPartitions"
_INSTALL = (
    "install it with `sudo apt-get install -y openjdk-17-jre-headless` (Debian, Ubuntu) or `brew install openjdk@17` "
    "(Homebrew), and let JAVA_HOME name it if it is not on the PATH."
)


@contextmanager
def local_session(
    app_name: str, master: str = "local[2]", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start a Spark session in this process, and stop it at the end of the block.

    Its workers run this Python, its time zone is UTC, it listens on the loopback interface only, has no web UI and logs
    errors only. A missing file is an error. Instants in files of Parquet are 64-bit microseconds, not INT96. Spark
    sorts outside Java's heap, in up to 512 MiB and then on disk: inside the heap every garbage collection would copy
    the bodies. Delta Lake reads a table's log in as many tasks as there are cores, in place of 50. ``config`` overrides
    these settings.

    Raises :class:`ConfigurationError` if pyspark 4.0 or Java 17 or later is missing, if pyspark-client is of another
    version than pyspark, and if the process has a session already, because the settings of that one would apply.
    """
    check_pyspark()
    with from_extra("spark", "Spark"):
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    from airflow_sqlqueue.versions.spark import SPARK

    SPARK.require()
    check_java()
    # The context of the process: the active session is one for each thread.
    if SparkContext._active_spark_context is not None:
        raise ConfigurationError("This process has a Spark session already: use it, or stop it first.")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "512m",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(config or {}),
    }
    # A worker with the first Python of the PATH may lack the packages of this one (docs/design.md, "Python of Spark's
    # workers").
    with _environment(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"):
        start_java({"spark.master": master, "spark.app.name": app_name, **settings})
        spark = SparkSession.builder.master(master).appName(app_name).config(map=settings).getOrCreate()
        try:
            if _LOG_TASKS not in settings:
                spark.conf.set(_LOG_TASKS, str(spark.sparkContext.defaultParallelism))
            yield spark
        finally:
            spark.stop()


def start_java(settings: Mapping[str, Any]) -> None:
    """Start the Java process of this one's sessions with settings of a file, unless there is one already.

    PySpark would give them as arguments of the process, which other users of the machine see.
    """
    from pyspark import SparkContext

    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    # A process has one such file: the user's own stays.
    if SparkContext._gateway is not None or "--properties-file" in arguments:
        return
    with tempfile.TemporaryDirectory(prefix="sqlqueue-") as folder:
        file = Path(folder, "spark.properties")
        file.write_text(properties(settings), "utf-8")
        given = f"--load-spark-defaults --properties-file {quote(str(file))} {arguments}"
        with _environment(PYSPARK_SUBMIT_ARGS=given):
            SparkContext._ensure_initialized()


def properties(settings: Mapping[str, Any]) -> str:
    """Return the text of a file of settings for spark-submit, as java.util.Properties reads it."""
    escape = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
    return "".join(f"{name} {value}".translate(escape) + "\n" for name, value in settings.items())


def check_java() -> int:
    """Return the major version of the Java that Spark will start.

    Raises :class:`ConfigurationError`, which says how to install Java, if it is missing or older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise ConfigurationError(f"Spark needs Java {JAVA_NEEDED} or later, and no Java was found: {_INSTALL}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = " (JAVA_HOME)" if home else ""
        raise ConfigurationError(f"Spark needs Java, and {java}{where} does not run: {_INSTALL}") from error
    version = java_version(answer.stderr + answer.stdout)
    if version is None:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_NEEDED} or later, and {java} does not report its own: {_INSTALL}"
        )
    if version < JAVA_NEEDED:
        raise ConfigurationError(f"Spark needs Java {JAVA_NEEDED} or later, and {java} is {version}: {_INSTALL}")
    return version


def java_version(text: str) -> int | None:
    """Return the major version in the output of ``java -version`` (``1.8.0_392`` is 8); None without a version."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
