"""Short run of ``scripts/soak.py``: every role has worked, every fault has come, and all messages are accounted for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "scripts" / "soak.py"
SECONDS = 12


@pytest.mark.airflow
@pytest.mark.timeout(900)
def test_a_short_soak_accounts_for_all_messages() -> None:
    command = [sys.executable, "-W", "ignore", str(SOAK), "--json", "--seed", "5", "--minutes", str(SECONDS / 60)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-6_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["passed"]
    assert found["seed"] == 5
    counts, checks = found["counts"], {check["name"]: check for check in found["checks"]}
    assert {checks[name]["figure"] for name in ("lost", "doubled", "changed", "made up")} == {"0"}
    assert checks["cuts"]["figure"] == "10"
    assert min(counts[f"messages {what}"] for what in ("sent", "drained", "handled")) > 0
    assert min(counts[what] for what in ("purged", "moved", "looked", "sensors met")) > 0
    # A busy machine takes too few samples in so short a time for a growth.
    assert set(found["sampled"]) >= {"sender 1", "page", "sensor", "the soak itself"}
    assert "Seed 5" in done.stderr
