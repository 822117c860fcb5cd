"""The manual names each action on failed messages with its inputs, and each grouping, as the code does."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "errors.md").read_text("utf-8")


def test_the_guide_has_the_table_of_actions() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\|([^|]*)\|([^|]*)\|$", GUIDE, re.MULTILINE)
    found = {name: (re.findall(r"\w+", needs), re.findall(r"\w+", takes)) for name, needs, takes in rows}
    own = {
        name: (list(action.needs), [each for each in action.takes if each != "by"]) for name, action in ACTIONS.items()
    }
    assert found == own


def test_the_guide_names_the_groupings_in_order() -> None:
    (named,) = re.findall(r"Groups are by ([^.]*)\.", GUIDE)
    assert re.findall(r"`(\w+)`", named) == list(GROUPINGS)
