"""Demo of the main job, end to end, on fakemssql: queue, Parquet, Spark, tables and a report.

It sends a shop's traffic to a queue, runs the example DAG ``audit_to_lake`` on it with Airflow, compares the numbers of
all steps, and fails if they do not agree. ``COUNT`` and ``SEED`` in the environment change the traffic.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby, islice
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow.parquet as pq
from bench_setting import connection_fields
from rich.console import Console
from rich.table import Table
from spark_archive import quick_start

from airflow_sqlqueue import AddressResolver, ConnectionSettings, Message
from airflow_sqlqueue.drain.batches import recorded_batch
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.traffic import generate
from fakemssql import FakeServer

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".demo"
QUEUE = "audit"
TABLES = FOLDER / "lake" / "tables"
REVIEWED = ROOT / "example_dags" / "schemas"
ORDER = b'{"$type":"Shop.Sales.Contracts.PlaceOrder"'
"""Beginning of the body of an order."""
SENDERS = 2
"""Connections that send at once: while the server works for one, messages are made for the others."""
console = Console(soft_wrap=True)


@dataclass
class Steps:
    """Steps of the demo: name, number of messages, and seconds."""

    rows: list[tuple[str, int | None, float]] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str, messages: int | None = None) -> Iterator[None]:
        started = time.monotonic()
        with doing(name):
            yield
        self.add(name, messages, time.monotonic() - started)

    def add(self, name: str, messages: int | None, seconds: float) -> None:
        self.rows.append((name, messages, seconds))


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show the current step: a spinner on a terminal, a line elsewhere."""
    if console.is_terminal:
        with console.status(f"{what} ..."):
            yield
    else:
        console.print(f"{what} ...", highlight=False)
        yield


def main() -> int:
    count, seed = int(os.environ.get("COUNT", "100000")), int(os.environ.get("SEED", "1"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    shutil.copytree(REVIEWED, FOLDER / "lake" / "schemas")
    steps = Steps()
    with FakeServer(databases=["sqlqueue"]) as server:
        settings = ConnectionSettings.from_url(server.url("sqlqueue"))
        address = AddressResolver(default_catalog=settings.database).resolve(QUEUE)
        with Session(settings) as session:
            create_queue(session, address)
            queue = QueueTable(session, address)
            with steps.timed("generate and send", count):
                sent = send(settings, address, changed(generate(count, seed=seed)))
            result = run_dag(settings, steps)
            batch = recorded_batch(session, result["drain"]["batch"])
            left = depth(queue)
            ledger = Ledger(session, address.catalog).manifest(batch.uuid)
        in_files = sum(pq.read_metadata(path.removeprefix("file://")).num_rows for path in batch.paths)
    counts = result["drain"]["result"]
    figures = {
        "messages sent": sent,
        "messages drained to Parquet": in_files,
        "expired, dropped by the drain": batch.expired,
        "expired, purged": result["purge"]["deleted"],
        "left in the queue": left.messages + (left.expired or 0),
        "rows in the ledger": ledger.messages,
        "rows Spark read": counts["messages"],
        "rows Spark wrote": counts["written"],
        "rows of the message tables": sum(pq.read_metadata(path).num_rows for path in TABLES.rglob("*.parquet")),
        "malformed headers": counts["malformed"],
    }
    show_tables(counts["tables"])
    show_revenue(counts["revenue"])
    show(figures, steps)
    console.print(f"report: {FOLDER / 'report.html'}\ntables: {TABLES}", highlight=False)
    return check(figures)


def changed(messages: Iterator[Message]) -> Iterator[Message]:
    """Change some orders, as new releases and faults of a sender do.

    A total is a text with its currency, there is a new field, or the body is cut off.
    """
    orders = 0
    for message in messages:
        body = message.body or b""
        if body.startswith(ORDER):
            orders += 1
            if orders % 50 == 1:
                body = re.sub(rb'"Total":([\d.]+)', rb'"Total":"\1 EUR"', body, count=1)
            elif orders % 50 == 2:
                body = body.replace(b'"Currency":', b'"Coupon":"SPRING","Currency":', 1)
            elif orders % 250 == 3:
                body = body[: len(body) // 2]
            message = dataclasses.replace(message, body=body)
        yield message


def send(settings: ConnectionSettings, address: ResolvedAddress, messages: Iterator[Message]) -> int:
    """Send the messages by :data:`SENDERS` connections; each takes the next messages when it has sent the last."""
    taking = Lock()

    def share() -> Iterator[Message]:
        while True:
            with taking:
                few = list(islice(messages, 256))
            if not few:
                return
            yield from few

    def send_share(_: int) -> int:
        with Session(settings) as session:
            return QueueTable(session, address).send(share())

    with ThreadPoolExecutor(SENDERS) as pool:
        return sum(pool.map(send_share, range(SENDERS)))


def run_dag(settings: ConnectionSettings, steps: Steps) -> dict[str, Any]:
    """Run the example DAG in an Airflow of its own; return the tasks' XComs by task id."""
    environment = {
        **quick_start(),
        **os.environ,
        "AIRFLOW_HOME": str(FOLDER / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "example_dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SQLQUEUE_DEFAULT": json.dumps(
            {
                "conn_type": "sqlqueue",
                **connection_fields(settings),
                "extra": {"encrypt": "yes", "trust_server_certificate": True},
            }
        ),
        "SQLQUEUE_FOLDER": str(FOLDER),
        "SQLQUEUE_TABLES": str(TABLES),
        "SQLQUEUE_QUEUE": QUEUE,
    }
    log = FOLDER / "airflow.log"
    with steps.timed("start Airflow"):
        airflow([str(Path(sys.executable).parent / "airflow"), "db", "migrate"], environment, log)
    answer = FOLDER / "result.json"
    with doing("run the DAG audit_to_lake: create, wait, drain, Spark job, purge"):
        started = time.monotonic()
        airflow([sys.executable, str(ROOT / "scripts" / "run_dag.py"), "audit_to_lake", str(answer)], environment, log)
        seconds = time.monotonic() - started
    result: dict[str, Any] = json.loads(answer.read_text())
    drained = result["drain"]["batch"]
    tables = result["drain"]["result"]["tables_seconds"]
    spark = result["seconds"]["drain"] - result["drain"]["seconds"] - tables
    steps.add("drain", drained["messages"] + drained["expired"], result["drain"]["seconds"])
    steps.add("Spark: start, audit table, report", drained["messages"], spark)
    steps.add("Spark: message tables, question", drained["messages"], tables)
    steps.add("purge", result["purge"]["deleted"], result["seconds"]["purge"])
    steps.add("the rest of the DAG", None, seconds - result["seconds"]["drain"] - result["seconds"]["purge"])
    return result


def airflow(command: list[str], environment: dict[str, str], log: Path) -> None:
    with log.open("a") as stream:
        done = subprocess.run(command, env=environment, stdout=stream, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        console.print(tail, markup=False, highlight=False)
        raise SystemExit(f"The DAG failed; the whole log is {log}")


def show_tables(tables: list[dict[str, Any]]) -> None:
    """Show the message tables: rows, and what was not parsed or rescued."""
    shown = Table(title="Tables of message types", title_justify="left")
    for name in ("table", "rows", "columns", "new columns", "rescued", "not parsed"):
        shown.add_column(name, justify="left" if name in ("table", "new columns") else "right")
    for each in tables:
        name = (each["name"] or "(no message type)").rpartition(".")[2]
        counts = [f"{each[column]:,}" for column in ("rows", "columns", "rescued", "unparsed")]
        counts[1] = counts[1] if each["columns"] else ""
        shown.add_row(name, *counts[:2], ", ".join(each["new_fields"]), *counts[2:])
    console.print(shown)


def show_revenue(revenue: list[dict[str, Any]]) -> None:
    """Show the answer of Spark SQL by six hours."""
    shown = Table(title="Orders joined to payments, in Spark SQL", title_justify="left")
    for name in ("from (UTC)", "orders", "paid", "ordered EUR", "paid EUR"):
        shown.add_column(name, justify="left" if name == "from (UTC)" else "right")
    names = ("orders", "paid_orders", "ordered", "paid")
    for start, hours in groupby(revenue, lambda row: row["hour"] // 6 * 6):
        rows = list(hours)
        moment = datetime.fromtimestamp(start * 3_600, timezone.utc)
        shown.add_row(f"{moment:%Y-%m-%d %H:%M}", *(f"{sum(row[name] for row in rows):,.0f}" for name in names))
    shown.add_section()
    shown.add_row("altogether", *(f"{sum(row[name] for row in revenue):,.0f}" for name in names))
    console.print(shown)


def show(figures: dict[str, int], steps: Steps) -> None:
    table = Table(title="What happened to the messages", title_justify="left")
    for name in ("", "messages", "seconds", "messages/s"):
        table.add_column(name, justify="left" if not name else "right")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    table.add_section()
    for name, messages, seconds in steps.rows:
        rate = f"{messages / seconds:,.0f}" if messages else ""
        table.add_row(name, f"{messages:,}" if messages is not None else "", f"{seconds:,.1f}", rate)
    table.add_row("altogether", "", f"{sum(seconds for _, _, seconds in steps.rows):,.1f}")
    console.print(table)


def check(figures: dict[str, int]) -> int:
    """Compare the numbers that must be equal; return 0 if they are."""
    sent = figures["messages sent"]
    out = [
        figures["messages drained to Parquet"],
        figures["expired, dropped by the drain"],
        figures["expired, purged"],
        figures["left in the queue"],
    ]
    same = [
        figures["messages drained to Parquet"],
        figures["rows in the ledger"],
        figures["rows Spark read"],
        figures["rows Spark wrote"],
        figures["rows of the message tables"],
    ]
    problems = []
    if sent != sum(out):
        problems.append(f"sent {sent:,} is not drained + expired + purged + left {sum(out):,}")
    if len(set(same)) != 1:
        problems.append(f"Parquet, ledger, Spark and tables do not agree: {', '.join(f'{n:,}' for n in same)}")
    if not (FOLDER / "report.html").exists():
        problems.append("there is no report")
    for problem in problems:
        console.print(f"WRONG: {problem}", style="bold red", highlight=False)
    if not problems:
        console.print(
            "The numbers add up: sent = drained + expired + purged + left; Parquet = ledger = Spark = tables.",
            style="green",
        )
        console.print("next: . .venv/bin/activate, and docs/guides/queue-to-table.md with messages of your own")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
