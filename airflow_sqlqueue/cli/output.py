"""Output of commands: JSON and CSV for programs, tables and records for people, a progress bar, a line for an error.

JSON is always one object. A list is its member ``items``, beside values of the whole list.

Values are printed whole, so that people can copy them. A list that is too wide for the terminal becomes records with
one value on each line, and a text of several lines is printed below its name, unchanged. Only the terminal breaks long
lines; this program inserts no line breaks.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from airflow_sqlqueue.cli.signals import on_signals
from airflow_sqlqueue.errors import SqlQueueError, TransientError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.untrusted import printable

_WIDEST = 100_000
"""Largest width of a table in a file or a pipe, where no terminal limits it."""

NUMBERS_TO_COPY = frozenset({"row_version", "example", "number", "seed", "port"})
"""Numbers that people copy into an option, so they are printed without separators."""

_NAMES = {"paths": "folder", "inserted": "rows ever inserted"}
"""Names for people. A batch may have thousands of files, so people see their folder; ``--json`` has all paths."""

_ABSENT = {"delayed": "no table"}
"""Words for a value that is absent, other than "none"."""

_FORMULA = re.compile(r"^(?=[^\w\[{(<\"'/.#])|(?<=[;\t\n])(?=[=+@-])")
"""Places of a text where a spreadsheet may see the beginning of a formula, and that therefore get an apostrophe.

They are the beginning, unless the first character is known to be harmless, and the character after one that other
spreadsheets than those with commas take for the end of a cell, as they do not see the quotes.
"""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

Values = Mapping[str, Any] | list[dict[str, Any]]
"""A record, or a list of records."""

stdout = Console(soft_wrap=True)
stderr = Console(stderr=True, soft_wrap=True)


def show(
    values: Values,
    *,
    as_json: bool = False,
    as_csv: bool = False,
    title: str = "",
    whole: Mapping[str, Any] | None = None,
) -> None:
    """Print one record or a list of records, of plain JSON values; JSON has those of ``whole`` beside a list."""
    if as_json:
        shown = values if isinstance(values, Mapping) else {**(whole or {}), "items": values}
        stdout.out(json.dumps(shown, default=str), highlight=False)
        return
    if as_csv:
        # Not through rich, which would drop carriage returns.
        sys.stdout.write(_csv([values] if isinstance(values, Mapping) else values))
        return
    if title:
        stdout.print(Text(printable(title), style="italic"))
    if isinstance(values, Mapping):
        _record(values)
        return
    if not values:
        stdout.print(Text("nothing"))
        return
    cells = [[_shown(name, value) for name, value in record.items()] for record in values]
    if all(len(lines) <= 1 for row in cells for lines in row) and _table(list(values[0]), cells):
        return
    for index, record in enumerate(values):
        if index:
            stdout.out("")
        _record(record)


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV (RFC 4180) with the names of the values in its first line; nothing for an empty list."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([names, *([_cell(record.get(name)) for name in names] for record in records)] if records else [])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value for a cell: JSON for lists and mappings, texts that no spreadsheet takes for formulas."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    text = printable(value if isinstance(value, str) else json.dumps(value, default=str))
    return _FORMULA.sub("'", text)


def note(text: str) -> None:
    """Print a line for people on standard error, with escapes for what a terminal would obey."""
    stderr.print(printable(text), markup=False, highlight=False)


def say(heading: str, *lines: str | None) -> None:
    """Print a paragraph unchanged, so that a statement in it can be copied."""
    stdout.print(Text(printable(f"\n{heading}"), style="bold"))
    for line in lines:
        if line:
            stdout.out(printable(line), highlight=False)


def _width() -> int:
    """Return the width of the terminal, or the value of ``COLUMNS``; without a terminal lines have no limit."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return int(columns)
    return stdout.width if sys.stdout.isatty() else _WIDEST


def _table(names: list[str], cells: list[list[list[str]]]) -> bool:
    """Print a table with one line for each record, if the terminal is wide enough; return whether it is."""
    table = Table()
    for name in names:
        table.add_column(Text(name_of(name)), no_wrap=True)
    for row in cells:
        table.add_row(*(Text("".join(lines)) for lines in row))
    width = Measurement.get(stdout, stdout.options.update(max_width=_WIDEST), table).maximum
    if width > _width():
        return False
    # Without a terminal the console assumes 80 columns.
    Console(width=width).print(table, crop=False)
    return True


def _record(values: Mapping[str, Any]) -> None:
    """Print names with their values: a short value behind its name, a long one on the lines below."""
    named = {name_of(name): (value, _shown(name, value)) for name, value in values.items()}
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
    """Progress bar on a terminal, nothing elsewhere; yields a function of the number done and a note."""
    if not stderr.is_terminal:
        yield lambda done, note="": None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeRemainingColumn(), console=stderr, transient=True) as bar:
        task = bar.add_task(what, total=total, note="")
        yield lambda done, note="": bar.update(task, completed=done, note=note)


@contextmanager
def told_so_far(done: str, others: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of messages so far, which is printed where the work ends early.

    An error that refuses the work before its first message says all by itself. SIGTERM ends the block as Ctrl-C does,
    with exit code 143; a second one ends the command at once.

    :param done: the participle for what happened to the messages, as ``moved``.
    :param others: the end of the sentence about the others, as ``stayed``.
    """
    so_far = 0

    def take(messages: int) -> None:
        nonlocal so_far
        so_far = messages

    def stop(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        sys.exit(128 + number)

    with on_signals(stop, signal.SIGTERM):
        try:
            yield take
        except BaseException as error:
            # An interrupted COMMIT may have taken effect.
            refused = isinstance(error, SqlQueueError) and not isinstance(error, TransientError)
            if so_far or not refused:
                least = f"{done[:1].upper()}{done[1:]} at least {count_of(so_far, 'message')}"
                note(f"{least}; all others {others}: run it again to go on.")
            raise


def counted(items: Iterable[Any], update: Any, step: int = 500) -> Iterator[Any]:
    """Pass items on and update the progress bar after every ``step`` of them."""
    count = 0
    for count, item in enumerate(items, 1):
        if count % step == 0:
            update(count)
        yield item
    update(count)


def name_of(key: str) -> str:
    """Name of a value for people, without ``_seconds``: a duration is printed with its unit."""
    return _NAMES.get(key) or key.removesuffix("_seconds").replace("_", " ")


def _shown(key: str, value: Any) -> list[str]:
    """Return the lines of a value; a word for no value."""
    return [_ABSENT.get(key, "none")] if value is None or value == [] else lines_of(key, value)


def lines_of(key: str, value: Any) -> list[str]:
    """Return the lines of a value: one for each item of a list or mapping, those of a text, none for no value."""
    if value is None or value == "" or value == [] or value == {}:
        return []
    if key == "paths":
        return lines_of("folder", value[0].rpartition("/")[0])
    if isinstance(value, Mapping):
        value = [f"{name} = {'null' if item is None else item}" for name, item in value.items()]
    if isinstance(value, list):
        return [line for item in value for line in lines_of(key, str(item))]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, (int, float)) and key.endswith("_seconds"):
        return [duration(value)]
    if isinstance(value, int):
        return [str(value) if key in NUMBERS_TO_COPY else f"{value:,}"]
    if isinstance(value, float):
        return [f"{value:,.2f}"]
    return printable(str(value)).split("\n")


def duration(seconds: float) -> str:
    """Return the length of time in its two largest units: ``3 h 12 min``, ``41 s``, ``2 d 5 h``."""
    rest = round(seconds)
    if rest < 60:
        return f"{rest} s"
    shown: list[str] = []
    for size, unit in _UNITS:
        number, rest = divmod(rest, size)
        if number or shown:
            shown.append(f"{number} {unit}")
    if len(shown) == 1:
        shown.append(f"{rest} s")
    return " ".join(part for part in shown[:2] if not part.startswith("0 "))
