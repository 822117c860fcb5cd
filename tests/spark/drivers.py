"""Drivers of a cluster, in processes of their own, which can be killed; and what they do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_cluster import SparkCluster

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.spark.executors import SparkEngine
from airflow_sqlqueue.versions.spark import STREAMS
from tests.faults.faulty import FaultyStage
from tests.spark.kill_barrier import KillBarrier, halting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKS = (*(("stream",) if STREAMS.is_available else ()), "read", "files", "table", "write")
"""All that a driver can do with this Spark. A write by format is done last: it asks for the session that is active in
its thread."""

_SECONDS = 800.0
_START_SECONDS = 500.0
"""Longest start of a stream. Spark gives each of its Python processes 10 seconds to begin, in which a busy machine may
not start one; the stream is then started again."""

_SMALL_PARTS = DrainOptions(rows_per_statement=3, rows_per_part=6)
_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Scene:
    """Work of a driver: queues by the name of the work, the batches that it drains, and one that it reads."""

    settings: ConnectionSettings
    queues: dict[str, str]
    batches: dict[str, uuid.UUID]
    sealed: uuid.UUID
    folder: Path
    name: str

    @property
    def sink(self) -> Path:
        """Folder of the stream's sink."""
        return self.folder / "sink"


class Driver:
    """A process with a session of a cluster, in a process group of its own with the Java machine of that."""

    def __init__(self, cluster: SparkCluster, executors: int) -> None:
        self._pipe, child = _context.Pipe()
        arguments = (cluster.url, cluster.settings(executors), child)
        self._process = _context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        child.close()
        assert self._answer() == "ready"

    def begin(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Have the driver call a function with its session and these arguments."""
        self._pipe.send((work, arguments))

    def result(self) -> Any:
        """Return value of the function."""
        answer = self._answer()
        if isinstance(answer, str):
            raise AssertionError(answer)
        return answer[0]

    def was_killed(self) -> bool:
        """Wait for the end of the process. Raises the error of its work, unless it was killed."""
        if self._pipe in wait([self._process.sentinel, self._pipe], _SECONDS):
            with suppress(EOFError, ConnectionResetError):
                raise AssertionError(f"the driver was not killed: {self._pipe.recv()}")
        self._process.join(_SECONDS)
        return self._process.exitcode == -9

    @property
    def group(self) -> int:
        """The process group."""
        assert self._process.pid is not None
        return self._process.pid

    def close(self) -> None:
        self._pipe.close()
        self._process.join(60)
        self._process.kill()

    def _answer(self) -> Any:
        assert self._pipe.poll(_SECONDS), "the driver does not answer"
        return self._pipe.recv()


def _serve(url: str, settings: dict[str, str], pipe: Connection[Any, Any]) -> None:
    os.setpgrp()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # For the processes in which Spark plans reads.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with local_session("tests of a cluster", url, settings) as spark:
        pipe.send("ready")
        while True:
            try:
                work, arguments = pipe.recv()
            except EOFError:
                return
            try:
                answer: Any = [work(spark, *arguments)]
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            pipe.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def work_at_once(
    spark: SparkSession, scene: Scene, works: tuple[str, ...], barrier: KillBarrier | None
) -> dict[str, list[int]]:
    """Do works, with a barrier in the middle of each; return their read or drained messages.

    Each begins when the one before waits in its middle: a machine that starts all at once is too slow for Spark.
    """
    from pyspark import InheritableThread

    from airflow_sqlqueue.spark.source.data_source import data_source_for

    source: Any = data_source_for(scene.settings)
    spark.dataSource.register(source if barrier is None else halting(source, barrier))
    results: dict[str, list[int]] = {}
    failures: list[BaseException] = []

    def do(work: str) -> None:
        try:
            results[work] = _WORKS[work](spark, scene, None if barrier is None else barrier.of(work))
        except BaseException as error:
            failures.append(error)
            if barrier is not None:
                barrier.end()

    threads: list[threading.Thread] = []
    for work in works[:-1]:
        thread = InheritableThread(target=do, args=(work,), session=spark, daemon=True)
        thread.start()
        while thread.is_alive() and (barrier is None or not barrier.has(work)):
            thread.join(0.05)
        threads.append(thread)
    do(works[-1])
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def _drain(spark: SparkSession, scene: Scene, middle: Callable[[], None] | None, work: str, stage: Stage) -> list[int]:
    settings = scene.settings
    if middle is not None:
        stage = FaultyStage(stage, scene.folder / f"{work} had its fault", middle)
    address = AddressResolver(default_catalog=settings.database).resolve(scene.queues[work])
    engine = SparkEngine(spark, settings, lock_timeout=30, tasks=4, messages_per_task=15)
    options = replace(_SMALL_PARTS, locked_wait_seconds=60)
    drain = Drain(
        lambda: Session(settings),
        address,
        stage,
        DrainRequest(batch_id=scene.batches[work], options=options),
        engine=engine,
    )
    batch = drain.run().batch
    return [batch.messages + batch.expired]


def _files(spark: SparkSession, scene: Scene, middle: Callable[[], None] | None) -> list[int]:
    return _drain(spark, scene, middle, "files", FileStage(StagingFolder.of(scene.folder / "staging")))


def _table(spark: SparkSession, scene: Scene, middle: Callable[[], None] | None) -> list[int]:
    return _drain(spark, scene, middle, "table", TableStage())


def _read(spark: SparkSession, scene: Scene, _: object) -> list[int]:
    frame = spark.read.format("sqlqueue").option("batch", str(scene.sealed)).schema("Body binary").load()
    return sorted(int(row["Body"]) for row in frame.collect())


def _stream(spark: SparkSession, scene: Scene, _: object) -> list[int]:
    options = {"queue": scene.queues["stream"], "stream": scene.name, "maxMessages": "30", "partitions": "2"}
    stream = spark.readStream.format("sqlqueue").options(**options).schema("Body binary").load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(scene.folder / "checkpoint"))
    from pyspark.errors import StreamingQueryException

    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            writer.trigger(availableNow=True).start(str(scene.sink)).awaitTermination()
            return []
        except StreamingQueryException as error:
            if "connect back" not in str(error) or time.monotonic() > end:
                raise


def _write(spark: SparkSession, scene: Scene, _: object) -> list[int]:
    frame = spark.range(0, 60, 1, 4).selectExpr("cast(id AS string) AS Body")
    writer = frame.write.format("sqlqueue").options(queue=scene.queues["write"], sendId=scene.name)
    writer.mode("append").save()
    return []


_WORKS: dict[str, Callable[[SparkSession, Scene, Callable[[], None] | None], list[int]]] = {
    "files": _files,
    "table": _table,
    "read": _read,
    "stream": _stream,
    "write": _write,
}
