"""The hook's methods on batches: drain, list, read back, mark consumed, requeue, sweep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import ConfigurationError, TransactionError
from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.transactions import current_transaction

_CONNECTION = re.compile(r"(?:s3|s3a|gs|gcs)://[^/@:]+@|(?:abfss?|az)://[^/@:]+@[^/@.]+(?:/|$)")
"""URLs as Airflow's object storage has them, with a connection. ``container@account.dfs...`` is Azure's own form."""

if TYPE_CHECKING:
    import uuid
    from datetime import timedelta
    from os import PathLike

    from airflow.sdk import ObjectStoragePath
    from pyspark.sql import DataFrame, SparkSession

    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.drain.drain import DrainResult, Engine
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.drain.quarantine import QuarantinedMessage
    from airflow_sqlqueue.drain.requeue import RequeueResult
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.drain.sweep import SweepOptions, SweepResult


def staging_folder(location: str | PathLike[str] | ObjectStoragePath) -> StagingFolder:
    """A staging folder as DAGs name it: a path, a URL, also with an Airflow connection (``s3://connection@bucket/...``).

    Raises :class:`ConfigurationError` for one that cannot be used.
    """
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if isinstance(location, str) and _CONNECTION.match(location):
        from airflow.sdk import ObjectStoragePath

        return StagingFolder.of(ObjectStoragePath(location))
    return StagingFolder.of(location)


class BatchMethods(QueueConnectionHook):
    """What can be done with batches."""

    def drain(
        self,
        queue_name: str,
        staging: str | PathLike[str] | ObjectStoragePath | None = None,
        *,
        stage: str = "files",
        batch_id: uuid.UUID | None = None,
        renew: bool = False,
        origin: str = "",
        options: DrainOptions | None = None,
        engine: str = "threads",
        spark: SparkSession | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> DrainResult:
        """Drain a queue into a sealed batch: exactly once, from the queue to the batch.

        ``stage`` is ``files`` for Parquet files under ``staging``, or ``table`` for a table beside the queue, without a
        staging folder; :meth:`read_batch` reads both. The same ``batch_id`` resumes an open batch and returns a sealed
        one; with ``renew`` a new batch is drained where that one was consumed or put back. See
        :class:`airflow_sqlqueue.drain.drain.Drain`. ``engine`` is where the workers run: ``threads`` of this process,
        or ``spark``, the executors of the session ``spark``
        (:class:`airflow_sqlqueue.spark.executors.SparkEngine`), which need this package and an ODBC driver, and reach
        the server and ``staging``. A batch that one engine began, another may resume.
        """
        if current_transaction(self.queue_connection.settings) is not None:
            raise TransactionError("A drain commits its parts one by one: call it outside the transaction.")
        from airflow_sqlqueue.drain.drain import Drain
        from airflow_sqlqueue.drain.stages.factory import stage_of

        folder = None if staging is None else staging_folder(staging)
        place = stage_of(stage, folder, self.ledger_schema)
        return Drain(
            self.session,
            self.find_queue(queue_name),
            place,
            batch_id=batch_id,
            renew=renew,
            origin=origin,
            options=options,
            ledger_schema=self.ledger_schema,
            engine=self._engine(engine, spark),
            on_progress=on_progress,
        ).run()

    def _engine(self, name: str, spark: SparkSession | None) -> Engine | None:
        if name not in ("threads", "spark"):
            raise ConfigurationError(f"The engine {name!r} is not known: use threads or spark.")
        if name == "threads":
            return None
        if spark is None:
            raise ConfigurationError("The engine spark needs a session to drain with: give it as spark=...")
        from airflow_sqlqueue.spark.executors import SparkEngine

        read = self.queue_connection
        return SparkEngine(spark, read.settings, lock_timeout=read.lock_timeout)

    def batches(
        self, queue_name: str | None = None, *, states: Sequence[str] = (), older_than: timedelta | None = None
    ) -> list[BatchInfo]:
        """The batches of a queue, or all of the connection's database; ``older_than`` goes by the time in their state.

        See :func:`airflow_sqlqueue.drain.batches.batches`.
        """
        from airflow_sqlqueue.drain.batches import batches

        queue = self.find_queue(queue_name).canonical if queue_name else None
        with self._ledger(self._catalog(queue_name)) as ledger:
            return batches(ledger, states=states, queue=queue, older_than=older_than)

    def batch(self, batch_id: uuid.UUID, queue_name: str | None = None) -> Batch:
        """The manifest of a sealed batch, from the ledger of the queue's database (the connection's unless named)."""
        with self._ledger(self._catalog(queue_name)) as ledger:
            return ledger.manifest(batch_id)

    def read_batch(self, spark: SparkSession, batch: Batch) -> DataFrame:
        """The messages of a sealed batch, whether in files or in a table, as a DataFrame.

        Of a batch in a table Spark's tasks read with this connection's login, which is in no plan. Where there is no
        Airflow, :func:`airflow_sqlqueue.spark.read_batch` takes ``queue_connection.settings``, or others.
        """
        from airflow_sqlqueue.spark import read_batch

        return read_batch(spark, batch, self.queue_connection.settings, ledger_schema=self.ledger_schema)

    def mark_consumed(self, batch: Batch) -> None:
        """Mark a sealed batch consumed: it was read for good. Idempotent; raises BatchError for any other state."""
        # The routing may have changed since the drain: the manifest's own address says where the ledger stands.
        with self._ledger(AddressResolver().resolve(batch.queue).catalog) as ledger:
            ledger.consume(batch)

    def requeue(
        self,
        batch_id: uuid.UUID,
        queue_name: str | None = None,
        *,
        staging: str | PathLike[str] | ObjectStoragePath | None = None,
    ) -> RequeueResult:
        """Put a sealed batch back into its queue, in one transaction, or in the :meth:`transaction` under way.

        Same ids, order kept; exactly once, however often it is called. ``queue_name`` says in which database the ledger
        stands (the connection's unless named), ``staging`` how to reach an object store that takes an Airflow
        connection. See :func:`airflow_sqlqueue.drain.requeue.requeue`.
        """
        from airflow_sqlqueue.drain.requeue import requeue

        folder = None if staging is None else staging_folder(staging)
        with self._ledger(self._catalog(queue_name)) as ledger:
            return requeue(ledger, batch_id, folder)

    def sweep(
        self,
        staging: str | PathLike[str] | ObjectStoragePath | None = None,
        queue_name: str | None = None,
        options: SweepOptions | None = None,
    ) -> SweepResult:
        """Remove orphaned part files from a staging folder, and batches that are done with and past their retention.

        Without a folder only batches that have no files go: those of the stage ``table``. The ledger is that of the
        queue's database (the connection's unless named). See :func:`airflow_sqlqueue.drain.sweep.sweep`.
        """
        from airflow_sqlqueue.drain.sweep import sweep

        with self._ledger(self._catalog(queue_name)) as ledger:
            return sweep(ledger, None if staging is None else staging_folder(staging), options)

    def quarantine(self, queue_name: str) -> list[QuarantinedMessage]:
        """The messages that drains of a queue set aside because no file can keep them."""
        from airflow_sqlqueue.drain.quarantine import Quarantine

        queue = self.find_queue(queue_name)
        with self.enlisted_session() as session:
            return Quarantine(session, queue.catalog, self.ledger_schema).messages(queue)

    def requeue_quarantined(self, queue_name: str, numbers: Sequence[int]) -> None:
        """Put messages of :meth:`quarantine` back into their queue, by their numbers, all or none.

        See :meth:`airflow_sqlqueue.drain.quarantine.Quarantine.requeue`.
        """
        from airflow_sqlqueue.drain.quarantine import Quarantine

        queue = self.find_queue(queue_name)
        with self.enlisted_session() as session:
            Quarantine(session, queue.catalog, self.ledger_schema).requeue(QueueTable(session, queue), numbers)

    def _catalog(self, queue_name: str | None) -> str:
        return self.find_queue(queue_name).catalog if queue_name else self.queue_connection.settings.database

    @contextmanager
    def _ledger(self, catalog: str) -> Iterator[Ledger]:
        with self.enlisted_session() as session:
            yield Ledger(session, catalog, self.ledger_schema)
