"""Headers of any size do not stop an API server or a triggerer: memory is bounded, and the event loop has its turns.

The process is one of its own, which does on threads what the page and the triggers do, while its event loop counts how
long it stands still. Of up to three runs the best counts, because the machine has other work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import run_sql

CHILD = """
import asyncio, json, sys, time
from functools import partial
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.queue.locked_messages import LockedMessages
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.queue.errors.scan import ErrorQueue, scan, window_of
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue import MessageFilter, QueueCondition
from airflow_sqlqueue.queue.browsing import browse

url, name, error_name = sys.argv[1:]
client = QueueClient.from_url(url)
where = MessageFilter(headers={"a": "b"})

def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) // 1024

def page():
    with client.queue(name).open() as queue:
        for head in browse(queue, 200):
            Envelope.of(head.decoded).content.message_types
        for message in scan(ErrorQueue(queue), window_of(queue, ErrorFilter())):
            pass

def condition():
    client.queue(name).check(QueueCondition(min_messages=5, filters=where))
    client.queue(name).check(QueueCondition(oldest_seconds=5))

def find_reply():
    client.queue(name).find_reply("none")

async def hold():
    held = LockedMessages(client.session, client.resolver, name, error_name)
    try:
        for head in await asyncio.to_thread(held.lock, 100):
            envelope = Envelope.of(head.decoded)
            envelope.content.message_types, envelope.time.time_sent, envelope.identity.message_id
            await asyncio.sleep(0)
        await asyncio.to_thread(held.settle, [], [1], ValueError("not accepted"))
    finally:
        await asyncio.to_thread(held.close)

async def beat(gaps):
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.001)
        gaps.append(time.monotonic() - before)

async def run():
    gaps = []
    beating = asyncio.create_task(beat(gaps))
    await hold()
    for work in (page, condition, find_reply):
        await asyncio.to_thread(work)
    beating.cancel()
    return max(gaps)

client.queue(error_name).depth()
before = memory()
stalls = [asyncio.run(run())]
while len(stalls) < 3 and min(stalls) >= 0.2:
    stalls.append(asyncio.run(run()))
print(json.dumps({"grown": memory() - before, "stall": min(stalls)}))
"""

ONE_OF_60_MB = 30_000_000
ONE_OF_1_GB = 500_000_000
SIZES = [ONE_OF_60_MB, *([ONE_OF_1_GB] if os.environ.get("SQLQUEUE_FAULTS") == "long" else [])]


@pytest.mark.parametrize("characters", SIZES)
def test_headers_of_any_size_take_little_memory_and_no_turn_of_the_event_loop(
    queue: QueueTable, server_url: str, characters: int
) -> None:
    table, error_name = queue.address.qualified_name, f"{queue.address.table}.error"
    run_sql(queue.session, f"SELECT * INTO [{error_name}] FROM {table} WHERE 1 = 0")
    try:
        for text, count, rows in (
            ("{},", characters // 3, 1),
            ("{},", 330_000, 10),
            ('"k":"v",', 120_000, 10),
        ):
            opening = '{"a":[' if text == "{}," else '{"a":"b",'
            for _ in range(rows):
                run_sql(
                    queue.session,
                    f"INSERT INTO {table} ([Id], [Recoverable], [Headers]) VALUES (NEWID(), 1, "
                    f"N'{opening}' + REPLICATE(CAST(N'{text}' AS nvarchar(max)), {count}))",
                )
        done = subprocess.run(
            [sys.executable, "-c", CHILD, server_url, queue.address.table, error_name],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout)
        assert found["grown"] < 300, found
        assert found["stall"] < 0.2, found
    finally:
        run_sql(queue.session, f"DROP TABLE [{error_name}]")
