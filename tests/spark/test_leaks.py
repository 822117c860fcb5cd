"""Output of a session while executors drain: it never holds the login or the key of the staging folder."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import executors
from tests.contract.conftest import Connect

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession


PAGES = ("environment", "jobs", "stages?details=true", "allexecutors", "storage/rdd", "sql?details=true&length=10000")


@dataclass(frozen=True)
class Told:
    """All output of a session, by its place."""

    spark: SparkSession
    log: Path

    def everywhere(self, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
        context = self.spark.sparkContext
        folder = Path((context.getConf().get("spark.eventLog.dir") or "").removeprefix("file:").replace("//", "/"))
        texts = {
            "event log": "".join(path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()),
            "Spark's log": self.log.read_text(),
            "our log": caplog.text,
        }
        for page in PAGES:
            with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}") as answer:
                texts[f"UI: {page}"] = json.dumps(json.load(answer))
        return texts


@pytest.fixture
def told(spark: SparkSession, tmp_path: Path) -> Iterator[Told]:
    """Spark's own log goes to a file as well, with all that it has to say."""
    jvm: Any = spark.sparkContext._jvm
    path = tmp_path / "spark.log"
    appender = jvm.org.apache.logging.log4j.core.appender.FileAppender.newBuilder()
    layout = jvm.org.apache.logging.log4j.core.layout.PatternLayout.createDefaultLayout()
    file = appender.setName(f"test {uuid.uuid4()}").setLayout(layout).withFileName(str(path)).build()
    root = jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    file.start()
    root.addAppender(file)
    spark.sparkContext.setLogLevel("DEBUG")
    yield Told(spark, path)
    spark.sparkContext.setLogLevel("ERROR")
    root.removeAppender(file)
    file.stop()


def test_no_secret_shows_anywhere(
    spark: SparkSession,
    queue: QueueTable,
    connect: Connect,
    settings: ConnectionSettings,
    told: Told,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Canaries beside them are printed on purpose: every searched place has to show those."""
    caplog.set_level(logging.DEBUG)
    key, canary = f"hush-{uuid.uuid4().hex}", f"canary-{uuid.uuid4().hex}"
    drains = _kept(monkeypatch)
    queue.send([Message({}, b"hush-body")] * 20)
    staging = StagingFolder(LocalFileSystem(secret=key, skip_instance_cache=True), str(tmp_path), tmp_path.as_uri())
    engine = executors.SparkEngine(spark, settings, tasks=2)
    drained = Drain(
        connect, queue.address, staging, DrainRequest(options=DrainOptions(rows_per_part=5)), engine=engine
    ).run()
    assert drained.batch.messages == 20

    spark.sparkContext.setJobDescription(canary)
    spark.sql(f"SELECT '{canary}' AS told").collect()
    spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
    logging.getLogger("test").debug(canary)

    texts = told.everywhere(caplog)
    (drained_rdd,) = drains
    texts["function"], texts["lineage"] = _pickled(drained_rdd), (drained_rdd.toDebugString() or b"").decode()
    assert "drain_tasks" in texts["function"]
    assert "PythonRDD" in texts["lineage"]
    silent = {"function", "lineage", "UI: environment", "UI: allexecutors", "UI: storage/rdd"}
    assert {where for where, text in texts.items() if canary not in text} == silent
    assert "America/Sao_Paulo" in texts["UI: environment"]
    texts["output"] = "".join(capfd.readouterr())
    assert len(str(settings.password)) > 10
    for secret in (str(settings.password), key, "hush-body"):
        assert [where for where, text in texts.items() if secret in text] == []


def _kept(monkeypatch: pytest.MonkeyPatch) -> list[RDD[Any]]:
    """The RDDs whose action drains."""
    drains: list[RDD[Any]] = []
    make: Callable[..., RDD[Any]] = executors.drained_reports

    def keep(*arguments: Any) -> RDD[Any]:
        drains.append(make(*arguments))
        return drains[-1]

    monkeypatch.setattr(executors, "drained_reports", keep)
    return drains


def _pickled(drained: Any) -> str:
    """The function, as it goes to executors."""
    from pyspark.core.rdd import _prepare_for_python_RDD

    command = (drained.func, None, drained._prev_jrdd_deserializer, drained._jrdd_deserializer)
    return bytes(_prepare_for_python_RDD(drained.ctx, command)[0]).decode("latin-1")
