"""Public names of ``airflow_sqlqueue`` and of its five namespaces, and the cost of importing them."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import airflow_sqlqueue
from airflow_sqlqueue import errors

NAMESPACES = (
    "airflow_sqlqueue",
    *(f"airflow_sqlqueue.{n}" for n in ("hooks", "operators", "sensors", "spark", "triggers")),
)
ROOT = Path(__file__).parent.parent.parent
SECONDS = 0.05
PROBE = """
import sys, time
before = time.process_time()
import airflow_sqlqueue
print(time.process_time() - before)
heavy = ("airflow", "fakemssql", "fsspec", "pandas", "pyarrow", "pyodbc", "pyspark", "tenacity")
print([name for name in sorted(sys.modules) if name.partition(".")[0] in heavy])
print([name for name in sorted(sys.modules) if name.startswith("airflow_sqlqueue")])
"""


def source(package: ModuleType) -> str:
    return Path(str(package.__file__)).read_text("utf-8")


def homes(package: ModuleType) -> dict[str, str]:
    """The module of each exported name, as the package hands them to ``lazy_exports``."""
    (call,) = [node for node in ast.parse(source(package)).body if isinstance(node, ast.Assign) and is_lazy(node.value)]
    assert isinstance(call.value, ast.Call)
    modules: dict[str, str] = ast.literal_eval(call.value.args[1])
    return {name: module for module, names in modules.items() for name in names.split()}


def is_lazy(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "lazy_exports"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_exported_name_is_there(namespace: str) -> None:
    package = import_module(namespace)
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_list_is_sorted_and_has_no_other_names(namespace: str) -> None:
    package = import_module(namespace)
    assert package.__all__ == sorted(package.__all__)
    assert {*homes(package), *(["__version__"] if package is airflow_sqlqueue else [])} == set(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        package.Quue  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_type_checkers_see_the_same_names(namespace: str) -> None:
    tree = ast.parse(source(import_module(namespace)))
    imported = {
        alias.name: (node.module or "").removeprefix(f"{namespace}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_sqlqueue.")
        for alias in node.names
        if alias.name != "lazy_exports"
    }
    assert imported == homes(import_module(namespace))


def test_every_exception_is_exported() -> None:
    assert {name for name, value in vars(errors).items() if isinstance(value, type)} <= set(airflow_sqlqueue.__all__)


def test_importing_the_package_is_quick_and_loads_nothing_else() -> None:
    """Airflow imports it in every process, to find the provider. Processor time, of the best of several processes."""
    answers = [
        subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        for _ in range(5)
    ]
    _, heavy, own = answers[0].splitlines()
    assert (heavy, own) == ("[]", "['airflow_sqlqueue', 'airflow_sqlqueue.exports']")
    assert min(float(answer.splitlines()[0]) for answer in answers) < SECONDS
