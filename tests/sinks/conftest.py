"""A Spark session with Delta Lake and s3a, of jars that ``make jars`` fetches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from jars import jars_for, stop_java

from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.versions.jars import DELTA, ICEBERG, missing_package, package_for
from tests.stores.conftest import bucket, s3, staging  # noqa: F401 - fixtures
from tests.stores.server import KEY, SECRET, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ruff: noqa: F811 - fixtures again

JARS, ICEBERG_JARS = jars_for("delta", "s3a"), jars_for("iceberg", "s3a")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            what, jars = (ICEBERG, ICEBERG_JARS) if "iceberg" in item.path.stem else (DELTA, JARS)
            needed = f"needs {what}: run `make jars`"
            reason = needed if package_for(what, pyspark.__version__) else missing_package(what, pyspark.__version__)
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.skipif(jars is None, reason=reason))


@pytest.fixture(scope="session")
def config(s3: S3Server) -> dict[str, str]:
    """Settings of a session with Delta and the S3 server, for tables of a few rows."""
    return {
        "spark.jars": ",".join(JARS or ()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.writeChecksumFile.enabled": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.hadoop.fs.s3a.endpoint": s3.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


@pytest.fixture(scope="module")
def spark(config: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in a Java machine of its own: the jars have to be there when it starts, and not for other tests."""
    stop_java()
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with local_session("sinks", config={**config, **warehouse}) as session:
        yield session
    stop_java()
