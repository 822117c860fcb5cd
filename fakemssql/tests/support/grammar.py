"""Microsoft's own grammar of T-SQL, as the formatter ``maxdop`` brings it: ScriptDom, compiled into one program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PLACES = [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
MAXDOP = shutil.which("maxdop", path=os.pathsep.join(_PLACES))
"""The program, None where it is not installed: it has no wheel for Linux on ARM."""

WHY_NOT = "maxdop is not installed: pyproject.toml names it, and the platforms that it has wheels for"

_REFUSAL = re.compile(r"(?P<number>\d+)\.sql: could not be parsed, so it was left unchanged\. (?P<what>.*)")


def refusals(texts: Sequence[str], version: str = "2022") -> dict[int, str]:
    """What the grammar of a version of SQL Server says of the texts that it does not take, by their places.

    Line ends are one kind: maxdop makes those in names so, and then calls the change a fault of its own.
    """
    assert MAXDOP, WHY_NOT
    if not texts:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            Path(folder, f"{number}.sql").write_text(text.replace("\r\n", "\n").replace("\r", "\n"), "utf-8")
        command = [MAXDOP, "--check", "--parser-version", version, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    # 1 says that a text could not be parsed, or that maxdop would lay it out differently, which is no matter; nor is it
    # that maxdop could not, for which it says 2.
    assert done.returncode in (0, 1) or "formatted output failed verification" in done.stderr, done.stderr[-1_000:]
    return {int(found["number"]): found["what"] for found in _REFUSAL.finditer(done.stderr)}
