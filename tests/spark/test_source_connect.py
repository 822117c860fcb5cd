"""The format ``sqlqueue`` with Spark Connect, in a process of its own: a process has sessions of one kind only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.versions.spark import STREAMS
from tests.contract.conftest import run_sql

SCRIPT = '''
import json, os, sys, time, uuid
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.bodies.schemas import array, map_of, struct
from airflow_sqlqueue.spark import finish_stream, parse_bodies, register

if __name__ == "__main__":
    folder, queue = sys.argv[1:]
    settings = ConnectionSettings.from_url(os.environ.pop("TEST_URL"))
    config = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.ui.enabled": "false"}
    config["spark.eventLog.dir"] = "file://" + folder + "/log"
    spark = SparkSession.builder.remote("local[2]").config(map=config).getOrCreate()
    register(spark, settings)
    found = {"kind": type(spark).__module__}
    found["read"] = spark.read.format("sqlqueue").options(queue=queue, partitions=1).load().count()
    try:
        spark.read.format("sqlqueue").options(queue=queue, colour="x").load().count()
    except Exception as error:
        found["said"] = "has no option 'colour'" in str(error)
    body = spark.sql("""SELECT '{"a":"x","s":{"b":["y"]},"m":{"k":"z"}}' AS Body""")
    schema = struct({"a": "string", "s": struct({"b": array("string")}), "m": map_of("string")})
    parsed = parse_bodies(body, schema)
    parsed.write.parquet(folder + "/parsed")
    assert spark.read.schema(parsed.schema).parquet(folder + "/parsed").collect() == parsed.collect()
    found["parsed"] = [tuple(row)[:2] for row in parsed.collect()]
    rows = spark.range(0, 10, 1, 1).selectExpr("CAST(id AS string) AS Body")
    for _ in range(2):
        rows.write.format("sqlqueue").options(queue=queue, sendId=queue).mode("append").save()
    try:
        stream = spark.readStream.format("sqlqueue").options(queue=queue, stream=str(uuid.uuid4())).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
        end = time.monotonic() + 500  # as tests/spark/drivers.py, _START_SECONDS
        while True:
            query = writer.trigger(availableNow=True).start(folder + "/sink")
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as error:
                if "connect back" not in str(error) or time.monotonic() > end:
                    raise
        found["streamed"] = spark.read.parquet(folder + "/sink").count()
        found["claims"] = finish_stream(query, settings)
    except Exception as error:
        if "A stream of the format sqlqueue needs Spark" not in str(error):
            raise
    spark.stop()
    print(json.dumps(found))
'''


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_all_of_it_works_and_the_login_shows_nowhere(
    settings: ConnectionSettings, server_url: str, queue: QueueTable, tmp_path: Path
) -> None:
    queue.send(Message({}, b"%d" % n) for n in range(30))
    (tmp_path / "log").mkdir()
    script = tmp_path / "connect.py"
    script.write_text(SCRIPT, "utf-8")
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), queue.address.canonical],
        # SPARK_TESTING: Connect listens on any free port, as 15002 may be taken on this machine.
        env={**os.environ, **python, "TEST_URL": server_url, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "kind": "pyspark.sql.connect.session",
        "read": 30,
        "said": True,
        "parsed": [["x", [["y"]]]],
        **({"streamed": 40, "claims": 1} if STREAMS.is_available else {}),
    }
    (file,) = (tmp_path / "parsed").glob("*.parquet")
    # Other readers do not know the collations that Spark writes.
    assert b" collate " not in b"".join(pq.read_metadata(file).metadata.values())
    left = run_sql(queue.session, f"SELECT COUNT(*) FROM {queue.address.qualified_name}")[0][0]
    assert left == (0 if STREAMS.is_available else 40)
    log = "".join(file.read_text("utf-8") for file in (tmp_path / "log").rglob("*") if file.is_file())
    assert "sqlqueue" in log
    assert settings.password
    assert settings.password not in log + done.stdout + done.stderr
