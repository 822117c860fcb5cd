"""Measure sends, purges, drains, their growth and memory, handling, the page, and Spark: all parts, or some.

``python scripts/bench.py [PART ...] [--json]``, or ``make bench PARTS="drain"``. Without names all parts run but
``millions``, which drains 5,000,000 messages at once. All parts run on one server: fakemssql, or the server of
``SQLQUEUE_TEST_SERVER`` (``mssql://user:password@host:port/database``).
"""

from __future__ import annotations

import sys

from bench_bodies import compare_bodies
from bench_consume import compare_consuming
from bench_drain import LONG, compare_drains, compare_growth, compare_millions
from bench_memory import compare_memory
from bench_page import compare_page
from bench_queue import compare_queue
from bench_receive import compare_receives
from bench_report import report
from bench_shop import compare_shop
from bench_spark import compare_spark

PARTS = {
    "queue": compare_queue,
    "drain": compare_drains,
    "shop": compare_shop,
    "growth": compare_growth,
    "millions": compare_millions,
    "memory": compare_memory,
    "consume": compare_consuming,
    "receive": compare_receives,
    "page": compare_page,
    "spark": compare_spark,
    "bodies": compare_bodies,
}

if __name__ == "__main__":
    sys.exit(report(__doc__ or "", PARTS, unless_named=LONG))
