"""The prose of both distributions, of the docs, and the names of the tests, by the rules of ``support.sentences``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.sentences import faults_of_code, faults_of_names, faults_of_page

ROOT = Path(__file__).resolve().parents[2]
CODE = ("airflow_sqlqueue", "fakemssql/src", "example_dags", "scripts")
TESTS = ("tests", "fakemssql/tests")
PAGES = ("docs", "fakemssql/README.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")


def faults(rule: Callable[[str], list[str]], places: tuple[str, ...], pattern: str) -> list[str]:
    """Faults of the rule in the files of these places, each with its file."""
    paths = [path for place in places for path in _files(ROOT / place, pattern)]
    assert paths
    return [f"{path.relative_to(ROOT)}:{fault}" for path in paths for fault in rule(path.read_text(encoding="utf-8"))]


def _files(place: Path, pattern: str) -> list[Path]:
    return [place] if place.is_file() else [p for p in sorted(place.rglob(pattern)) if "_build" not in p.parts]


def test_docstrings_comments_and_texts() -> None:
    assert faults(faults_of_code, CODE, "*.py") == []


def test_pages() -> None:
    assert faults(faults_of_page, PAGES, "*.md") == []


def test_names_of_tests() -> None:
    assert faults(faults_of_names, TESTS, "*.py") == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('"""What the page sees, in OpenMetrics."""', "1: a docstring begins with 'What'"),
        ('LIMIT = 1\n"""How many there may be."""', "2: a docstring begins with 'How'"),
        ('def f():\n    """Rows of a queue.\n\n    Who reads them waits.\n    """', "2: '. Who reads them waits'"),
        ('def f():\n    """The rows of a queue."""', "1: the docstring of a function begins with 'The'"),
        ('"""Nothing is lost or doubled."""', "1: 'lost or doubled'"),
        ("# one that is none", "1: 'is none'"),
        ('raise ValueError(f"{name} is a kind that there is not.")', "1: 'that there is not'"),
    ],
)
def test_code_that_breaks_a_rule(source: str, fault: str) -> None:
    assert fault in faults_of_code(source)


def test_a_page_that_breaks_a_rule() -> None:
    assert faults_of_page("# Waits\n\n`told` is code.\n\nThe client is told.\n") == ["5: 'told'"]


def test_names_that_break_a_rule() -> None:
    assert faults_of_names("def test_what_is_held(): ...\ndef test_a_server_that_is_told(): ...\n") != []


def test_plain_prose_breaks_none() -> None:
    assert faults_of_code('"""OpenMetrics endpoint of the page; needs the metrics token. Is it needed?"""') == []
