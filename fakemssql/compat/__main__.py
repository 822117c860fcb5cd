"""Command ``python -m compat [client ...]``: prints a table of the results; the exit code is 1 if a client failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from compat import scenario
from compat.clients import OTHERS, PYTHON, NotHere
from compat.running import run
from fakemssql import FakeServer

_DATABASE = "compat"


def main(names: Sequence[str]) -> int:
    known = [client.name for client in (*OTHERS, *PYTHON)]
    if unknown := [name for name in names if name not in known]:
        sys.stderr.write(f"There is no client {unknown[0]!r}: choose of {', '.join(known)}.\n")
        return 2
    started = time.monotonic()
    passed = failed = left_out = 0
    sys.stdout.write("| client | version | TDS | encryption | " + " | ".join(scenario.STEPS) + " |\n")
    sys.stdout.write("|---" * (4 + len(scenario.STEPS)) + "|\n")
    with FakeServer(databases=[_DATABASE]) as server:
        for client in (*OTHERS, *PYTHON):
            if names and client.name not in names:
                continue
            try:
                command = client.make()
            except NotHere as error:
                sys.stdout.write(f"| {client.name} | | | | not run: {error} |\n")
                left_out += 1
                continue
            for mode in client.modes:
                version, found = run(client, command, mode, server)
                shown = " | ".join(wrong or "yes" for wrong in found.values())
                sys.stdout.write(f"| {client.name} | {version} | {client.version(mode).name} | {mode} | {shown} |\n")
                sys.stdout.flush()
                passed, failed = (passed, failed + 1) if any(found.values()) else (passed + 1, failed)
    seconds = time.monotonic() - started
    clients = "client" if left_out == 1 else "clients"
    sys.stdout.write(f"\nIn {seconds:.0f} seconds, {left_out} {clients} not run:\n{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
