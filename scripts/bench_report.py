"""Report of the bench's measurements: a table for people, JSON for machines.

Ratios count: both sides of one run on one server, in turns, so that a machine that is busy for a while slows both down.
A ratio may have a bound; a ratio out of its bound makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import bench_setting
from bench_setting import temporary_queue
from rich.console import Console
from rich.table import Table

from airflow_sqlqueue import __version__
from airflow_sqlqueue.queue import QueueTable
from fakemssql import FakeServer

RATE = "messages/s"
_WIDTH = 120


@dataclass(frozen=True)
class Comparison:
    """Two figures of one run, both in ``unit``.

    ``bound`` is the least ratio that passes, with ``limit`` the greatest; None for a ratio that is only reported.
    ``note`` explains the figures.
    """

    name: str
    value: float
    base_name: str
    base_value: float
    bound: float | None = None
    limit: bool = False
    unit: str = RATE
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.base_value

    @property
    def passed(self) -> bool:
        if self.bound is None:
            return True
        return self.ratio <= self.bound if self.limit else self.ratio >= self.bound

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed}


Part = Callable[[QueueTable], list[Comparison]]


def cores() -> int:
    """Return the number of cores that this process may use; fakemssql uses the same ones."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def report(doc: str, parts: Mapping[str, Part], *, unless_named: Collection[str] = ()) -> int:
    """Run the parts that the command line names, by default all but ``unless_named``, and print their comparisons.

    All run on one server: fakemssql, or the server of ``SQLQUEUE_TEST_SERVER``, each with a queue of its own. Returns 1
    if a ratio is out of its bound.
    """
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    default = " ".join(["all", *(["but", *sorted(unless_named)] if unless_named else []), "by default"])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; {default}")
    parser.add_argument("--json", action="store_true", help="print JSON alone; the tables go to stderr")
    arguments = parser.parse_args()
    names: Sequence[str] = arguments.parts or [name for name in parts if name not in unless_named]
    if unknown := set(names) - set(parts):
        parser.error(f"there is no part {sorted(unknown)[0]!r}: choose of {', '.join(parts)}")
    console = Console(stderr=arguments.json)
    console.width = max(console.width, _WIDTH)
    url = os.environ.get("SQLQUEUE_TEST_SERVER")
    where = "the server of SQLQUEUE_TEST_SERVER" if url else "fakemssql"
    console.print(f"{cores()} cores, {where}, Python {platform.python_version()}")
    measured: dict[str, list[Comparison]] = {}
    with ExitStack() as stack:
        if url is None:
            bench_setting.stand_in = stack.enter_context(FakeServer(databases=["sqlqueue"]))
            url = bench_setting.stand_in.url("sqlqueue")
        for name in names:
            with temporary_queue(url) as queue:
                measured[name] = parts[name](queue)
            console.print(table(name, measured[name]))
    passed = all(each.passed for comparisons in measured.values() for each in comparisons)
    facts = {"version": __version__, "cores": cores(), "server": where, "python": platform.python_version()}
    figures = {name: [each.to_dict() for each in comparisons] for name, comparisons in measured.items()}
    print(json.dumps({**facts, "parts": figures, "passed": passed}))  # noqa: T201
    return 0 if passed else 1


def table(title: str, comparisons: Sequence[Comparison]) -> Table:
    found = Table(title, "", "against", "", "", "ratio", "bound", "note")
    for each in comparisons:
        figures = (_figure(each.value), each.base_name, _figure(each.base_value), each.unit)
        bound = "" if each.bound is None else f"{'at most' if each.limit else 'at least'} {each.bound:g}"
        verdict = "" if each.passed else "red"
        found.add_row(each.name, *figures, f"{each.ratio:.2f}", bound, each.note, style=verdict)
    return found


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
