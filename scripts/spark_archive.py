"""Make an archive of the classes that Spark loads, so that Java machines of the tests and the demo start faster.

``make setup`` runs ``python scripts/spark_archive.py`` once for the virtual environment. An archive is for one Java and
one class path: Java checks both, and starts without an archive that was made for others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from importlib.metadata import version
from pathlib import Path

ARCHIVE = Path(sys.prefix, f"spark-{version('pyspark')}.jsa")
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewRatio=1"
"""Options for a Java machine that lives for minutes, as in tests and the demo: optimized code would not pay off.

Without an optimizer Java keeps 48 MB for code, and would compile methods again and again in a long session.
"""


_SECONDS = 600.0
"""Seconds until the making of an archive is given up, which takes 20 on a quiet machine."""


def java_options() -> str:
    """Return the options in ``SPARK_SUBMIT_OPTS`` for the use of the archive; empty without an archive."""
    return f'"-XX:SharedArchiveFile={ARCHIVE}" -Xshare:auto -Xlog:disable' if ARCHIVE.exists() else ""


def quick_start() -> dict[str, str]:
    """Return the environment of a short Spark session that starts fast."""
    return {"SPARK_SUBMIT_OPTS": f"{QUICK} {java_options()}", "SPARK_LAUNCHER_OPTS": QUICK}


def make() -> None:
    """Run an example job in a Java machine that writes the archive when it ends."""
    new = ARCHIVE.with_suffix(".new")
    environment = os.environ | {"SPARK_SUBMIT_OPTS": f'{QUICK} "-XX:ArchiveClassesAtExit={new}"'}
    with tempfile.TemporaryDirectory(prefix="sqlqueue-archive-") as folder:
        making = subprocess.Popen(
            [sys.executable, __file__, folder],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            # Java ends after Python, and keeps the pipe open until the archive is written.
            output, _ = making.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(making.pid, signal.SIGKILL)
            output, _ = making.communicate()
            new.unlink(missing_ok=True)
    if making.returncode or not new.exists():
        sys.stderr.write(f"No archive of Spark's classes was made, so Spark starts more slowly.\n{output}\n")
        return
    new.replace(ARCHIVE)


def load(folder: Path) -> None:
    """Load the classes that a session, a batch, a table and a report need."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.messages.message import encode_headers
    from airflow_sqlqueue.messages.row import drained_row_schema
    from airflow_sqlqueue.spark import local_session
    from airflow_sqlqueue.traffic import generate

    sys.path.insert(0, str(Path(__file__).parent.parent / "example_dags"))
    import audit_job  # type: ignore[import-not-found]

    rows = [
        {
            "Id": str(message.id),
            "Headers": message.headers if isinstance(message.headers, str) else encode_headers(message.headers),
            "Body": message.body,
            "RowVersion": number,
            "Expired": False,
        }
        for number, message in enumerate(generate(200, seed=1))
    ]
    path = folder / "batch" / f"part-{uuid.uuid4()}.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=drained_row_schema()), path)
    batch = Batch("batch", "audit", "sealed", (str(path),), 1, messages=len(rows), bytes=path.stat().st_size)
    with local_session("archive", config={"spark.ui.enabled": "true", "spark.ui.port": "0"}) as spark:
        audit_job.run(spark, batch, str(folder / "lake"), str(folder / "report.html"), str(folder / "tables"))


if __name__ == "__main__":
    make() if len(sys.argv) == 1 else load(Path(sys.argv[1]))
