"""Maven packages of Delta Lake, of Iceberg and of S3 for each version of Spark.

``make jars``, the table of docs/guides/spark-sinks.md and the sentences of errors are made from :data:`PACKAGES`;
``scripts/jars.lock`` pins the checksums.
"""

from __future__ import annotations

DELTA, ICEBERG, S3A = "Delta Lake", "Iceberg", "S3 (hadoop-aws)"

PACKAGES = {
    "4.0": {
        DELTA: "io.delta:delta-spark_4.0_2.13:4.4.0",
        ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        S3A: "org.apache.hadoop:hadoop-aws:3.4.1",
    },
    "4.1": {
        DELTA: "io.delta:delta-spark_4.1_2.13:4.4.0",
        ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        S3A: "org.apache.hadoop:hadoop-aws:3.4.2",
    },
    "4.2": {
        DELTA: "io.delta:delta-spark_4.2_2.13:4.4.0",
        S3A: "org.apache.hadoop:hadoop-aws:3.5.0",
    },
    "4.3": {
        S3A: "org.apache.hadoop:hadoop-aws:3.5.0",
    },
}
"""Packages by Spark's version and by what they bring, as ``spark.jars.packages`` takes them. Maven Central has no
others. hadoop-aws is of the Hadoop that PySpark has.
"""


def package_for(what: str, spark: str) -> str | None:
    """Package that brings ``what`` to a version of Spark such as ``4.1.3``; None where none is known."""
    return PACKAGES.get(minor(spark), {}).get(what)


def missing_package(what: str, spark: str) -> str:
    """Sentence for a Spark for which :func:`package_for` knows no package."""
    known = [version for version, packages in PACKAGES.items() if what in packages]
    versions = f"{', '.join(known[:-1])} and {known[-1]}"
    return f"{what} has no known release for Spark {minor(spark)}, only for {versions}: use one of these."


def minor(version: str) -> str:
    """Minor version, ``4.1`` of ``4.1.3``."""
    return ".".join(version.split(".")[:2])
