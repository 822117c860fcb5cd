"""Run every sink at once, to be killed: ``python sinks_program.py plan.json``. It says which have ended, and waits."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import (
    foreach_batch,
    load_batch,
    local_session,
    read_batch,
    register,
    typed_columns,
    write_delta,
    write_iceberg,
    write_partitions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SINKS = ("delta", "merged", "lake", "streamed")


def sinks(
    spark: SparkSession, plan: dict[str, Any], on_stream: Callable[[], object] = lambda: None
) -> dict[str, Callable[[], object]]:
    """Sinks by name: each writes the batch of the plan below its root or to its table; one the queue's messages."""
    batch = load_batch(spark, plan["batch"])
    rows = read_batch(spark, batch).select("message_id", "Body")
    root = plan.get("root")
    writes: dict[str, Callable[[], object]] = {
        "delta": lambda: write_delta(rows, f"{root}/delta", batch),
        "merged": lambda: write_delta(rows, f"{root}/merged", batch, merge_on="message_id"),
        "lake": lambda: write_partitions(rows, f"{root}/lake", batch),
        "iceberg": lambda: write_iceberg(rows, plan["table"], batch),
        "streamed": lambda: stream(spark, plan, on_stream),
    }
    return {name: writes[name] for name in plan["sinks"]}


def stream(spark: SparkSession, plan: dict[str, Any], on_stream: Callable[[], object]) -> None:
    register(spark, ConnectionSettings.from_url(plan["server"]))
    options = {"queue": plan["queue"], "stream": plan["stream"], "partitions": 1}
    messages = typed_columns(spark.readStream.format("sqlqueue").options(**options).load())
    writer = messages.select("message_id", "Body").writeStream.option("checkpointLocation", plan["checkpoint"])
    sink = foreach_batch(write_delta, f"{plan['root']}/streamed")

    def write(rows: DataFrame, number: int) -> None:
        on_stream()
        sink(rows, number)

    writer = writer.foreachBatch(write)
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    streaming = threading.Event()
    if "streamed" not in plan["sinks"]:
        streaming.set()
    with local_session("killed", "local[4]", plan["config"]) as spark:

        def run(name: str, write: Callable[[], object]) -> None:
            try:
                if name != "streamed":
                    # Spark waits ten seconds, and no more, for the process that reads a stream.
                    streaming.wait()
                write()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()

        for name, write in sinks(spark, plan, streaming.set).items():
            threading.Thread(target=run, args=(name, write)).start()
        threading.Event().wait()


if __name__ == "__main__":
    main()
