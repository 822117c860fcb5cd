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
    """Switches of a server; by default all are off. ``properties`` are values of SERVERPROPERTY by name.

    ``lose_transaction_at``: each connection loses an open transaction once, without an error, just before the request
    of that number; only requests in a transaction count, from 1.

    ``page_locks``: statements without ROWLOCK lock pages, which READPAST does not skip ("Table hints (Transact-SQL)").
    ``failing_dirty_reads``: this number of statements of each connection fail with error 601 when they read a table
    under NOLOCK ("MSSQLSERVER_601").

    ``refuse_recovery``: the server does not restore a session for a client whose connection broke while it was idle
    ("Connection resiliency in the ODBC driver": IMC02 and what follows).
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
