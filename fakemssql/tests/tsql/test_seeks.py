"""FORCESEEK and INDEX: error 8622 where no index serves."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def numbers(client: Any, table: str) -> str:
    """A table of 3,000 rows with a nonclustered index on k."""
    some = f"(VALUES {', '.join(f'({n})' for n in range(15))})"
    client.ok(
        f"CREATE TABLE {table} (k int NOT NULL, v int, w varchar(20) NOT NULL DEFAULT 'w');"
        f" CREATE INDEX [k of {table}] ON {table} (k);"
        f" INSERT {table} (k, v) SELECT TOP (3000) ROW_NUMBER() OVER (ORDER BY a.n), 1"
        f" FROM {some} AS a (n) CROSS JOIN {some} AS b (n) CROSS JOIN {some} AS c (n); UPDATE STATISTICS {table}"
    )
    return table


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE k = 1",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX ([k of {0}])) WHERE w = 'w' AND k BETWEEN 1 AND 2",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX (2)) WHERE k IN (1, 2)",
        "SELECT n.k FROM {0} AS o JOIN {0} AS n WITH (FORCESEEK) ON n.k = o.v WHERE o.k = 1",
        "WITH all_of AS (SELECT * FROM {0} WITH (FORCESEEK)) SELECT k FROM all_of WHERE k = 1",
        "UPDATE n SET v = 3 FROM {0} AS n WITH (FORCESEEK) WHERE n.k = 1",
        "WITH head AS (SELECT TOP (1) v FROM {0} WITH (FORCESEEK) WHERE k > 1 ORDER BY k) DELETE FROM head",
    ],
)
def test_a_seek_that_an_index_serves(client: Any, numbers: str, text: str) -> None:
    client.ok(text.format(numbers))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM {0} WITH (FORCESEEK)",
        "SELECT TOP (1) k FROM {0} WITH (FORCESEEK) ORDER BY k",
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE v = 1",  # the second key of one index, the first of a disabled one
        "SELECT k FROM {0} WITH (FORCESEEK) WHERE k + 1 = 2",
        "SELECT k FROM {0} WITH (FORCESEEK, INDEX ([w of {0}])) WHERE k = 1",
        "DELETE n FROM {0} AS n WITH (FORCESEEK) WHERE n.v = 3",
        "WITH head AS (SELECT TOP (1) v FROM {0} WITH (FORCESEEK) ORDER BY k) DELETE FROM head",
    ],
)
def test_a_seek_that_no_index_serves(client: Any, numbers: str, text: str) -> None:
    client.ok(
        f"CREATE INDEX [w of {numbers}] ON {numbers} (w, v); CREATE INDEX [v of {numbers}] ON {numbers} (v, k);"
        f" ALTER INDEX [v of {numbers}] ON {numbers} DISABLE"
    )
    assert client.error(text.format(numbers)).number == 8622
