"""Heartbeats of a consumer, sent to ServiceControl in a thread with a connection of its own."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from airflow_sqlqueue.envelope.monitoring import endpoint_startup, heartbeat
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session

log = logging.getLogger(__name__)

_LIVES = 4
"""Lifetime of a heartbeat, in intervals, as in endpoints: ServiceControl need not read those of a long outage."""

_END_SECONDS = 5.0
"""Seconds to wait for a heartbeat under way at the end."""


class Heartbeats:
    """Heartbeats of an endpoint at an interval. An error of theirs is logged, and ends neither them nor consuming."""

    def __init__(
        self, connect: Callable[[], Session], queue: ResolvedAddress, endpoint: str, interval_seconds: float
    ) -> None:
        self._connect, self._queue, self._endpoint, self._interval = connect, queue, endpoint, interval_seconds
        self._lives = timedelta(seconds=interval_seconds * _LIVES)
        self._ended = threading.Event()
        self._session: Session | None = None
        self._is_failing = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send heartbeats during the block."""
        work = contextvars.copy_context().run
        thread = threading.Thread(target=work, args=(self._run,), name="heartbeats", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(_END_SECONDS)

    def _run(self) -> None:
        message = endpoint_startup(self._endpoint, self._lives)
        while True:
            self._send(message)
            if self._ended.wait(self._interval):
                break
            message = heartbeat(self._endpoint, self._lives)
        self._close()

    def _send(self, message: Message) -> None:
        try:
            if self._session is None:
                self._session = self._connect()
            QueueTable(self._session, self._queue).send([message])
            self._is_failing = False
        except SqlQueueError as error:
            if not self._is_failing:
                log.warning("No heartbeats reach %s for the time being: %s", self._queue.canonical, error)
            self._is_failing = True
            self._close()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
