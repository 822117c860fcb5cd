"""Report of the bench: all figures, and whether they keep their bounds."""

from __future__ import annotations

import json
import sys
from typing import Any

import bench_report
import pytest
from bench_report import Comparison, report

SLOW = Comparison("drain", 50.0, "bare loop", 100.0, 0.8)
TOLD = Comparison("purge by age", 50.0, "bare DELETE", 100.0, note="reads headers")
LEAN = Comparison("drain of 2 GB", 500.0, "limit", 600.0, 1.0, limit=True, unit="MB")
FAT = Comparison("drain of 2 GB", 601.0, "limit", 600.0, 1.0, limit=True, unit="MB")


def test_bounds_are_lower_or_upper_ones() -> None:
    assert [each.passed for each in (SLOW, TOLD, LEAN, FAT)] == [False, True, True, False]


@pytest.mark.parametrize(("measured", "code"), [([TOLD, LEAN], 0), ([TOLD, SLOW], 1)])
def test_json_has_every_figure_and_the_exit_code_tells_of_bounds(
    server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], measured: list[Any], code: int
) -> None:
    monkeypatch.setenv("SQLQUEUE_TEST_SERVER", server.url("sqlqueue"))
    monkeypatch.setattr(sys, "argv", ["bench", "--json", "one"])
    assert report("Measure.", {"one": lambda queue: measured, "other": lambda queue: [FAT]}) == code
    told = json.loads(capsys.readouterr().out)
    assert told["cores"] == bench_report.cores()
    assert told["passed"] is (code == 0)
    assert list(told["parts"]) == ["one"]
    assert told["parts"]["one"][0] == {
        "name": "purge by age",
        "value": 50.0,
        "base_name": "bare DELETE",
        "base_value": 100.0,
        "ratio": 0.5,
        "bound": None,
        "limit": False,
        "passed": True,
        "unit": "messages/s",
        "note": "reads headers",
    }


def test_an_unknown_part_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "speed"])
    with pytest.raises(SystemExit, match="2"):
        report("Measure.", {"one": lambda queue: [], "other": lambda queue: []})
    assert "choose of one, other" in capsys.readouterr().err
