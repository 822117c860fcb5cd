"""The order of the tests: scopes by their durations, which a run records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scopes import AIRFLOW, SPARK, DurationRecorder, known_seconds, longest_first, scope_of


def test_the_scope_that_takes_longest_begins_and_files_keep_their_order() -> None:
    nodeids = [
        "tests/unit/test_a.py::x",
        "tests/spark/test_b.py::y",
        "tests/cli/test_c.py::z",
        "tests/spark/test_d.py::w",
    ]
    seconds = {"tests/unit/test_a.py": 2.0, "tests/spark/test_b.py": 1.0, "tests/spark/test_d.py": 5.0}
    assert longest_first(nodeids, seconds) == [1, 3, 0, 2]
    for early in ("tests/bench/test_e.py::v", "tests/sinks/test_e.py::v"):
        assert longest_first([*nodeids, early], seconds) == [4, 1, 3, 0, 2]


def test_files_that_share_a_start_are_one_scope() -> None:
    assert scope_of("tests/spark/test_batch.py") == SPARK
    assert scope_of("tests/spark/test_cluster.py") == "tests/spark/test_cluster.py"
    assert scope_of("tests/airflow/plugin/test_actions.py") == scope_of("tests/airflow/test_examples.py") == AIRFLOW
    assert scope_of("tests/airflow/test_hook.py") == "tests/airflow/test_hook.py"


def test_a_run_records_its_durations_by_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scopes.DURATIONS", tmp_path / "durations.json")
    assert known_seconds() == {}
    recorder = DurationRecorder()
    for when, duration in (("setup", 0.5), ("call", 1.5), ("teardown", 0.25)):
        recorder.pytest_runtest_logreport(
            pytest.TestReport("tests/a.py::t", ("tests/a.py", 1, "t"), {}, "passed", None, when, duration=duration)  # type: ignore[arg-type]
        )
    recorder.pytest_sessionfinish()
    assert known_seconds() == {"tests/a.py": pytest.approx(2.2, abs=0.11)}


def test_the_files_that_were_measured_exist() -> None:
    root = Path(__file__).parents[2]
    assert [file for file in known_seconds() if not (root / file).exists()] == []
