"""Roles of the soak, each in a process of its own: senders, drains, consumers, purge, mover, page and sensor.

A role does its work again after an error that passes by itself, as a task with retries does. Any other error ends it,
and the soak fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import psutil  # type: ignore[import-untyped]
from bench_setting import airflow_connection
from soak_setting import AUDIT, DRAIN, ERROR, KINDS, NOTES, ORDERS, Kind, Plan, is_never_handled, messages, name_in

from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ServerUnreachableError, SqlQueueError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.server.reconnecting import passes

START, STOP = "start", "stop"
SENT, UNKNOWN, REFUSED = "sent", "unknown", "refused"
"""Outcomes of a send: acknowledged; its answer was lost; the server was not reached."""

MOST = 30
"""Messages of a send, at the most."""

RETRIES = RecoverabilityOptions(1, 2, 1.0, ERROR)
AT_END = 60.0
"""Seconds that a role has to end what it has begun, when the server is away."""


class Role:
    """A role's process: its plan, its chance, its reports, and whether it is to stop.

    ``busy`` are the queues that get no messages for the moment.
    """

    def __init__(self, plan: Plan, name: str, pipe: Connection[Any, Any]) -> None:
        self.plan, self.name, self.client = plan, name, plan.client
        self.chance = Random(f"{plan.seed} {name}")  # noqa: S311 - repeatable on purpose
        self.stop, self.busy = threading.Event(), frozenset[str]()
        self._started = threading.Event()
        self._pipe, self._lock = pipe, threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Wait for the soak's word; when the soak is gone the role ends."""
        try:
            while (told := self._pipe.recv()) != STOP:
                if told == START:
                    self._started.set()
                else:
                    self.busy = told
        except (EOFError, OSError):
            os._exit(1)
        self.stop.set()
        self._started.set()

    def ready(self) -> None:
        """Report that the role is ready, and wait until all are."""
        self.report("ready")
        self._started.wait()

    def report(self, kind: str, *values: Any) -> None:
        with self._lock:
            self._pipe.send((self.name, kind, values))

    def attempt(self, work: Callable[[], object]) -> bool:
        """Do the work; return False after an error that passes by itself."""
        try:
            work()
        except SqlQueueError as error:
            if not passes(error, known=True):
                raise
            self.report("away", type(error).__name__)
            self.stop.wait(0.3)
            return False
        return True

    def insist(self, work: Callable[[], object]) -> bool:
        """Attempt the work until it is done; return False where the server stayed away to the end."""
        until = None
        while not self.attempt(work):
            if self.stop.is_set():
                until = until or time.monotonic() + AT_END
                if time.monotonic() > until:
                    return False
                time.sleep(0.3)
        return True


def run_role(plan: Plan, name: str, work: str, number: int, pipe: Connection[Any, Any], log: str) -> None:
    """Run a role in this process. Its output goes to a file."""
    with Path(log).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    role = Role(plan, name, pipe)
    try:
        ROLES[work](role, number)
    except BaseException:
        role.report("failed", traceback.format_exc())
    else:
        role.report("ended")
    sys.stdout.flush()


def send(role: Role, number: int) -> None:
    """Send; a lost answer makes a send unknown, but every other sender repeats it under its id."""
    first, repeats = 0, bool(number % 2)
    role.ready()
    while not role.stop.wait(role.chance.uniform(0.5, 2.5)):
        kind = role.chance.choices(KINDS, [each.weight for each in KINDS])[0]
        if kind.queue in role.busy:
            continue
        count = role.chance.randint(1, MOST)
        work = Sending(role, kind, messages(number, first, count, kind), repeats=repeats)
        done = role.insist(work) if repeats else role.attempt(work)
        outcome = SENT if done else REFUSED if work.was_refused else UNKNOWN
        role.report("sent", number, KINDS.index(kind), first, count, outcome, work.seconds)
        first += count


class Sending:
    """A send, and what its last attempt took; one that ``repeats`` is a send that is made once."""

    def __init__(self, role: Role, kind: Kind, made: list[Message], *, repeats: bool) -> None:
        self._client, self._kind, self._messages = role.client, kind, made
        self._id = uuid.UUID(int=role.chance.getrandbits(128), version=4) if repeats else None
        self._delay = {"delay": timedelta(seconds=role.chance.uniform(0, 5))} if kind.delayed else {}
        self.seconds, self.was_refused = 0.0, True

    def __call__(self) -> None:
        to: Any = self._client.delayed if self._kind.delayed else self._client.queue
        queue = to(self._kind.queue)
        began = time.perf_counter()
        try:
            if self._id is None:
                queue.send(self._messages, **self._delay)
            else:
                queue.send_once(self._id, self._messages, **self._delay)
        except Exception as error:
            self.was_refused = self.was_refused and isinstance(error, ServerUnreachableError)
            raise
        self.seconds = time.perf_counter() - began


def drain(role: Role, number: int) -> None:
    """Drain batch after batch, into files or into a table; an interrupted drain is resumed."""
    stage = "files" if number % 2 else "table"
    folder = role.plan.folder if stage == "files" else None
    role.ready()
    while not role.stop.wait(role.chance.uniform(0, 1.5)):
        batch_id = uuid.UUID(int=role.chance.getrandbits(128), version=4)
        role.report("batch", batch_id)
        request = DrainRequest(batch_id=batch_id, options=DRAIN, origin="soak")

        def work(request: DrainRequest = request) -> None:
            batch = role.client.queue(AUDIT).drain(folder, request, stage=stage).batch
            role.report("drained", batch.messages)

        role.insist(work)


def consume(role: Role, number: int) -> None:
    """Consume: handlers write what they have handled, and fail at times; with some messages they fail always."""
    insert = f"INSERT INTO [{role.plan.schema}].[Handled] ([Body]) VALUES (?)"  # noqa: S608 - our own name

    def handle(message: Envelope) -> None:
        role.client.run_sql(insert, message.body)
        if is_never_handled(name_in(message.body)):
            raise LookupError("never")
        if role.chance.random() < 0.1:
            raise ValueError("not yet")

    options = ConsumeOptions(
        until_empty=False,
        max_handlers=2,
        poll_seconds=0.5,
        **vars(RETRIES),
        wait_for_server=True,
    )
    role.ready()
    before = 0

    def count(done: ConsumeResult) -> None:
        nonlocal before
        role.report("handled", done.handled - before)
        before = done.handled

    def work() -> None:
        nonlocal before
        before = 0
        role.client.queue(ORDERS).consume(handle, options, on_progress=count, stop=role.stop)

    while not role.stop.is_set():
        role.attempt(work)


def purge(role: Role, number: int) -> None:
    """Delete expired messages, every two seconds."""
    role.ready()
    while not role.stop.wait(2):
        role.attempt(lambda: role.report("purged", role.client.queue(NOTES).purge().deleted))


def move(role: Role, number: int) -> None:
    """Move due messages, every second."""
    role.ready()
    while not role.stop.wait(1):
        role.attempt(lambda: role.report("moved", role.client.delayed(AUDIT).move(MoveOptions(max_seconds=10)).moved))


def page(role: Role, number: int) -> None:
    """Look at the queues and the batches on the page of an API server, once a second."""
    import httpx
    from bench_page import page_server

    with page_server(role.client) as look:
        look("queues")
        role.ready()
        while not role.stop.wait(1):
            for part in ("queues", "batches?limit=20"):
                began = time.perf_counter()
                try:
                    answer = look(part).json()
                except httpx.HTTPError as error:
                    role.report("away", type(error).__name__)
                    continue
                seconds = time.perf_counter() - began
                role.report("looked", part.partition("?")[0], bool(answer["problem"]), seconds)


def sense(role: Role, number: int) -> None:
    """Wait in triggers as the triggerer does, beside one for what never comes: one thread, one connection."""
    with TemporaryDirectory(prefix="sqlqueue-soak-") as home:
        os.environ |= {
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
            "AIRFLOW_CONN_SQLQUEUE_SOAK": json.dumps(airflow_connection(role.client)),
        }
        from airflow_sqlqueue.triggers import SqlQueueDepthTrigger

        def trigger(most: int) -> SqlQueueDepthTrigger:
            wait_for = {"min_messages": most}
            return SqlQueueDepthTrigger(
                queue_name=ORDERS, wait_for=wait_for, poll_interval=1.0, sqlqueue_conn_id="sqlqueue_soak"
            )

        role.ready()
        asyncio.run(_sense(role, trigger))


async def _sense(role: Role, trigger: Callable[[int], Any]) -> None:
    async def first_of(most: int) -> Any:
        waiting = trigger(most)
        try:
            async with aclosing(waiting.run()) as events:
                return (await anext(events)).payload
        finally:
            await waiting.cleanup()

    async def sensor(most: int) -> None:
        while True:
            role.report("sensed", (await first_of(most))["status"])
            await asyncio.sleep(0.5)

    waits = [asyncio.create_task(sensor(most)) for most in (1, 5, 20, 10**9)]
    while not role.stop.is_set():
        await asyncio.sleep(0.5)
        threads = sum(thread.name == "sqlqueue-poller" for thread in threading.enumerate())
        port = role.plan.settings.port
        connected = [each for each in psutil.Process().net_connections("tcp") if each.raddr and each.raddr.port == port]
        role.report("polling", threads, sum(each.status == psutil.CONN_ESTABLISHED for each in connected))
        if ended := [each for each in waits if each.done()]:
            ended[0].result()
    for each in waits:
        each.cancel()
    await asyncio.wait(waits, timeout=10)


ROLES: Mapping[str, Callable[[Role, int], None]] = {
    "sender": send,
    "drain": drain,
    "consumer": consume,
    "purge": purge,
    "mover": move,
    "page": page,
    "sensor": sense,
}
