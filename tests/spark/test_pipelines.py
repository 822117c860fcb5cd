"""The pipeline of the manual, run by Spark's own command, and the end of its claim."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.versions.spark import STREAMS
from tests.docs.markdown import blocks
from tests.spark.conftest import needs

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides"

FINISH = """
import json, sys
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import local_session

{block}

if __name__ == "__main__":
    url, warehouse = sys.stdin.read().split()
    with local_session("finish", "local[1]") as spark:
        types = spark.read.parquet(warehouse + "/audit_by_type").collect()
        done = finish_pipeline(spark, ConnectionSettings.from_url(url), warehouse)
    print(json.dumps([done, {{row["message_type"]: row["count"] for row in types}}]))
"""


@pytest.mark.spark
@pytest.mark.timeout(1500)
@needs(STREAMS)
def test_a_pipeline_takes_each_message_once(settings: ConnectionSettings, server_url: str, tmp_path: Path) -> None:
    client = QueueClient(settings)
    client.tables.create("audit")
    client.queue("audit").send(Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: f"Shop.T{n % 2}"}) for n in range(3))
    shutil.copytree(GUIDE / "pipelines", tmp_path / "shop")
    specification = tmp_path / "shop" / "spark-pipeline.yml"
    text = specification.read_text("utf-8")
    specification.write_text(text.replace("file:///data/shop", (tmp_path / "storage").as_uri()), "utf-8")
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    paths = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    environment = {**os.environ, **python, **paths, "SQLQUEUE_URL": server_url}
    ran = subprocess.run(
        ["spark-pipelines", "run", "--spec", str(specification)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Run is COMPLETED" in ran.stdout + ran.stderr, ran.stderr
    (info,) = client.streams.list("audit")
    assert (info.name, info.done, info.claims, info.messages) == ("lake", 0, 1, 3)
    with pytest.raises(BatchError, match="may have the last 3 messages"):
        client.streams.release("lake")

    (block,) = [block for block in blocks(GUIDE / "pipelines.md") if block.language == "python"]
    script = tmp_path / "finish.py"
    script.write_text(FINISH.format(block=block.text), "utf-8")
    warehouse = tmp_path / "spark-warehouse"
    finished = subprocess.run(
        [sys.executable, str(script)],
        input=f"{server_url} {warehouse}",
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == [1, {"Shop.T0": 2, "Shop.T1": 1}]
    assert client.streams.release("lake").messages == 0
    assert client.tables.drop("audit") == 0
