"""Matrix of the supported versions of Python, Airflow and Spark: an environment for each, and the steps in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".versions"

IMPORTS = """
import importlib, importlib.util, pkgutil
import airflow_sqlqueue
from airflow_sqlqueue.versions import VersionedFeature

absent = {name for name in ("airflow", "pyspark") if importlib.util.find_spec(name) is None}
features = [
    value
    for package in {"airflow", "pyspark"} - absent
    for value in vars(importlib.import_module(f"airflow_sqlqueue.versions.{package.removeprefix('py')}")).values()
    if isinstance(value, VersionedFeature)
]
lacking = {
    name: f"{each.package} {each.since}" for each in features if not each.is_available for name in each.modules
}
count, left_out = 0, {}
for module in pkgutil.walk_packages(airflow_sqlqueue.__path__, "airflow_sqlqueue.", onerror=lambda name: None):
    if module.name in lacking:
        left_out[lacking[module.name]] = left_out.get(lacking[module.name], 0) + 1
    elif not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
            count += 1
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            if package not in absent:
                raise
            left_out[package] = left_out.get(package, 0) + 1
print(f"{count} passed" + "".join(f", {number} need {what}" for what, number in left_out.items()))
"""
"""Program that imports every module of the package, except those of missing features and packages."""


@dataclass(frozen=True)
class Step:
    """Column of the table: tests that are run in an environment, or the program :data:`IMPORTS`."""

    name: str
    tests: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    is_long: bool = False
    short: tuple[str, ...] = ()
    """Tests of the short form, in place of all of them."""
    packages: tuple[str, ...] = ()
    """Packages that these tests need in addition."""
    before: tuple[str, ...] = ()
    """Program that prepares the tests, with its arguments."""


STEPS = {
    step.name: step
    for step in (
        Step("imports"),
        Step("unit", ("tests/unit", "tests/bodies", "tests/spark/test_chunks.py")),
        Step(
            "airflow",
            ("tests/airflow",),
            (
                "tests/airflow/plugin",
                "tests/airflow/running",
                "tests/airflow/test_canary.py",
                "tests/airflow/test_examples.py",
                "tests/airflow/test_spark_target.py",
            ),
            # What differs between versions of Airflow; most other tests there are of work on the server.
            short=(
                *(f"tests/airflow/plugin/test_{name}.py" for name in ("page_metrics", "registration", "rights")),
                *(
                    f"tests/airflow/test_{name}.py"
                    for name in (
                        *("access_token", "assets", "deferring", "hook", "lineage", "live_consume", "live_operators"),
                        *("live_triggers", "lookups", "message_queues", "metrics", "notifier", "operators"),
                        *("provider_info", "retry_policy", "sql_operators", "stranded_sensor", "trigger_arguments"),
                    )
                ),
            ),
        ),
        Step("plugin", ("tests/airflow/plugin",), is_long=True),
        # The processes of Airflow itself: classes of this package alone have passed while they ended.
        Step("triggerer", ("tests/airflow/running/test_triggerer.py",)),
        Step("scheduler", ("tests/airflow/running/test_every_operator.py",), is_long=True),
        # What differs between versions of typer.
        Step("shell", ("tests/cli",), short=tuple(f"tests/cli/test_{name}.py" for name in ("help", "own_options"))),
        Step(
            "spark",
            ("tests/spark",),
            tuple(
                f"tests/spark/test_{name}.py"
                for name in ("cluster", "source_connect", "pipelines", "audit_script", "leaks")
            ),
            # What differs between versions: the session, the data source, and the functions of the typed columns.
            short=tuple(f"tests/spark/test_{name}.py" for name in ("session", "source", "source_send", "upgrades")),
        ),
        Step("sinks", ("tests/sinks",), is_long=True, before=("scripts/jars.py", "--optional")),
        Step(
            "clusters",
            tuple(f"tests/spark/test_{name}.py" for name in ("cluster", "source_connect", "pipelines")),
            is_long=True,
            packages=("pyspark[connect]", "pyyaml"),
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """An environment: the versions that it is for, the packages in it, and the steps that are run there."""

    package: str
    version: str
    """Minor version, as the docs have it."""
    python: str
    requirements: tuple[str, ...]
    project: str
    """The distribution of this project that is installed, with its extras."""
    steps: tuple[str, ...]
    as_of: str | None = None
    """Day whose packages are installed; None: the newest."""
    resolution: str = "highest"
    """uv's choice of versions; ``lowest-direct``: the lowest that pyproject.toml takes."""

    @property
    def name(self) -> str:
        return f"{self.package.lower()}-{self.version}"

    @property
    def constraints(self) -> Path | None:
        """The file of the versions that the row's Airflow came with, or None."""
        name, _, version = self.requirements[0].partition("==") if self.requirements else ("", "", "")
        found = ROOT / "scripts" / "constraints" / f"{name.removeprefix('apache-')}-{version}.txt"
        return found if found.is_file() else None

    @property
    def interpreter(self) -> str:
        return str(FOLDER / self.name / "bin" / "python")


_PROVIDER = ".[spark,spark-provider,entra,messaging,openlineage]"
_OF_AIRFLOW = ("imports", "airflow", "triggerer", "plugin", "scheduler")
# The newest version that both have: docs/versions.md.
_PYSPARK_PAIR = ("pyspark==4.2.0", "pyspark-client==4.2.0")
_OF_SPARK = ("imports", "spark", "sinks", "clusters")
_OF_PYTHON = ("imports", "unit", "shell")

MATRIX = (
    Row("Airflow", "3.1", "3.10", ("apache-airflow==3.1.8",), _PROVIDER, _OF_AIRFLOW, "2026-03-20", "lowest-direct"),
    Row("Airflow", "3.2", "3.12", ("apache-airflow==3.2.2",), _PROVIDER, _OF_AIRFLOW, "2026-06-05"),
    Row("Airflow", "3.3", "3.11", ("apache-airflow==3.3.2",), _PROVIDER, _OF_AIRFLOW, "2026-09-24"),
    Row("Airflow", "3.4", "3.13", ("apache-airflow>=3.4.0b2,<3.5", *_PYSPARK_PAIR), _PROVIDER, _OF_AIRFLOW),
    Row("Spark", "4.0", "3.10", ("pyspark==4.0.*",), "core[spark]", _OF_SPARK, None, "lowest-direct"),
    Row("Spark", "4.1", "3.11", ("pyspark==4.1.*",), "core[spark]", _OF_SPARK),
    Row("Spark", "4.2", "3.12", ("pyspark==4.2.*",), "core[spark]", _OF_SPARK),
    Row("Spark", "4.3", "3.13", ("pyspark==4.3.*",), "core[spark]", _OF_SPARK),
    Row("Python", "3.10", "3.10", (), "core", _OF_PYTHON, None, "lowest-direct"),
    Row("Python", "3.11", "3.11", (), "core", _OF_PYTHON),
    Row("Python", "3.12", "3.12", (), "core", _OF_PYTHON),
    Row("Python", "3.13", "3.13", (), "core", _OF_PYTHON),
    Row("Python", "3.14", "3.14", (), "core", _OF_PYTHON),
)
