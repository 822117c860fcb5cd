"""The reference, which the manual's build takes from the code, has all that is public."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

import pytest

import airflow_sqlqueue
from airflow_sqlqueue import errors, operators, sensors, spark, triggers
from tests.airflow.parameters import PARAM, documented_by, parameters_of
from tests.docs.markdown import ROOT

API = ROOT / "docs" / "api"


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text("utf-8") for page in API.glob("*.rst"))
    shown = set(re.findall(r":: airflow_sqlqueue\.(\w+)$", pages, re.MULTILINE))
    by_module = {name for name in vars(errors) if isinstance(vars(errors)[name], type)} | set(spark.__all__)
    assert set(airflow_sqlqueue.__all__) - shown - by_module == {"__version__"}


def test_names_in_the_reference_exist() -> None:
    pages = "".join(page.read_text("utf-8") for page in API.glob("*.rst"))
    for path in re.findall(r"auto(?:class|function):: ([\w.]+)$", pages, re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def extension(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    pytest.importorskip("sphinx", reason="the extra docs is for Python 3.11 and later")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    yield importlib.import_module(name)
    sys.modules.pop(name)


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Any:
    yield from extension(monkeypatch, "command_line")


@pytest.fixture
def inherited_parameters(monkeypatch: pytest.MonkeyPatch) -> Any:
    yield from extension(monkeypatch, "inherited_parameters")


@pytest.mark.parametrize("module", [operators, sensors, triggers])
def test_the_reference_has_every_parameter_of_a_class_and_of_its_bases(inherited_parameters: Any, module: Any) -> None:
    for name in module.__all__:
        cls = getattr(module, name)
        parameters, texts = parameters_of(cls), documented_by(cls)
        shown = inherited_parameters.whole_signature(cls).parameters
        assert {name for name, p in shown.items() if p.kind is not p.VAR_KEYWORD} == parameters.keys()
        assert all(shown[name].default == parameter.default for name, parameter in parameters.items())
        text = "\n".join(inherited_parameters.whole_docstring(cls, inspect.cleandoc(cls.__doc__).splitlines()))
        assert dict(re.findall(PARAM, text + "\n", re.MULTILINE)) == texts


def test_every_command_is_in_the_reference_with_its_options(command_line: Any) -> None:
    texts = dict(command_line.help_texts())
    assert {"create", "drain", "move-delayed", "return"} <= texts.keys()
    assert all("Usage: sqlqueue" in text and "--json" in text for text in texts.values())
    assert "SQLQUEUE_URL" in texts["depth"]
