"""Tests that are skipped: each reason is entered here, with the number of its places and what runs instead."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPING = {"skip", "skipif", "importorskip", "xfail", "skipTest"}

HERE = {
    "fakemssql has no system-versioned tables": (
        1,
        "test_findings.py::test_a_system_versioned_table_is_named_with_its_remedy",
    )
}
"""Skipped on fakemssql: the test of this folder that runs everywhere."""

ON_A_REAL_SERVER = {
    "READPAST stands alone in what versions 4 and later run: error 650, as it is documented": 1,
    "a real server does it when it likes": 1,
    "a real server restores what it can": 2,
    "a real server takes tokens of a real tenant only": 3,
    "a real server's certificate may be trusted": 1,
    "only fakemssql can be told to lose a transaction": 1,
    "only fakemssql says of itself what a test wants": 1,
    "that server is not ours to stop": 3,
    "the certificate of a named server is not known": 1,
    "the login of the test server may not create databases": 5,
    "the login of the test server may not create logins": 1,
    "the server that SQLQUEUE_TEST_SERVER names is not ours to kill": 1,
}
"""Skipped on some named server: the whole test runs with fakemssql."""

ELSEWHERE = {
    "Airflow resumes jobs from 3.3 on": (1, "the rows of make versions from Airflow 3.3 on"),
    "Airflow is not installed": (6, "the extra dev"),
    "FreeTDS gives times without their fractions": (1, "the same test with Microsoft's driver"),
    "FreeTDS is not installed": (1, "apt-get install tdsodbc"),
    "FreeTDS takes no access tokens": (1, "the same test with Microsoft's driver"),
    "Microsoft's driver for Linux is not installed": (1, "the extra driver"),
    "PySpark is not installed": (1, "the extra dev"),
    "PySpark, which fetches jars, is not installed": (1, "the extra dev"),
    "WHY_NOT": (2, "the extra dev, where the package maxdop has a wheel"),
    "airflow.providers.common.messaging.triggers.msg_queue": (2, "the extra messaging"),
    "coverage.py is not installed": (1, "the extra dev"),
    "deltalake is not installed": (1, "the extra dev"),
    "f'Only root of the machine may make a file system: {done.stderr.strip()}'": (1, "a runner of CI"),
    "fsspec": (1, "the extra dev"),
    "hatchling, which builds the wheel, is not installed": (1, "the extra dev"),
    "make faults runs it; the scheduler is killed here": (1, "make faults"),
    "mssql_python": (1, "the extra driver"),
    "mssql_python_odbc": (1, "the extra driver"),
    "no chromium: `apt-get install chromium`, or name one in CHROMIUM": (1, "make test-ui"),
    "only for root PostgreSQL runs as another user": (1, "root"),
    "only root of the machine can enter a root folder": (1, "root"),
    "only root gives a folder to a group that he is not in": (1, "root"),
    "only Linux has a full device": (1, "Linux"),
    "other systems have one loopback address alone": (3, "Linux"),
    "polars is not installed": (1, "the extra dev"),
    "pyiceberg is not installed": (1, "the extra dev"),
    "pyodbc's fast_executemany is made for Microsoft's driver": (1, "the same test with Microsoft's driver"),
    "pyspark is not installed": (3, "the extra dev"),
    "reason": (3, "the rows of make versions whose packages have the feature, and make jars"),
    "str(error)": (1, "make compat"),
    "the extra docs is for Python 3.11 and later": (2, "Python 3.11"),
    "uv, which installs the wheels, is not installed": (1, "the extra dev"),
    "tomllib comes with Python 3.11": (2, "Python 3.11"),
}
"""Skipped for want of something that no server has: where the test runs."""


def reasons() -> Iterator[str]:
    """Yield the reason of each skip, as text or as the expression that makes it."""
    for folder in ("tests", "fakemssql/tests"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if any(name in text for name in SKIPPING) else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SKIPPING:
                    named = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
                    (reason, *_) = [*named, *node.args]
                    yield str(reason.value) if isinstance(reason, ast.Constant) else ast.unparse(reason)


def test_each_skip_is_entered_with_what_runs_instead() -> None:
    numbers = {reason: number for reason, (number, _) in {**HERE, **ELSEWHERE}.items()}
    found, entered = Counter(reasons()), Counter({**numbers, **ON_A_REAL_SERVER})
    assert found - entered == {}, "enter these skips, with what runs instead"
    assert entered - found == {}, "these skips are gone"


def test_each_skip_on_fakemssql_names_a_test_of_this_folder() -> None:
    for _, where in HERE.values():
        file, _, name = where.partition("::")
        assert f"def {name}()" in (ROOT / "tests" / "unit" / file).read_text("utf-8")


def test_marks_without_a_call_skip_nothing() -> None:
    """A mark that is not called has no reason."""
    for file in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "fakemssql/tests").rglob("*.py")]:
        assert "@pytest.mark." + "skip\n" not in file.read_text("utf-8"), file
