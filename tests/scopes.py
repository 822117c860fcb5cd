"""Scopes of tests: the files that one process runs. The scopes that take longest begin first, by measured durations."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of each file by phase, which ``make test DURATIONS=1`` and ``make test-system DURATIONS=1`` write."""

AIRFLOW, SPARK = "tests/airflow with a database or Spark", "tests/spark"

_OF_ONE_PROCESS = {
    "tests/airflow/running/": "tests/airflow/running",
    "tests/airflow/plugin/": AIRFLOW,
    "tests/spark/": SPARK,
}
"""Folders whose files share what takes long to start: an Airflow that runs, a metadata database, a Spark session."""

_WITH_AIRFLOW = (
    *("assets", "canary", "ended_drain", "examples", "live_batches", "live_consume", "live_drain", "live_hook"),
    *("message_queues", "metrics", "notifier", "operators", "provider_info", "redaction", "retry_policy"),
    *("runs_per_message", "small_examples", "stranded"),
)
"""Files of tests/airflow that migrate the metadata database, or start Spark sessions of their own."""

_SCOPES = {f"tests/airflow/test_{name}.py": AIRFLOW for name in _WITH_AIRFLOW} | {
    # Their sessions are in processes of their own.
    file: file
    for file in (f"tests/spark/test_{name}.py" for name in ("audit_script", "cluster", "pipelines", "source_connect"))
}


def scope_of(file: str) -> str:
    """Return the scope of a file: its own, or one that it shares."""
    return _SCOPES.get(file) or next(
        (scope for folder, scope in _OF_ONE_PROCESS.items() if file.startswith(folder)), file
    )


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


class ScopeScheduling(LoadFileScheduling):
    """Scheduling of ``--dist loadfile`` by these scopes."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(file_of(nodeid))


def longest_first(nodeids: Iterable[str], seconds: dict[str, float]) -> list[int]:
    """Return the positions of tests in the order of their scopes' durations; those of a scope keep theirs.

    Tests that start and stop sessions of Spark come before the scope whose session stays: a process has one at a time.
    """
    scopes = [scope_of(file_of(nodeid)) for nodeid in nodeids]
    files: dict[str, set[str]] = defaultdict(set)
    for nodeid, scope in zip(nodeids, scopes, strict=True):
        files[scope].add(file_of(nodeid))
    totals = {scope: sum(seconds.get(file, 0.0) for file in own) for scope, own in files.items()}
    is_later = [not scope.startswith(("tests/airflow", "tests/bench", "tests/sinks")) for scope in scopes]
    return sorted(range(len(scopes)), key=lambda number: (is_later[number], -totals[scopes[number]]))


def known_phases() -> dict[str, dict[str, float]]:
    """Return the seconds of each file by phase, as far as they were measured."""
    return json.loads(DURATIONS.read_text("utf-8")) if DURATIONS.exists() else {}


def known_seconds() -> dict[str, float]:
    """Return the seconds of each file."""
    return {file: sum(phases.values()) for file, phases in known_phases().items()}


class DurationRecorder:
    """Plugin that writes the durations of a run, by file and by phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, Counter[str]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of a phase of a test."""
        self._seconds[file_of(report.nodeid)][report.when or ""] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file: a line for each file of tests that took a second; those of other runs keep theirs."""
        root = Path(__file__).parents[1]
        known = {file: phases for file, phases in known_phases().items() if (root / file).exists()}
        known |= {
            file: {phase: round(phases[phase], 1) for phase in sorted(phases)} for file, phases in self._seconds.items()
        }
        lines = [
            f"{json.dumps(file)}: {json.dumps(phases)}"
            for file, phases in sorted(known.items())
            if sum(phases.values()) >= 1
        ]
        DURATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
