"""The example's job as a program with a Java machine of its own, as somebody tries it by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_sqlqueue.traffic import generate
from tests.spark.conftest import MakeBatch

EXAMPLES = Path(__file__).parents[2] / "example_dags"


@pytest.mark.spark
def test_the_job_runs_as_a_script(make_batch: MakeBatch, tmp_path: Path) -> None:
    batch = make_batch(list(generate(40, seed=3)))
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(batch.to_dict()), encoding="utf-8")
    targets = ["--lake", str(tmp_path / "lake"), "--report", str(tmp_path / "report.html")]
    command = [
        sys.executable,
        str(EXAMPLES / "audit_job.py"),
        "--manifest",
        str(manifest),
        *targets,
        "--master",
        "local[1]",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=240)
    assert json.loads(answer.stdout.splitlines()[-1])["written"] == batch.messages
    assert (tmp_path / "report.html").stat().st_size > 5_000
