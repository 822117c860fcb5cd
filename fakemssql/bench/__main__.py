"""Measure time and memory of fakemssql: starts, connections, idle connections, rows and single statements.

``python fakemssql/bench [starts] [connections] [idle] [reads] [statements] [--json]`` measures the named parts, or all.
A figure that misses its bound is marked, and the exit code is 1. Bounds by the clock are for a machine without other
load.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict

from figures import Figure, table
from measures import connections, idle, reads, starts, statements

from fakemssql import FakeServer, __version__

PARTS: dict[str, Callable[[FakeServer], list[Figure]]] = {
    "connections": connections,
    "idle": idle,
    "reads": reads,
    "statements": statements,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"starts, {', '.join(PARTS)}; default: all")
    parser.add_argument("--json", action="store_true", help="print JSON alone; the tables go to stderr")
    options = parser.parse_args()
    names = options.parts or ["starts", *PARTS]
    if unknown := set(names) - {"starts", *PARTS}:
        parser.error(f"there is no part {sorted(unknown)[0]!r}: choose of starts, {', '.join(PARTS)}")
    out = sys.stderr if options.json else sys.stdout
    cores, load = os.cpu_count(), os.getloadavg()[0]
    out.write(f"{cores} cores, load {load:.1f}, Python {platform.python_version()}\n")
    measured: dict[str, list[Figure]] = {}
    for name in names:
        if name == "starts":
            measured[name] = starts()
        else:
            with FakeServer() as server:
                measured[name] = PARTS[name](server)
        out.write(f"\n{name}\n{table(measured[name])}\n")
        out.flush()
    passed = all(figure.passed for figures in measured.values() for figure in figures)
    if options.json:
        facts = {"version": __version__, "cores": cores, "load": load, "python": platform.python_version()}
        parts = {name: [{**asdict(f), "passed": f.passed} for f in figures] for name, figures in measured.items()}
        sys.stdout.write(json.dumps({**facts, "parts": parts, "passed": passed}) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
