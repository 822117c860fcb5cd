"""The table of rooms and tests in CONTRIBUTING.md names every folder of the code, and only paths that exist."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT

PRODUCT, STAND_IN = "airflow_sqlqueue", "fakemssql/src/fakemssql"


def table() -> dict[str, list[str]]:
    """Tests by room."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Tests of each room")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)/`[^|]*\| (.*) \|$", section, re.MULTILINE)
    return {room: re.findall(r"`([^`]+)`", tests) for room, tests in rows}


def test_every_room_and_every_path_exists() -> None:
    rooms = table()
    assert all((ROOT / room).is_dir() for room in rooms)
    missing = [path for tests in rooms.values() for path in tests if not (ROOT / path).exists()]
    assert not missing
    assert all(rooms.values())


def test_no_room_is_missing() -> None:
    product = {path.parent for path in (ROOT / PRODUCT).rglob("*.py")}
    stand_in = {path.parent for path in (ROOT / STAND_IN).glob("*/*.py")} | {ROOT / STAND_IN}
    assert {str(folder.relative_to(ROOT)) for folder in product | stand_in} == set(table())
