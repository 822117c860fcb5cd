"""Write message tables, and die at a point: ``python tables_program.py plan.json``."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.spark.message_tables import (
    compact_message_tables,
    reparse,
    rewrite_message_table,
    table_formats,
    work_folder,
    write_message_tables,
)
from airflow_sqlqueue.spark.message_tables.work_folder import WorkFolder


def die() -> None:
    """End this process and its Java machine, which is in its group."""
    os.killpg(0, signal.SIGKILL)


def dying(kind: type, name: str, number: int, when: str, root: Path) -> None:
    """Replace a method: its call of that number, in whatever thread, is the last one."""
    method: Callable[..., Any] = getattr(kind, name)
    calls, lock = [0], threading.Lock()

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        with lock:
            calls[0] += 1
            is_last = calls[0] == number
        if is_last and when == "before":
            die()
        if is_last and when == "in":
            threading.Thread(target=die_with_a_file, args=(root, set(root.rglob("*.parquet"))), daemon=True).start()
        found = method(self, *arguments, **options)
        if is_last:
            die()
        return found

    setattr(kind, name, call)


def die_with_a_file(root: Path, known: set[Path]) -> None:
    """Die as soon as a task has begun to write a file."""
    while not set(root.rglob("*.parquet")) - known:
        time.sleep(0.001)
    die()


KINDS = {
    "work": WorkFolder,
    "schemas": SchemaFolder,
    "parquet": table_formats.ParquetFormat,
    "delta": table_formats.DeltaFormat,
    "iceberg": table_formats.IcebergFormat,
}


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    kind, name = plan["method"].split(".")
    if plan["is_large"]:
        work_folder._SMALL_BYTES = 0
    dying(KINDS[kind], name, plan["number"], plan["when"], Path(plan["watched"]))
    with local_session("killed", "local[2]", plan["config"]) as spark:
        if plan["rewrite"]:
            rewrite_message_table(spark, plan["location"], plan["rewrite"], **plan["options"])
        elif plan["is_compaction"]:
            compact_message_tables(spark, plan["location"], format=plan["options"]["format"])
        elif plan["batch"] is None:
            reparse(spark, plan["location"], **plan["options"])
        else:
            write_message_tables(spark, plan["batch"], plan["location"], **plan["options"])
    raise SystemExit("the point was not reached")


if __name__ == "__main__":
    main()
