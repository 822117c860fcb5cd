"""The public face: what ``airflow_sqlqueue`` exports, and how little it costs to import it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_sqlqueue

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


@pytest.mark.parametrize("name", airflow_sqlqueue.__all__)
def test_each_exported_name_is_there(name: str) -> None:
    assert getattr(airflow_sqlqueue, name) is not None
    assert name in dir(airflow_sqlqueue)


def test_the_list_is_sorted_and_has_no_other_names() -> None:
    assert airflow_sqlqueue.__all__ == sorted(airflow_sqlqueue.__all__)
    assert {"__version__", *airflow_sqlqueue._HOMES} == set(airflow_sqlqueue.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        airflow_sqlqueue.Quue  # noqa: B018 - the access is what is tested


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(airflow_sqlqueue.__file__).read_text("utf-8"))
    imported = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_sqlqueue.")
        for alias in node.names
    }
    assert imported == {name: f"airflow_sqlqueue.{home}" for name, home in airflow_sqlqueue._HOMES.items()}


def test_importing_the_package_is_quick_and_loads_nothing_else() -> None:
    """Airflow imports it in every process, to find the provider. Processor time, of the best of several processes."""
    answers = [
        subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        for _ in range(5)
    ]
    _, heavy, own = answers[0].splitlines()
    assert (heavy, own) == ("[]", "['airflow_sqlqueue']")
    assert min(float(answer.splitlines()[0]) for answer in answers) < SECONDS
