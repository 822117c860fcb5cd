"""Measure sends, purges, drains, their growth and their memory, all parts on one server, or the parts that are named.

``python scripts/bench.py [queue] [drain] [growth] [memory] [--json]``, or ``make bench PARTS="drain growth"``. It runs
on fakemssql, or on the one that ``SQLQUEUE_TEST_SERVER`` names (``mssql://user:password@host:port/database``).
"""

from __future__ import annotations

import sys

from bench_drain import compare_drains
from bench_growth import compare_growth
from bench_memory import compare_memory
from bench_queue import compare_queue
from bench_report import report

PARTS = {"queue": compare_queue, "drain": compare_drains, "growth": compare_growth, "memory": compare_memory}

if __name__ == "__main__":
    sys.exit(report(__doc__ or "", PARTS))
