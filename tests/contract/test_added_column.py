"""A column that a later layout adds takes an entry of ``row.py`` and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_new_column_is_one_entry_for_every_verb(server_url: str, schema: str, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.contract.added_column", server_url, schema, str(tmp_path)]
    run = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found.pop("spark") == [
        *("Id", "CorrelationId", "ReplyToAddress", "Recoverable", "TraceParent", "Expires", "Headers", "Body"),
        *("RowVersion", "Expired", "BodyFile"),
    ]
    assert found == {
        "findings": [],
        "unknown columns": [],
        "send": ["sent", None],
        "forward": ["sent", None],
        "transfer": ["sent", "given"],
        "files": ["sent", "given"],
        "requeue from files": ["sent", "given"],
        "requeue from table": ["sent", "given"],
        "delayed move": ["late"],
        "sent by spark": ["column", "header"],
    }
