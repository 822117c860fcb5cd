"""The structure of the product's own code, by the rules of fakemssql's."""

from __future__ import annotations

import re
from pathlib import Path

from coverage_rooms import ELSEWHERE

import airflow_sqlqueue
from support.structure import Code

CODE = Code(Path(airflow_sqlqueue.__file__).parent)
READ_BY_NAME = {"exports.py", "notifications/__init__.py", "triggers/base.py"}
"""The lazy names of packages, facts that callbacks get as objects or as mappings, the class of a trigger's error."""


def test_no_class_name_has_two_meanings() -> None:
    assert CODE.classes_of_two_meanings() == {}


def test_no_stub_waits_for_something_further_down_to_fill_it() -> None:
    assert CODE.stubs() == []


def test_attributes_are_not_read_by_composed_names() -> None:
    """But for own fields, in loops over them."""
    assert CODE.names_put_together(READ_BY_NAME, of_self=True) == []


def test_modules_that_are_not_measured_and_their_tests_exist() -> None:
    root = Path(airflow_sqlqueue.__file__).parents[1]
    for module, where in ELSEWHERE.items():
        assert (root / "airflow_sqlqueue" / module).is_file()
        for test in re.findall(r"tests/[\w/]+\.py", where):
            assert (root / test).is_file()
