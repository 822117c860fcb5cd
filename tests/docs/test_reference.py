"""The reference has every public name, and docs and examples import no other."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.markdown import PAGES, ROOT, blocks
from tests.unit.test_face import NAMESPACES

API = ROOT / "docs" / "api"


def pages() -> str:
    return "".join(page.read_text("utf-8") for page in API.glob("*.rst"))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_name_is_in_the_reference(namespace: str) -> None:
    names = set(importlib.import_module(namespace).__all__)
    if re.search(rf"automodule:: {re.escape(namespace)}\n   :members:", pages()):
        return
    elsewhere = {"__version__"} if namespace == "airflow_sqlqueue" else set()
    for other in {*NAMESPACES} - {namespace}:
        shown = re.findall(rf":: {re.escape(other)}\.(\w+)$", pages(), re.MULTILINE)
        elsewhere |= {name for name in shown if name in importlib.import_module(other).__all__}
    shown = set(re.findall(rf":: {re.escape(namespace)}\.(\w+)$", pages(), re.MULTILINE))
    assert names - shown - elsewhere == set()


def test_names_in_the_reference_are_public() -> None:
    for path in re.findall(r"auto(?:class|function|exception):: ([\w.]+)$", pages(), re.MULTILINE):
        namespace, _, name = path.rpartition(".")
        assert namespace in NAMESPACES, path
        assert name in importlib.import_module(namespace).__all__, path


def imports_of(text: str) -> list[tuple[str, str]]:
    """Modules of the package that a text of Python imports, each with the name that is taken from it, or with none."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return [each for each in found if each[0].partition(".")[0] == "airflow_sqlqueue"]


def python_texts() -> Iterator[tuple[str, str]]:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for block in blocks(page):
            if block.language == "python":
                yield str(block), block.text
    for path in sorted((ROOT / "example_dags").rglob("*.py")):
        yield path.name, path.read_text("utf-8")


def test_docs_and_examples_import_public_names_alone() -> None:
    found = [(place, *each) for place, text in python_texts() for each in imports_of(text)]
    assert len(found) > 50
    assert [
        (place, module, name)
        for place, module, name in found
        if module not in NAMESPACES or name not in ("", *importlib.import_module(module).__all__)
    ] == []


PROGRAMS = r"airflow_sqlqueue\.spark\.jobs\.\w+"
"""Internal modules that pages may name, because people start them: ``python -m`` and ``spark-submit``."""


def test_pages_name_no_internal_module() -> None:
    names = {name for page in PAGES for name in re.findall(r"airflow_sqlqueue(?:\.\w+)+", page.read_text("utf-8"))}
    assert names
    for name in names:
        namespace, _, last = name.rpartition(".")
        public = name in NAMESPACES or (namespace in NAMESPACES and last in importlib.import_module(namespace).__all__)
        assert public or re.fullmatch(PROGRAMS, name), name


def extension(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    pytest.importorskip("sphinx", reason="the extra docs is for Python 3.11 and later")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    yield importlib.import_module(name)
    sys.modules.pop(name)


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Any:
    yield from extension(monkeypatch, "command_line")


def test_every_command_is_in_the_reference_with_its_options(command_line: Any) -> None:
    texts = dict(command_line.help_texts())
    assert {"create", "drain", "move-delayed", "return"} <= texts.keys()
    assert all("Usage: sqlqueue" in text and "--json" in text for text in texts.values())
    assert "SQLQUEUE_URL" in texts["depth"]
