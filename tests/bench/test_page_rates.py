"""Short run of ``scripts/bench_page.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import json, sys

from bench_page import compare_page
from bench_setting import temporary_queue

with temporary_queue(sys.stdin.read()) as queue:
    print(json.dumps([each.to_dict() for each in compare_page(queue, looks=2, queues=3)]))
"""


@pytest.mark.airflow
def test_the_page_is_measured_against_its_bound_and_the_bare_query(server: Any) -> None:
    """In a process of its own: it starts an Airflow with a home of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        input=server.url("sqlqueue"),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(each["bound"], each["limit"], each["unit"]) for each in found] == [
        (None, False, "ms"),
        (1, True, "ms"),
        (None, False, "ms"),
    ]
    assert all(each["ratio"] > 0 for each in found)
