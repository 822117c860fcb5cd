"""The tables of rooms: the house in the order of its layers, and the tests of every folder."""

from __future__ import annotations

import re
from configparser import ConfigParser

from tests.docs.markdown import ROOT

PRODUCT, STAND_IN = "airflow_sqlqueue", "fakemssql/src/fakemssql"


def house() -> list[tuple[list[str], str]]:
    """Rooms of each row of the table of the house, and what is in them."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| what is in it |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", section, re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", rooms), inside) for rooms, inside in rows]


def layers() -> list[set[str]]:
    """Layers of the product, from the ground up."""
    contracts = ConfigParser()
    contracts.read_string((ROOT / ".importlinter").read_text("utf-8"))
    lines = contracts[f"importlinter:contract:{PRODUCT}"]["layers"].split("\n")
    return [set(re.findall(r"\w+", line)) for line in reversed(lines) if line]


def test_the_house_has_the_order_of_the_layers() -> None:
    rooms = [room.removesuffix("/").removesuffix(".py") for row, _ in house() for room in row]
    above = iter(rooms)
    assert [{next(above, "") for _ in layer} for layer in layers()] == layers()
    assert list(above) == []


def test_the_house_names_every_room_within_a_room() -> None:
    for rooms, inside in house():
        assert all((ROOT / PRODUCT / room).exists() for room in rooms)
        within = {f"{path.parent.name}/" for room in rooms for path in (ROOT / PRODUCT / room).glob("*/__init__.py")}
        assert within == set(re.findall(r"`(\w+/)`", inside)), rooms


def table() -> dict[str, list[str]]:
    """Tests by room."""
    page = (ROOT / "docs/development/tests.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)/`[^|]*\| (.*) \|$", page, re.MULTILINE)
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
