"""The reference, which the manual's build takes from the code, has all that is public."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pytest

import airflow_sqlqueue
from airflow_sqlqueue import errors, spark
from tests.docs.markdown import ROOT

API = ROOT / "docs" / "api"


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text("utf-8") for page in API.glob("*.rst"))
    shown = set(re.findall(r":: airflow_sqlqueue\.(\w+)$", pages, re.MULTILINE))
    by_module = {name for name in vars(errors) if isinstance(vars(errors)[name], type)} | set(spark.__all__)
    assert set(airflow_sqlqueue.__all__) - shown - by_module == {"__version__"}


def test_what_the_reference_names_exists() -> None:
    pages = "".join(page.read_text("utf-8") for page in API.glob("*.rst"))
    for path in re.findall(r"auto(?:class|function):: ([\w.]+)$", pages, re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("sphinx", reason="the extra docs is for Python 3.11 and later")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    yield importlib.import_module("command_line")
    sys.modules.pop("command_line")


def test_every_command_is_in_the_reference_with_its_options(command_line: Any) -> None:
    texts = dict(command_line.help_texts())
    assert {"create", "drain", "move-delayed", "return"} <= texts.keys()
    assert all("Usage: sqlqueue" in text and "--json" in text for text in texts.values())
    assert "SQLQUEUE_URL" in texts["depth"]
