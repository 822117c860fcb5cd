"""The structure of a package's code: its classes, the names that are looked up at run time, and its stubs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path


class Code:
    """The modules of a package as trees, by their paths below its folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The trees, which are made at first use: each process of a run imports this, and one runs its tests."""
        return {
            path.relative_to(self._root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(self._root.rglob("*.py"))
        }

    def classes_of_two_meanings(self) -> dict[str, list[str]]:
        """Class names that several modules, or one twice, have, with these modules."""
        places = defaultdict(list)
        for path, node in self._nodes():
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
        return {name: found for name, found in places.items() if len(found) > 1}

    def stubs(self) -> list[str]:
        """Places that raise a bare ``NotImplementedError``, for something further down to fill."""
        return [
            f"{path}:{node.lineno}"
            for path, node in self._nodes()
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id == "NotImplementedError"
        ]

    def names_put_together(self, allowed: Collection[str] = (), *, of_self: bool = False) -> list[str]:
        """Attributes that are read or set by a name that is no constant, outside of the modules that are allowed to.

        ``of_self``: an object may read its own by such names, as a dataclass in a loop over its fields does.
        """
        found = []
        for path, node in self._nodes():
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if not isinstance(node, ast.Call) or called not in ("getattr", "setattr") or path in allowed:
                continue
            own = of_self and called == "getattr" and ast.unparse(node.args[0]).split(".")[0] == "self"
            if not own and not isinstance(node.args[1], ast.Constant):
                found.append(f"{path}:{node.lineno}")
        return found

    def _nodes(self) -> Iterator[tuple[str, ast.AST]]:
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                yield path, node
