"""Drains in processes of their own, which can be killed and stopped.

They are forked from a server that has imported what they need, so that they are at work within milliseconds.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import psutil

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import MessageFilter
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.forks import CONTEXT, fork

SMALL_PARTS = DrainOptions(rows_per_statement=3, inline_body_bytes=8000, rows_per_part=6, locked_wait_seconds=20)

STARTED, SEALED, REFUSED = "started", "sealed", "refused"


class Draining:
    """A process that drains into one batch."""

    def __init__(
        self,
        url: str,
        queue: ResolvedAddress,
        stage: Stage,
        batch_id: uuid.UUID,
        options: DrainOptions = SMALL_PARTS,
        where: MessageFilter | None = None,
    ) -> None:
        self._reports, child = CONTEXT.Pipe(duplex=False)
        self._process = fork(_drain, url, queue.canonical, stage, batch_id, options, where, child)
        child.close()

    def started(self) -> None:
        """Return when the process is about to drain."""
        assert self._next() == STARTED

    def ended(self, within: float) -> bool:
        """Wait for its end; False where it goes on."""
        self._process.join(within)
        return self._process.exitcode is not None

    def outcome(self) -> str:
        """Wait for its end: ``sealed``, or ``refused`` where somebody else had sealed the batch before it."""
        while (report := self._next()) == STARTED:
            pass
        assert self.ended(10)
        return report

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Wait until the process has stopped itself, and let it go on in the end."""
        process = psutil.Process(self._process.pid)
        deadline = time.monotonic() + 60
        while process.status() != psutil.STATUS_STOPPED:
            # The server that forked it is its parent: nothing tells us that it has stopped.
            assert time.monotonic() < deadline, "the process goes on"
            time.sleep(0.01)
        try:
            yield
        finally:
            process.resume()

    def close(self) -> None:
        self.kill()
        self._reports.close()

    def _next(self) -> str:
        assert self._reports.poll(60), "the process says nothing"
        return str(self._reports.recv())


def _drain(
    url: str,
    queue: str,
    stage: Stage,
    batch_id: uuid.UUID,
    options: DrainOptions,
    where: MessageFilter | None,
    reports: Connection[str, str],
) -> None:
    settings = ConnectionSettings.from_url(url)
    address = AddressResolver(default_catalog=settings.database).resolve(queue)
    reports.send(STARTED)
    try:
        Drain(
            lambda: Session(settings), address, stage, DrainRequest(batch_id=batch_id, options=options, where=where)
        ).run()
    except BatchError:
        reports.send(REFUSED)
    else:
        reports.send(SEALED)
