"""Citations of the manual in the code: every page and every heading exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.markdown import PAGES, ROOT, headings

CODE = ("airflow_sqlqueue", "fakemssql", "tests", "scripts", "example_dags")
SUFFIXES = {".py", ".sql", ".sh", ".toml"}

_CITATION = re.compile(r'(docs/[\w/-]+\.md)((?:(?:,| and)\s+"[^"\n]+(?:\n[^"\n]+)?")*)')
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def files() -> Iterator[Path]:
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path != Path(__file__) and ".venv" not in path.parts:
                yield path


def unbroken(text: str) -> str:
    """The text with its lines joined, as a citation may go over the end of a line: comment marks go."""
    return re.sub(r"\s*\n\s*(?:--|#)?\s*", " ", text)


def test_cited_pages_and_headings_exist() -> None:
    missing = []
    for path in files():
        for page, quoted in _CITATION.findall(unbroken(path.read_text("utf-8"))):
            where = f"{path.relative_to(ROOT)}: {page}"
            if not (ROOT / page).is_file():
                missing.append(where)
                continue
            known = headings(ROOT / page)
            missing += [f"{where}, {heading!r}" for heading in re.findall(r'"([^"]+)"', quoted) if heading not in known]
    assert not missing


def test_files_outside_of_the_repository_are_not_cited() -> None:
    pattern = re.compile(r"(?<!docs/)reference/\w+\.md|\bDESIGN\b")
    found = [f"{path.relative_to(ROOT)}: {hit}" for path in files() for hit in pattern.findall(path.read_text("utf-8"))]
    assert not found


def test_links_between_pages_lead_to_files() -> None:
    missing = []
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in _LINK.findall(prose):
            if not (page.parent / target.partition("#")[0]).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert not missing
