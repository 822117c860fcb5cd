"""Batches that are repeated with other schemas or decoders, in tables of a format with commits.

A commit has all rows of its job, but an earlier run may have put messages into other tables.
Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.names import name_key
from airflow_sqlqueue.bodies.schemas import fields_of
from airflow_sqlqueue.spark.message_tables.parquet import ATTEMPT
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_sqlqueue.spark.message_tables.table_formats import CommitFormat


def leave_out_parsed(lake: CommitFormat, key: AnyKey, messages: Mapping[str, int]) -> None:
    """Leave no message of a batch in a table of unparsed messages that the table of its type has.

    ``messages`` has the number of each table that this run has written. Killed, it is done by the next run.
    """
    from pyspark.sql import functions as sf

    numbers, of_types = {name_key(table): number for table, number in messages.items()}, _of_types(lake, key, messages)
    if not of_types:
        return
    counts = (
        _of_batch(lake, table, key).groupBy(ATTEMPT).count().select(sf.lit(table), ATTEMPT, "count")
        for table in of_types
    )
    found: dict[str, dict[int, int]] = {}
    for table, attempt, count in _united(counts).collect():
        found.setdefault(table, {})[attempt] = count
    for table, attempts in found.items():
        # A type without a message that is parsed in this run may have its messages in its table.
        is_parsed = all(name_key(each) in numbers for each in of_types[table])
        if is_parsed and sum(attempts.values()) == numbers.get(name_key(table)):
            continue
        for attempt, count in sorted(attempts.items()):
            _leave_out(lake, of_types[table], table, key, attempt, count)


def _of_types(lake: CommitFormat, key: AnyKey, messages: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the tables of unparsed messages that may have some of a batch, with the tables of their types.

    Of messages without a table in one run, another run with other ``types`` may have written all tables of their types.
    """
    existing = {name_key(table): table for table in lake.tables()}
    written = {name_key(lake.of_type(table)) for table in messages}
    found = {}
    for table in existing.values():
        of_type = name_key(lake.of_type(table))
        if of_type != name_key(table) and of_type in written and of_type in existing:
            found[table] = [existing[of_type]]
    new = set(map(name_key, messages))

    @cache
    def has_batches(table: str) -> bool:
        # A table that this run has written needs no look.
        return name_key(table) in new or _has_batches(lake, table)

    of_none = existing.get(name_key(lake.table(None, is_unparsed=True)))
    if of_none is not None and has_batches(of_none):
        # There may be as many types as messages, but not as many tables; names that differ in case alone have one.
        names = _of_batch(lake, of_none, key).where("message_type IS NOT NULL").select("message_type").distinct()
        tables = (
            existing.get(name_key(lake.table(name, is_unparsed=is_unparsed)))
            for (name,) in names.toLocalIterator()
            for is_unparsed in (False, True)
        )
        found[of_none] = list(dict.fromkeys(table for table in tables if table is not None))
    known = {table: list(filter(has_batches, types)) for table, types in found.items() if has_batches(table)}
    return {table: types for table, types in known.items() if types}


def _has_batches(lake: CommitFormat, table: str) -> bool:
    """Return whether a table has batches: a run that was killed before its first commit, or a person, leaves others."""
    columns = lake.columns(table)
    return columns is not None and {COLUMN, ATTEMPT} <= fields_of(columns).keys()


def _leave_out(lake: CommitFormat, parsed: Sequence[str], table: str, key: AnyKey, attempt: int, count: int) -> None:
    """Remove the rows of a batch and an attempt, ``count`` in all, that these tables have."""
    own = _of_batch(lake, table, key).where(f"{ATTEMPT} = {attempt:d}").drop(COLUMN, ATTEMPT)
    has = _united(_of_batch(lake, each, key).select("RowVersion", "message_id") for each in parsed)
    rest = own.join(has, ["RowVersion", "message_id"], "left_anti").select(own.columns)
    left = rest.count()
    if left == count:
        return
    if left:
        lake.replace(rest, table, partition_of(key), attempt + 1)
    lake.remove(table, partition_of(key), attempt)


def _of_batch(lake: CommitFormat, table: str, key: AnyKey) -> DataFrame:
    return lake.read(table).where(f"{COLUMN} = '{partition_of(key)}'")


def _united(rows: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), rows)
