"""Arguments and rows of the sinks into tables, checked in one way.

Source: docs/design.md, "Exactly-once sinks".
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.versions.jars import missing_package, package_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE = re.compile(r"\w+(\.\w+){0,2}")
_STEP = re.compile(r"[\w .-]{0,100}")
_NULL_KEY = "A row has no value in a column of merge_on, by which it could be found again."


TIMES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Settings of a session that writes instants as 64-bit microseconds of UTC, which each reader knows.

Spark's default is INT96, a type that Parquet has given up: it has no statistics and no zone, and readers take years
before 1678 for others. Spark takes these settings of the session alone, not as options of a write.
"""

_lock = threading.Lock()
_used: dict[tuple[Any, ...], tuple[int, dict[str, str | None]]] = {}


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Provide the settings of a session for the block; the last of several blocks at once puts back the old ones."""
    key = (getattr(spark, "_jsparkSession", spark), tuple(settings.items()))
    with _lock:
        blocks, before = _used.get(key) or (0, {name: spark.conf.get(name, None) for name in settings})
        for name, value in settings.items():
            spark.conf.set(name, value)
        _used[key] = (blocks + 1, before)
    try:
        yield
    finally:
        with _lock:
            blocks, before = _used.pop(key)
            if blocks > 1:
                _used[key] = (blocks - 1, before)
            else:
                for name, old in before.items():
                    spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def is_table_name(table: str) -> bool:
    """True for a table's name in a catalog: up to three words with dots."""
    return _TABLE.fullmatch(table) is not None


def check_step(step: str) -> None:
    """Refuse a step whose name cannot be part of a key."""
    if not _STEP.fullmatch(step):
        raise ConfigurationError("A step's name has up to 100 letters, digits, blanks, dots, hyphens and underscores.")


def check_columns(df: DataFrame, names: Iterable[str]) -> None:
    """Refuse names of columns that the rows do not have."""
    if missing := [name for name in names if name not in df.columns]:
        raise ConfigurationError(f"The rows have no column {missing[0]}, which merge_on or partition_by names.")


def columns_in(names: str | Sequence[str] | None) -> list[str]:
    """Return the columns of an argument, which may be one name."""
    return [names] if isinstance(names, str) else list(names or ())


def unique_rows(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows without repetitions: one for each value of the keys. A row without a key fails."""
    from pyspark.sql import functions as sf

    known = {name: sf.coalesce(quoted(name), sf.raise_error(sf.lit(_NULL_KEY))) for name in keys}
    return df.withColumns(known).dropDuplicates(list(keys))


def quoted(name: str) -> str:
    """Name of a column or a part of a table's name, as Spark's SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def quoted_table(table: str) -> str:
    """Name of a table, each of its words quoted."""
    return ".".join(map(quoted, table.split(".")))


def how_to_get(what: str, spark: str, settings: str) -> str:
    """Sentence for a session without a kind of table: the package for its version of Spark, and the settings."""
    package = package_for(what, spark)
    if package is None:
        return f"This session has no {what}: {missing_package(what, spark)}"
    return f"This session has no {what}: start it with spark.jars.packages={package}, and with {settings}."
