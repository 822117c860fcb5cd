"""Values as people read and copy them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NUMBERS_TO_COPY = frozenset({"row_version", "example", "number", "seed", "port"})
"""Numbers that an option takes back, which are printed as it takes them: without separators."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def name_of(key: str) -> str:
    """What a value is called: an age in seconds is written out, so its name loses the unit."""
    return key.removesuffix("_seconds").replace("_", " ")


def lines_of(key: str, value: Any) -> list[str]:
    """A value as lines: one of each item of a list or a mapping, those that a text has, none where there is none."""
    if value is None or value == "" or value == [] or value == {}:
        return []
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


def printable(text: str) -> str:
    """A text without what a terminal would obey: control characters are shown by their number, as ``\\x1b``.

    Line feeds and tabs stay; the carriage return of a line that ends as on Windows goes.
    """
    return _CONTROL.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
