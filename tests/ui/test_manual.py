"""The built manual in a browser: nothing that axe calls serious, no scrolling to the side, and a search that finds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.ui.chromium import Screen

ROOT = Path(__file__).parents[2]

PAGES = (
    "index",
    "tutorial",
    "versions",
    "design",
    "search",
    "api/index",
    "api/operators",
    "api/command-line",
    "concepts/connections",
    "concepts/glossary",
    "guides/index",
    "guides/errors",
    "guides/page",
    "guides/queue-to-table",
    "transport/index",
)

WORDS = {
    "duplicate": "concepts/guarantee",
    "exactly once": "concepts/guarantee",
    "dead letter": "concepts/glossary",
    "poison message": "concepts/glossary",
    "retry": "guides/consuming",
    "incremental": "guides/draining",
    "dedupe": "index",
    "GDPR": "index",
    "ServiceControl": "concepts/alternatives",
    "ServicePulse": "concepts/alternatives",
    "DLQ": "concepts/glossary",
}
"""Words that people search, each with a page that has to be found."""


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manual, as ``make docs`` builds it."""
    pytest.importorskip("sphinx", reason="the extra docs is for Python 3.11 and later")
    built = tmp_path_factory.mktemp("manual")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(built)]
    subprocess.run(command, check=True, timeout=900)
    return built


@pytest.fixture(scope="module", params=[("light", 1300), ("dark", 1300), ("light", 390), ("dark", 390)], ids=str)
def window(request: pytest.FixtureRequest, browser: Browser, manual: Path) -> Iterator[Screen]:
    scheme, width = request.param
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield Screen(page, manual.as_uri())
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everybody(window: Screen, name: str) -> None:
    window.page.goto(f"{window.base}/{name}.html")
    assert window.violations() == []
    assert window.overhang() <= 0
    assert window.wrong == []


@pytest.mark.parametrize("words", WORDS)
def test_the_search_finds_what_people_ask_for(manual: Path, words: str) -> None:
    """Each word, cut as Sphinx cuts it, is in the index of the page."""
    from sphinx.search.en import SearchEnglish

    index: Any = json.loads(manual.joinpath("searchindex.js").read_text("utf-8").partition("(")[2].rpartition(")")[0])
    language = SearchEnglish({})
    wanted = index["docnames"].index(WORDS[words])
    for word in words.lower().split():
        stem = language.stem(word)
        places = [
            table[each] for table in (index["terms"], index["titleterms"]) for each in (stem, word) if each in table
        ]
        found = {page for each in places for page in (each if isinstance(each, list) else [each])}
        assert wanted in found, (word, [index["docnames"][page] for page in sorted(found)])
