"""What a command prints: JSON for machines, a table and a progress bar for people, one sentence for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from airflow_sqlqueue.cli.printable import printable

_WIDTH = None if sys.stdout.isatty() else 200

stdout = Console(width=_WIDTH, soft_wrap=True)
stderr = Console(stderr=True, soft_wrap=True)


def show(values: Mapping[str, Any] | list[dict[str, Any]], *, as_json: bool, title: str = "") -> None:
    """Print one record or a list of records. Values are plain JSON values."""
    if as_json:
        stdout.out(json.dumps(values, default=str), highlight=False)
        return
    if isinstance(values, Mapping):
        table = Table(show_header=False, box=None, title=Text(title) if title else None, title_justify="left")
        for name, value in values.items():
            table.add_row(Text(name.replace("_", " ")), _text(value))
    else:
        table = Table(title=Text(title) if title else None, title_justify="left")
        for name in values[0] if values else ["nothing"]:
            table.add_column(Text(name.replace("_", " ")), overflow="fold")
        for record in values:
            table.add_row(*map(_text, record.values()))
    stdout.print(table)


def say(heading: str, *lines: str | None) -> None:
    """Print a paragraph as it is, so that a statement in it can be copied."""
    stdout.print(Text(f"\n{heading}", style="bold"))
    for line in lines:
        if line:
            stdout.out(line, highlight=False)


def _text(value: Any) -> Text:
    """A value for people. A ``Text``, because rich would take the brackets of an address for markup."""
    if isinstance(value, list):
        return Text(printable("\n".join(map(str, value))))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.2f}")
    return Text("" if value is None else printable(str(value)))


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
