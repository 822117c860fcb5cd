"""Defaults of options that the guides name are those of the code."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.databus.batch_payloads import PayloadOptions
from airflow_sqlqueue.drain.options import DrainOptions

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
UNITS = {"": 1, "rows": 1, "s": 1, "MiB": 2**20, "GiB": 2**30}
WORDS = {"all": None, "no limit": None, "none": None, "off": False}


def documented(guide: str, names: set[str]) -> dict[str, Any]:
    """The options of a table whose last column has the defaults, one for each option of the first column."""
    found: dict[str, Any] = {}
    for line in (GUIDES / guide).read_text("utf-8").splitlines():
        if not line.startswith("| `"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        options = re.findall(r"`(\w+)`", cells[0])
        if options and names.issuperset(options):
            values = re.split(r", (?=\S)", cells[-1])
            found |= {name: value(text) for name, text in zip(options, values, strict=True)}
    return found


def value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    number = re.fullmatch(r"([\d,]+) ?(rows|s|MiB|GiB|)", text)
    return int(number[1].replace(",", "")) * UNITS[number[2]] if number else text.strip("`")


@pytest.mark.parametrize(
    ("guide", "options"), [("draining.md", DrainOptions), ("data-bus.md", PayloadOptions)], ids=["drain", "payloads"]
)
def test_the_guide_names_each_option_with_its_default(guide: str, options: Any) -> None:
    defaults = {field.name: field.default for field in fields(options) if field.default is not MISSING}
    assert documented(guide, set(defaults)) == defaults
