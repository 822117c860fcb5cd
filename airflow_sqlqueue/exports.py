"""Imports at the first use: of the public names of a package, those of its stub, and of modules of other packages.

The stub ``__init__.pyi`` is the one list of the names, for people, type checkers and the package itself. Importing the
package loads none of the modules: Airflow imports it in every process.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (\(.*?\)|[^\n]*)$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(\w+) as \1")


def exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub."""
    # Not by its path: executors of Spark may import the package from an archive.
    stub = (pkgutil.get_data(package, "__init__.pyi") or b"").decode()
    homes = {name: module for module, names in _IMPORT.findall(stub) for name in _NAME.findall(names)}
    names = sorted([*homes, *re.findall(r"^(__version__):", stub, re.MULTILINE)])

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), names


class LazyModule:
    """Module that is imported at the first use of one of its names: neither DAGs nor commands wait for it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[type[LazyModule], tuple[str]]:
        """Pickle the name alone, as Spark does with the variables of a function."""
        return LazyModule, (self._name,)
