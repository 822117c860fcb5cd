"""Switches of a server for tests: faults, and properties that differ from the default.

A file in the data folder has them. A connection reads the file when it logs in, so a switch applies to connections
that are opened later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = "switches.json"


@dataclass(frozen=True)
class Switches:
    """Switches of a server; by default all are off. :meth:`fakemssql.FakeServer.switched` describes each.

    Sources: "Table hints (Transact-SQL)" for page locks, "MSSQLSERVER_601" for dirty reads, "Connection resiliency in
    the ODBC driver" for refused recovery (IMC02 and later).
    """

    properties: Mapping[str, str | int | None] = field(default_factory=dict)
    lose_transaction_at: int | None = None
    page_locks: bool = False
    failing_dirty_reads: int = 0
    refuse_recovery: bool = False

    def __post_init__(self) -> None:
        if self.lose_transaction_at is not None and self.lose_transaction_at < 1:
            raise ValueError("requests are counted from 1")


def read(file: Path) -> Switches:
    """Read the switches from a file; without the file all are off."""
    try:
        return Switches(**json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        return Switches()


def write(file: Path, switches: Switches) -> None:
    """Replace the file in one step: a connection may be reading it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(switches)), "utf-8")
    os.replace(fresh, file)
