"""What a command prints: JSON for machines, tables and records for people, a progress bar, one sentence for an error.

Whatever a person may copy is whole: a list that is too wide for the terminal becomes records, one value on a line, and
a text of several lines stands by itself as it is. The terminal breaks what is long; the text has no breaks of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from airflow_sqlqueue.cli.plain import lines_of, name_of
from airflow_sqlqueue.untrusted import printable

_WIDEST = 100_000
"""Columns of a table that goes to a file or a pipe, where no terminal bounds it."""

stdout = Console(soft_wrap=True)
stderr = Console(stderr=True, soft_wrap=True)


def show(values: Mapping[str, Any] | list[dict[str, Any]], *, as_json: bool, title: str = "") -> None:
    """Print one record or a list of records. Values are plain JSON values."""
    if as_json:
        stdout.out(json.dumps(values, default=str), highlight=False)
        return
    if title:
        stdout.print(Text(printable(title), style="italic"))
    if isinstance(values, Mapping):
        _record(values)
        return
    if not values:
        stdout.print(Text("nothing"))
        return
    cells = [[lines_of(name, value) for name, value in record.items()] for record in values]
    if all(len(lines) <= 1 for row in cells for lines in row) and _table(list(values[0]), cells):
        return
    for index, record in enumerate(values):
        if index:
            stdout.out("")
        _record(record)


def say(heading: str, *lines: str | None) -> None:
    """Print a paragraph as it is, so that a statement in it can be copied."""
    stdout.print(Text(printable(f"\n{heading}"), style="bold"))
    for line in lines:
        if line:
            stdout.out(printable(line), highlight=False)


def _width() -> int:
    """The columns that there are: those of the terminal, or of ``COLUMNS``; anywhere else nothing bounds a line."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return int(columns)
    return stdout.width if sys.stdout.isatty() else _WIDEST


def _table(names: list[str], cells: list[list[list[str]]]) -> bool:
    """Print a table with one line for each record, if the terminal is wide enough for it."""
    table = Table()
    for name in names:
        table.add_column(Text(name_of(name)), no_wrap=True)
    for row in cells:
        table.add_row(*(Text("".join(lines)) for lines in row))
    width = Measurement.get(stdout, stdout.options.update(max_width=_WIDEST), table).maximum
    if width > _width():
        return False
    # Where there is no terminal the console thinks that it has 80 columns.
    Console(width=width).print(table, crop=False)
    return True


def _record(values: Mapping[str, Any]) -> None:
    """Names with their values, each value whole: behind its name if it is short, else by itself below."""
    named = {name_of(name): (value, lines_of(name, value)) for name, value in values.items()}
    indent = max(map(len, named), default=0) + 2
    for name, (value, lines) in named.items():
        if len(lines) > 1 or indent + sum(map(len, lines)) > _width():
            stdout.print(Text(name, style="bold"))
            margin = "  " if isinstance(value, (list, Mapping)) else ""
            for line in lines:
                stdout.out(margin + line, highlight=False)
        else:
            stdout.out(f"{name:{indent}}{''.join(lines)}".rstrip(), highlight=False)


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere; yields a function that takes how many are done, and a note."""
    if not stderr.is_terminal:
        yield lambda done, note="": None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeRemainingColumn(), console=stderr, transient=True) as bar:
        task = bar.add_task(what, total=total, note="")
        yield lambda done, note="": bar.update(task, completed=done, note=note)


def counted(items: Iterable[Any], update: Any, step: int = 500) -> Iterator[Any]:
    """Pass items on and update the progress bar now and then."""
    count = 0
    for count, item in enumerate(items, 1):
        if count % step == 0:
            update(count)
        yield item
    update(count)
