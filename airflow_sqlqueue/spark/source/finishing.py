"""The end of a stream's claims by what its table holds, where no query is at hand, as after a pipeline.

Source: docs/guides/pipelines.md, "The last claim".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import BatchError, ConfigurationError
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.spark.source.claims import Claims

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = {"Id": "string", "RowVersion": "bigint"}
"""Columns that name a message of a claim, with their types."""

_AT_ONCE = 50_000
"""Messages of one join with the table."""


def finish_by_table(table: DataFrame, claims: Claims) -> int:
    """Commit the claims, in their order, whose messages the table has, and return how many of the stream are done.

    A claim without a message in the table ends this: it was not stored. Raises :class:`BatchError` for a claim that the
    table has in part, and :class:`ConfigurationError` for a table without the columns Id and RowVersion.
    """
    missing = _KEYS.keys() - {name for name, kind in table.dtypes if _KEYS.get(name) == kind}
    if missing:
        raise ConfigurationError(
            f"The table has no column {' and no column '.join(sorted(missing))} as a queue has it: keep Id and "
            "RowVersion in the table of a stream."
        )
    done = claims.done
    while (messages := claims.messages(done + 1)) is not None:
        known = stored = 0
        for keys in _chunks(messages):
            known, stored = known + len(keys), stored + _stored(table, keys)
        if known and not stored:
            break
        if stored < known:
            raise BatchError(
                f"The table has {stored:,} of the {known:,} messages of claim {done + 1}: give the table that the "
                "stream writes, without a filter, or run the query once more, which commits the claim."
            )
        done += 1
        claims.commit_number(done)
    return done


def _stored(table: DataFrame, keys: list[tuple[str, int]]) -> int:
    """Return how many of the messages are in the table."""
    numbers = [number for _, number in keys]
    near = table.where(table.RowVersion.between(min(numbers), max(numbers))).select(*_KEYS)
    wanted = table.sparkSession.createDataFrame(keys, ", ".join(f"{name} {kind}" for name, kind in _KEYS.items()))
    return wanted.join(near, list(_KEYS), "leftsemi").count()


def _chunks(pages: Iterable[list[Row]]) -> Iterator[list[tuple[str, int]]]:
    keys = ((str(row.id).lower(), row.row_version) for page in pages for row in page)
    while chunk := list(islice(keys, _AT_ONCE)):
        yield chunk
