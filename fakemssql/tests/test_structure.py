"""The shape of fakemssql's own code: no circles of imports, one meaning for the name of a class, short modules."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import fakemssql
from support.structure import Code

ROOT = Path(fakemssql.__file__).parent
CODE = Code(ROOT)
LONGEST = 450
READ_BY_NAME = {"__init__.py", "tsql/compiler/trees.py"}
"""The package's lazy names, and walks over the fields of any node."""


def module(path: str) -> str:
    parts = Path(ROOT.name, path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    """The modules of fakemssql that a module imports, in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def test_no_circles_of_imports() -> None:
    modules = {module(path): tree for path, tree in CODE.trees.items()}
    graph = {
        name: {each for each in imported(tree, modules) if each in modules} - {name} for name, tree in modules.items()
    }
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


def test_no_class_name_has_two_meanings() -> None:
    assert CODE.classes_of_two_meanings() == {}


def test_modules_are_short() -> None:
    lengths = {path: (ROOT / path).read_text(encoding="utf-8").count("\n") for path in CODE.trees}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_no_name_is_composed_at_run_time() -> None:
    """Neither a type checker nor a search could follow it; nor is there a stub that something further down fills."""
    assert CODE.names_put_together(READ_BY_NAME) + CODE.stubs() == []
