"""The manual as tests see it: its pages, their code blocks in order, and their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PAGES = tuple(page for page in PAGES if "_build" not in page.parts)

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def padded(self) -> str:
        """The text behind as many empty lines as the page has above it, so that a traceback shows the page's lines."""
        return "\n" * self.line + self.text


def blocks(page: Path) -> Iterator[Block]:
    """Code blocks of a page in order, without those of Sphinx's own directives (``{toctree}``)."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        if not found["language"].startswith("{"):
            yield Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["text"])


def headings(page: Path) -> set[str]:
    """The headings of a page, without marks of code or emphasis."""
    prose = _BLOCK.sub("", page.read_text("utf-8"))
    return {re.sub(r"[`*]", "", found) for found in re.findall(r"^#+ +(.*?) *$", prose, re.MULTILINE)}
