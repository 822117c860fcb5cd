"""Modules that the server of :mod:`tests.forks` loads once: what modules of tests import, and drivers of databases."""

import sys
from importlib import import_module
from pathlib import Path

# The server of Python 3.11 does not get the path that pytest has set.
sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("scripts", "fakemssql/tests", "fakemssql")]

for _name in (
    *("pyodbc", "pyarrow.parquet", "airflow_sqlqueue.client", "airflow_sqlqueue.drain.erase"),
    *("airflow_sqlqueue.drain.storage.folder", "airflow_sqlqueue.endpoint.consumer"),
    *("tests.contract.conftest", "tests.faults.account", "tests.drains", "tests.competing"),
    *(f"tests.faults.killed_{name}" for name in ("failures", "handlers", "work")),
    *("tests.faults.consuming", "tests.faults.processes"),
):
    import_module(_name)
