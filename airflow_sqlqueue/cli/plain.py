"""Values as people read and copy them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_sqlqueue.untrusted import printable

NUMBERS_TO_COPY = frozenset({"row_version", "example", "number", "seed", "port"})
"""Numbers that an option takes back, which are printed as it takes them: without separators."""

_NAMES = {"paths": "folder", "inserted": "rows ever inserted"}
"""Of a batch's files, of which there may be thousands, people see the folder; ``--json`` has them all."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def name_of(key: str) -> str:
    """What a value is called: an age in seconds is written out, so its name loses the unit."""
    return _NAMES.get(key) or key.removesuffix("_seconds").replace("_", " ")


def lines_of(key: str, value: Any) -> list[str]:
    """A value as lines: one of each item of a list or a mapping, those that a text has, none where there is none."""
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
    """A length of time in its two largest units: ``3 h 12 min``, ``41 s``, ``2 d 5 h``."""
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
