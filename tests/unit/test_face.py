"""Public names of ``airflow_sqlqueue`` and of its six namespaces, and the cost of importing them."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import airflow_sqlqueue
from airflow_sqlqueue import errors

NAMESPACES = (
    "airflow_sqlqueue",
    *(f"airflow_sqlqueue.{n}" for n in ("client", "hooks", "operators", "sensors", "spark", "triggers")),
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


def stub(package: ModuleType) -> list[ast.ImportFrom]:
    """The imports of a package's stub, which is the list of its public names."""
    tree = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ImportFrom)]


@pytest.mark.skipif(find_spec("airflow") is None, reason="Airflow is not installed")
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_exported_name_is_there(namespace: str) -> None:
    package = import_module(namespace)
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_stub_is_the_list_of_names(namespace: str) -> None:
    package = import_module(namespace)
    listed = [alias for node in stub(package) for alias in node.names]
    assert all(alias.asname == alias.name for alias in listed), "type checkers export this form alone"
    names = [alias.name for alias in listed] + (["__version__"] if package is airflow_sqlqueue else [])
    assert package.__all__ == sorted(names)
    assert len(names) == len(set(names))
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        package.Quue  # noqa: B018 - the access is what is tested


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


def test_a_dag_that_names_a_job_loads_neither_spark_nor_arrow() -> None:
    loads = "import sys; from airflow_sqlqueue.spark import message_tables_job; "
    says = loads + "print(message_tables_job.__name__, {'pyarrow', 'pyspark'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "message_tables_job set()"
