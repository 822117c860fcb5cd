"""The short form of ``python fakemssql/bench``: memory, and processor time as ratios, which load changes little.

The bounds are wide: what they find is a connection that polls, or work for each row that Python does byte by byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from figures import Figure, table
from measures import many, pid_of, reads, statements
from processes import memory, spent

from fakemssql import FakeServer


def test_memory_of_connections(fakemssql: FakeServer) -> None:
    """All that the server takes, shared by its connections, of which more are open than wait for clients."""
    count = 12
    with many(fakemssql, count):
        assert memory(pid_of(fakemssql)) / count <= 40


def test_idle_connections_take_no_core(fakemssql: FakeServer) -> None:
    with many(fakemssql, 10), spent(pid_of(fakemssql)) as found:
        time.sleep(1)
    assert found.server <= 0.3 * found.wall


@pytest.mark.parametrize(("part", "size"), [(reads, 5_000), (statements, 200)])
def test_processor_time_against_psycopg(
    fakemssql: FakeServer, part: Callable[[FakeServer, int, int], list[Figure]], size: int
) -> None:
    figures = [figure for figure in part(fakemssql, size, 2) if figure.name.startswith("processor time")]
    assert figures
    assert [figure for figure in figures if figure.value > 2 * (figure.at_most or 0)] == []


def test_a_figure_beyond_its_bound_is_marked() -> None:
    figures = [
        Figure("slow", 1.5, "s", at_most=1),
        Figure("quick", 30_000, "rows/s", at_least=25_000),
        Figure("x", 1, ""),
    ]
    assert [figure.passed for figure in figures] == [False, True, True]
    assert [line[0] for line in table(figures).splitlines()] == ["!", " ", " "]
    assert "at least 25,000" in table(figures)
