"""Parameters of operators, sensors and triggers: their own, and those that they hand on to their bases."""

from __future__ import annotations

import inspect
import re
from inspect import Parameter, signature
from typing import Any

PARAM = r"^:param (\w+): ((?:.|\n)*?)(?=\n:param|\n*\Z)"
"""A parameter in a docstring whose lines are not indented: its name and its text."""


def bases_of(cls: Any) -> list[Any]:
    """The class and its bases of this package, the nearest first."""
    return [base for base in cls.__mro__ if base.__module__.startswith("airflow_sqlqueue.")]


def parameters_of(cls: Any) -> dict[str, Parameter]:
    """The parameters by name, each as the class nearest to ``cls`` has it; ``**kwargs`` left out."""
    found: dict[str, Parameter] = {}
    for base in bases_of(cls):
        if "__init__" in vars(base):
            own = signature(base.__init__).parameters
            found = {**{name: p for name, p in own.items() if p.kind is not p.VAR_KEYWORD}, **found}
    return {name: parameter for name, parameter in found.items() if name != "self"}


def documented_by(cls: Any) -> dict[str, str]:
    """The texts of ``:param`` by name, each as the class nearest to ``cls`` has it."""
    texts: dict[str, str] = {}
    for base in bases_of(cls):
        own = re.findall(PARAM, inspect.cleandoc(vars(base)["__doc__"] or ""), re.MULTILINE)
        texts = {**dict(own), **texts}
    return texts
