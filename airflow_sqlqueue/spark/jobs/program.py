"""Common part of the jobs' programs: arguments, session and input."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.spark.batch import read_batch, read_bodies, verify_count
from airflow_sqlqueue.spark.manifests import load_batch
from airflow_sqlqueue.spark.session import local_session
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.server.settings import ConnectionSettings


def need_columns(rows: DataFrame, *names: str) -> None:
    """Raise :class:`ConfigurationError` for rows without one of these columns."""
    if missing := [name for name in names if name not in rows.columns]:
        raise ConfigurationError(
            f"The rows have no column {missing[0]!r}: give what read_batch returns, or the table of the audit job."
        )


def connection_of_environment() -> ConnectionSettings:
    """Return the server of ``SQLQUEUE_URL``. Raises :class:`ConfigurationError` if it does not name a server."""
    return ServerAccess.of(SourceOptions({}), None).client().settings


class Program:
    """A job as a program for ``python -m`` or ``spark-submit``, whose settings of the session then apply."""

    def __init__(self, doc: str, master: str = "local[*]") -> None:
        self._parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
        self.add("--master", default=master, help="the master to use without spark-submit (%(default)s)")
        self._options = argparse.Namespace()

    def add(self, *names: str, **settings: Any) -> None:
        """Add an argument, with the parameters of argparse."""
        self._parser.add_argument(*names, **settings)

    def add_manifest(self, **settings: Any) -> None:
        """Add ``--manifest``, which a drain gives to its application."""
        self.add("--manifest", help="the manifest of a sealed batch: a path or a URI", **settings)

    def add_source(self) -> None:
        """Add the arguments of the messages' source: a batch or a table."""
        self.add_manifest()
        self.add("--table", help="a folder of Parquet files, as the audit job writes it, instead of a batch")
        self.add("--where", help="a condition in Spark's SQL, as \"message_type = 'Shop.PlaceOrder'\"")

    @contextmanager
    def start(self, arguments: Sequence[str] | None) -> Iterator[tuple[SparkSession, argparse.Namespace]]:
        """Start a session for the block. An error of the input ends the program with one sentence."""
        self._options = options = self._parser.parse_args(arguments)
        if "table" in options and (options.table is None) == (options.manifest is None):
            self._parser.error("give either --manifest or --table")
        try:
            if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started this process
                from pyspark.sql import SparkSession

                yield SparkSession.builder.getOrCreate(), options
            else:
                with local_session(self._parser.prog, master=options.master) as spark:
                    yield spark, options
        except SqlQueueError as error:
            sys.exit(str(error))

    def fail(self, message: str) -> NoReturn:
        """End the program with a sentence about its arguments."""
        self._parser.error(message)

    def batch(self, spark: SparkSession) -> Batch:
        """Return the batch of the manifest."""
        return load_batch(spark, self._options.manifest)

    def connection(self, batch: Batch) -> ConnectionSettings | None:
        """Return the server of a batch that is staged in a table, by ``SQLQUEUE_URL``; None for a batch in files."""
        return None if batch.stage == "files" else connection_of_environment()

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the messages that the arguments name.

        Those of a batch are checked by :func:`verify_count`, and have their bodies, however large these are.
        """
        from pyspark.errors import AnalysisException

        batch = None
        if self._options.table is not None:
            try:
                rows = spark.read.parquet(self._options.table)
            except AnalysisException as error:
                raise ConfigurationError(
                    f"There is no table of Parquet files in {self._options.table}: give the folder that the audit job "
                    "writes."
                ) from error
        else:
            batch = self.batch(spark)
            rows = read_batch(spark, batch, self.connection(batch))
            verify_count(rows, batch)
        if self._options.where is not None:
            try:
                rows = rows.where(self._options.where)
            except AnalysisException as error:
                raise ConfigurationError(
                    f"--where is not a condition of Spark's SQL on the columns of the messages: {error.getCondition()}."
                ) from error
        return rows if batch is None else read_bodies(rows, batch)

    def answer(self, **counts: int) -> None:
        """Print the counts as one line of JSON."""
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
