"""Run senders, drains, consumers, purge, mover, page and sensor on one server with faults: no message is lost.

``python scripts/soak.py [--minutes 10] [--seed N] [--json]``, or ``make soak MINUTES=1``. The server is a fakemssql,
which is killed and restarted, or the one of ``SQLQUEUE_TEST_SERVER``, where only connections are cut. Exits with 1
where a message is lost or duplicated, a process grows, or a role fails.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil  # type: ignore[import-untyped]
from bench_report import cores
from rich.console import Console
from soak_account import read
from soak_faults import Faults
from soak_processes import Roles, SoakError
from soak_report import POSTGRESQL, Outcome, checks, figures, table
from soak_samples import Samples
from soak_setting import AUDIT, ORDERS, Plan, create, drop

from airflow_sqlqueue import ConnectionSettings
from airflow_sqlqueue.errors import SqlQueueError
from fakemssql import FakeServer
from tests.faults.proxy import Proxy

MINUTES = 10.0
PROGRESS_SECONDS = 10.0
SETTLE_SECONDS = 90.0
"""Seconds for which drains and consumers may empty their queues when the senders have ended."""

START_SECONDS = 90.0
"""Seconds beside a short load in which each role may begin its work, on a busy machine."""

WORK = ("messages sent", "messages drained", "messages handled", "purged", "moved", "looked", "sensors met")
"""Reports of each role's work."""

LONGEST_EXTRA = 900.0
"""Seconds beside the load after which the program ends itself, in whatever state."""

BACKLOG = {AUDIT: 20_000, ORDERS: 400}
"""Messages in a queue above which it gets no more for the moment."""

WARM_SECONDS = 300.0
"""Seconds of load from which growth is judged: before that, processes fill their caches."""


class Soak:
    """A run: the load with its faults, then the settling, then the account."""

    def __init__(self, console: Console, plan: Plan, server: FakeServer | None, proxy: Proxy, seconds: float) -> None:
        self._console, self._plan, self._server, self._seconds = console, plan, server, seconds
        self._faults = Faults(server, proxy, seconds, plan.seed)
        self._said = self._asked = 0.0
        self._depths: Mapping[str, int] = {}

    def run(self, logs: Path) -> Outcome:
        """Run, and return what was seen. Raises :class:`SoakError`."""
        with Roles(self._plan, logs) as roles:
            self._say("Waiting for the processes")
            roles.begin()
            began = time.monotonic()
            with Samples(lambda: self._pids(roles), self._seconds) as samples:
                self._faults.start()
                while (over := time.monotonic() - began - self._seconds) < 0 or (
                    over < START_SECONDS and not all(roles.reports.counts[what] for what in WORK)
                ):
                    self._tick(roles, began)
                ended = time.monotonic()
            if not self._faults.stop(60) or self._faults.failure is not None:
                raise SoakError(f"The faults have not ended well: {self._faults.failure!r}.")
            roles.stop("sender")
            self._settle(roles)
            roles.stop()
        self._say("Reading all messages")
        account, ledgers = read(self._plan, roles.reports.batches)
        verdict = account.settle(roles.reports.all_sends())
        growth = samples.growth((began + ended) / 2, ended)
        own, warm = self._server is not None, self._seconds >= WARM_SECONDS
        return Outcome(roles.reports, account.places, verdict, ledgers, samples.names, growth, self._faults, own, warm)

    def _tick(self, roles: Roles, began: float) -> None:
        roles.collect(0.25)
        now = time.monotonic()
        if now - self._asked > min(5.0, self._seconds / 10):
            self._asked = now
            depths = self._read_depths()
            roles.tell_busy(frozenset(name for name, most in BACKLOG.items() if depths.get(name, 0) > most))
        if now - self._said >= PROGRESS_SECONDS:
            self._say(f"{now - began:4.0f} s  {self._progress(roles)}")

    def _settle(self, roles: Roles) -> None:
        """Wait until drains, mover and consumers have emptied their queues, for a while."""
        until = time.monotonic() + SETTLE_SECONDS
        self._say("The senders have ended")
        while any(self._read_depths(delayed=True).values()) and time.monotonic() < until:
            roles.collect(0.5)
            if time.monotonic() - self._said >= PROGRESS_SECONDS:
                self._say(f"settling  {self._progress(roles)}")

    def _read_depths(self, *, delayed: bool = False) -> Mapping[str, int]:
        """Return the depths of the queues; those of the last time while the server is away."""
        if self._faults.is_away.is_set():
            return self._depths
        client = self._plan.client
        with suppress(SqlQueueError):
            self._depths = {name: client.queue(name).depth(kind="catalog").messages for name in BACKLOG}
            if delayed:
                self._depths |= {f"{name}.Delayed": len(client.delayed(name).list(1)) for name in BACKLOG}
        return self._depths

    def _pids(self, roles: Roles) -> dict[str, int]:
        """Return the roles' processes, this one, and those of the server if it is ours."""
        found = {**roles.pids, "the soak itself": os.getpid()}
        pid = None if self._server is None else self._server.pid
        if pid is not None:
            with suppress(psutil.Error):
                found["server"] = pid
                for child in psutil.Process(pid).children(recursive=True):
                    what = POSTGRESQL if "postgres" in child.name() else "server, workers"
                    found[f"{what} {child.pid}"] = child.pid
        return found

    def _progress(self, roles: Roles) -> str:
        counts = roles.reports.counts
        parts = [f"{counts[f'messages {what}']:,} {what}" for what in ("sent", "drained", "handled", "purged")]
        waiting = sum(self._depths.values())
        return f"{', '.join(parts)}, {waiting:,} wait; {self._faults.cuts} cuts, {self._faults.restarts} restarts"

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(text, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="minutes of load; 10 by default")
    parser.add_argument("--seed", type=int, default=None, help="the seed of all choices; a new one by default")
    parser.add_argument("--json", action="store_true", help="print JSON alone; the rest goes to stderr")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    seconds = 60 * arguments.minutes
    # Nothing waits without a bound; should something do so all the same, this shows where.
    faulthandler.dump_traceback_later(seconds + LONGEST_EXTRA, exit=True)
    console = Console(stderr=arguments.json, width=80, soft_wrap=True)
    url = os.environ.get("SQLQUEUE_TEST_SERVER")
    where = "the server of SQLQUEUE_TEST_SERVER" if url else "fakemssql"
    console.print(f"Seed {seed}, {arguments.minutes:g} minutes of load, {cores()} cores, {where}", highlight=False)
    try:
        outcome = run(console, url, seconds, seed)
    except SoakError as error:
        console.print(f"The soak has failed, with the seed {seed}: {error}", highlight=False, markup=False)
        return 1
    found = checks(outcome)
    console.print(table(found))
    passed = all(check.passed for check in found)
    facts = {"seed": seed, "minutes": arguments.minutes, "cores": cores(), "server": where, "passed": passed}
    print(json.dumps({**facts, **figures(found, outcome)}))  # noqa: T201
    return 0 if passed else 1


def run(console: Console, url: str | None, seconds: float, seed: int) -> Outcome:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="sqlqueue-soak-")))
        server = None
        if url is None:
            server = stack.enter_context(FakeServer(databases=["sqlqueue"]))
            url = server.url()
        settings = ConnectionSettings.from_url(url)
        proxy = stack.enter_context(Proxy(settings))
        plan = Plan(proxy.settings, f"soak_{uuid.uuid4().hex[:8]}", str(folder / "staging"), seed)
        create(plan)
        try:
            return Soak(console, plan, server, proxy, seconds).run(folder)
        finally:
            if server is None:
                drop(plan)


if __name__ == "__main__":
    sys.exit(main())
