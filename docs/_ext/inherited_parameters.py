"""Signatures and docstrings in the manual, with the parameters that a class passes to its bases."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PACKAGE = "airflow_sqlqueue."
FIELD = ":param "


def bases_of(cls: type) -> list[type]:
    """Bases of this package whose constructors get arguments of the class's own, the nearest first."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith(PACKAGE)]
    constructors = [base for base in ours if "__init__" in vars(base)]
    takes_more = any(
        parameter.kind is Parameter.VAR_KEYWORD
        for base in constructors[:1]
        for parameter in inspect.signature(base.__init__).parameters.values()
    )
    return [base for base in ours if base is not cls] if takes_more else []


def whole_signature(cls: type, signature_of: Callable[..., Signature] = inspect.signature) -> Signature:
    """Parameters of the constructor, and those of its bases that it does not name, required ones first."""
    found: dict[str, Parameter] = {}
    more: list[Parameter] = []
    for base in (cls, *bases_of(cls)):
        if "__init__" in vars(base):
            own = list(signature_of(base.__init__).parameters.values())[1:]  # type: ignore[misc]
            more = [each for each in own if each.kind is Parameter.VAR_KEYWORD]
            found = {**found, **{each.name: each for each in own if each not in more and each.name not in found}}
    return Signature([*sorted(found.values(), key=lambda each: each.default is not Parameter.empty), *more])


def fields_of(lines: list[str]) -> dict[str, list[str]]:
    """Lines of each ``:param``, by its name."""
    fields: dict[str, list[str]] = {}
    name = None
    for line in lines:
        if line.startswith(FIELD):
            name = line.removeprefix(FIELD).partition(":")[0]
            fields[name] = []
        elif not line.startswith(" "):
            name = None
        if name is not None:
            fields[name].append(line)
    return fields


def whole_docstring(cls: type, lines: list[str]) -> list[str]:
    """Lines of a class's docstring, then the parameters that it leaves to its bases."""
    own = fields_of(lines)
    inherited: dict[str, list[str]] = {}
    for base in bases_of(cls):
        fields = fields_of(inspect.cleandoc(vars(base)["__doc__"] or "").splitlines())
        inherited = {**inherited, **{name: field for name, field in fields.items() if name not in inherited}}
    missing = [line for name, field in inherited.items() if name not in own for line in field]
    text = "\n".join(lines).rstrip().splitlines()
    return [*text, *([] if own or not missing else [""]), *missing, ""]


def setup(app: Sphinx) -> None:
    from sphinx.util.inspect import signature, stringify_signature

    def signatures(app: Sphinx, what: str, name: str, cls: Any, options: Any, text: str, returned: str) -> Any:
        if what == "class" and bases_of(cls):
            return stringify_signature(whole_signature(cls, signature), unqualified_typehints=True), returned
        return None

    def docstrings(app: Sphinx, what: str, name: str, cls: Any, options: Any, lines: list[str]) -> None:
        if what == "class" and bases_of(cls):
            lines[:] = whole_docstring(cls, lines)

    app.connect("autodoc-process-signature", signatures)
    app.connect("autodoc-process-docstring", docstrings)
