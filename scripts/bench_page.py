"""Speed of the page in Airflow with 200 queues: a request to an API server, over HTTP, against its bound.

The queues are in a database of their own, whose catalog says that they hold 10,000,000 messages: the page reads the
catalog and the head of each queue, so real rows would change nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from bench_report import Comparison
from bench_setting import airflow_connection

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.inspection.overview import DatabaseOverview
from airflow_sqlqueue.queue.tables.create import queue_definition
from airflow_sqlqueue.server.sql import Query

QUEUES, MESSAGES_OF_EACH = 200, 50_000
BOUND = 500.0
"""Milliseconds for each request but the first, which has to learn everything about the queues."""
_CONNECTION = "sqlqueue_bench"


def compare_page(queue: QueueTable, looks: int = 5, queues: int = QUEUES) -> list[Comparison]:
    """Compare requests of the page for all queues (the first, the slowest later one, the median) with bare queries."""
    with ExitStack() as stack:
        client = stack.enter_context(database_with_queues(QueueClient(queue.session.settings), queues))
        look = stack.enter_context(page_server(client))
        first, *later = (_timed(lambda: look("queues")) for _ in range(looks + 1))
        database = DatabaseOverview(client.settings.database)
        with client.session() as session:
            bare = [_timed(lambda: database.read(session)) for _ in range(looks + 1)][1:]
    name = f"{queues} queues on the page"
    return [
        Comparison(f"{name}, first look", first, "the bound", BOUND, unit="ms", note="has no bound"),
        Comparison(f"{name}, slowest look", max(later), "the bound", BOUND, bound=1, limit=True, unit="ms"),
        Comparison(f"{name}, median", median(later), "bare looks, median", median(bare), unit="ms"),
    ]


@contextmanager
def database_with_queues(client: QueueClient, queues: int = QUEUES) -> Iterator[QueueClient]:
    """Create a database with ``queues`` queues, each of 50,000 messages by its catalog; return a client of it."""
    name = f"crowd_{uuid.uuid4().hex[:8]}"
    client.run_sql(f"CREATE DATABASE [{name}]")
    try:
        crowd = QueueClient(replace(client.settings, database=name))
        texts = []
        for number in range(queues):
            definition = queue_definition(crowd.resolve(f"Endpoint.{number:03}"))
            texts += [statement.text for statement in definition.statements]
            counted = f"WITH ROWCOUNT = {MESSAGES_OF_EACH}, PAGECOUNT = {MESSAGES_OF_EACH // 10}"
            texts.append(f"UPDATE STATISTICS {definition.table.qualified_name} {counted};")
        with crowd.session() as session:
            for start in range(0, len(texts), 100):
                session.run(Query("make", "make the queues", "\n".join(texts[start : start + 100])))
        yield crowd
    finally:
        client.run_sql(f"DROP DATABASE IF EXISTS [{name}]")


@contextmanager
def page_server(client: QueueClient) -> Iterator[Callable[[str], httpx.Response]]:
    """Start an API server with the page, in this process; a call of the result asks for a part, such as ``queues``."""
    with TemporaryDirectory(prefix="sqlqueue-bench-") as home:
        os.environ |= {
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API_AUTH__JWT_SECRET": uuid.uuid4().hex * 2,
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
            f"AIRFLOW_CONN_{_CONNECTION.upper()}": json.dumps(airflow_connection(client)),
        }
        airflow = Path(sys.executable).with_name("airflow")
        subprocess.run([airflow, "db", "migrate"], check=True, capture_output=True)
        import uvicorn
        from airflow.api_fastapi.app import create_app, get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        from airflow_sqlqueue.plugin import snapshots

        snapshots.FRESH_SECONDS = 0.0
        server = uvicorn.Server(uvicorn.Config(create_app(apps="core"), port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.05)
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="bench", role="ADMIN"))
            port = server.servers[0].sockets[0].getsockname()[1]
            path = f"/sqlqueue/api/connections/{_CONNECTION}"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
                browser.headers["Authorization"] = f"Bearer {token}"
                yield lambda part: browser.get(f"{path}/{part}").raise_for_status()
        finally:
            server.should_exit = True
            thread.join(30)


def _timed(work: Any) -> float:
    """Return the milliseconds that ``work`` took."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000
