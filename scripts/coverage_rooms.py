"""Print the branch coverage of each room of the product, from the data that ``make coverage`` has combined.

``python scripts/coverage_rooms.py``; the exit code is 1 if a room is below the bound. ``coverage report`` names the
lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "airflow_sqlqueue"
BOUND = 95.0
"""Least coverage of a room, in percent of its lines and branches."""

ELSEWHERE = {
    "hooks/connection_form.py": "Airflow 3.1 alone (make versions)",
    "spark/sinks/iceberg.py": "Spark 4.0 and 4.1 (make versions)",
    "spark/source/sending.py": "processes of Spark's workers (tests/spark/test_source_send.py)",
    "versions/airflow.py": "one version of Airflow of several (make versions)",
}
"""Modules that run where nothing is measured, and where they are tested; they count in no room."""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", report], cwd=ROOT, check=True)
        files = json.loads(report.read_text("utf-8"))["files"]
    rooms: dict[str, Counter[str]] = {}
    for name, each in files.items():
        module = name.rpartition(f"{PACKAGE}/")[2]
        room = module.partition("/")[0]
        if module in ELSEWHERE:
            continue
        for key in (room if not room.endswith(".py") else "(modules)", "all"):
            rooms.setdefault(key, Counter()).update(each["summary"])
    table = Table("room", "lines", "branches", "covered, %", title="Branch coverage")
    below = []
    for room in sorted(rooms, key=lambda name: (name == "all", name)):
        counts = rooms[room]
        percent = _percent(counts)
        if percent < BOUND:
            below.append(room)
        table.add_row(room, str(counts["num_statements"]), str(counts["num_branches"]), f"{percent:.1f}")
    Console().print(table)
    for module, where in ELSEWHERE.items():
        Console().print(f"Not measured: {module}: {where}", soft_wrap=True)
    if below:
        Console().print(f"Below {BOUND:.0f}%: {', '.join(below)}. `coverage report` names the lines.", soft_wrap=True)
    return 1 if below else 0


def _percent(counts: Counter[str]) -> float:
    whole = counts["num_statements"] + counts["num_branches"]
    return 100.0 * (counts["covered_lines"] + counts["covered_branches"]) / whole if whole else 100.0


if __name__ == "__main__":
    sys.exit(main())
