"""Consumers of a queue and of its secondary queues, which run at the same time and end together."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace

from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.endpoint.handler_pool import StoppedError
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.run import Handle
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.options.budget import Budget, Limits
from airflow_sqlqueue.queue.tables.discovery import find_queue, find_secondary_queues
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session

_LOOK_SECONDS = 0.1
"""Seconds between two looks at whether consuming was stopped."""


class SharedBudget(Budget):
    """Budget of the handlers of several queues; a handler gives back after each reservation, if only 0.

    A handler of one queue waits while those of the others hold the last messages, as they may give them back: it has
    messages in its queue that the budget still covers.
    """

    def __init__(self, limits: Limits, stop: threading.Event) -> None:
        super().__init__(limits.max_messages, limits.max_seconds)
        self._stop = stop
        self._holders = 0
        self._settled = threading.Condition()

    def reserve(self, limit: int) -> int:
        """Reserve messages as :meth:`.Budget.reserve` does, once there are some or no handler can give any back."""
        with self._settled:
            while not (reserved := super().reserve(limit)) and self._holders:
                if self.seconds_left == 0 or self._stop.is_set():
                    return 0
                self._settled.wait(_LOOK_SECONDS)
            self._holders += bool(reserved)
            return reserved

    def give_back(self, unused: int) -> None:
        """Give back what a handler has not used of its reservation."""
        with self._settled:
            super().give_back(unused)
            self._holders -= 1
            self._settled.notify_all()


class Consumers:
    """Consumers of a queue and of the secondary queues that it has at the start, as an instance has for its own queue.

    The messages and seconds are limits of all together. Each queue has handlers of its own, up to ``max_handlers``,
    and failures of its own. The first error of one ends the others after the messages in hand, and is raised then.
    The arguments are those of :class:`.Consumer`.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        resolver: AddressResolver,
        queue_name: str,
        handle: Handle,
        options: ConsumeOptions,
        *,
        on_progress: Callable[[ConsumeResult], None] | None = None,
        stop: threading.Event | None = None,
        on_contact: Callable[[bool], None] | None = None,
    ) -> None:
        self._connect, self._resolver, self._queue_name = connect, resolver, queue_name
        self._handle, self._options = handle, options
        self._on_progress = on_progress or (lambda done: None)
        self._on_contact = on_contact or (lambda reached: None)
        self._stop = stop or threading.Event()
        self._lock = threading.Lock()
        self._done: dict[str, ConsumeResult] = {}
        self._error: BaseException | None = None

    def run(self) -> ConsumeResult:
        """Consume until the end, and return the sums; see :meth:`.Consumer.run`."""
        budget = SharedBudget(self._options, self._stop)
        try:
            primary, *others = self._find()
        except StoppedError:
            return ConsumeResult(seconds=budget.seconds_used)
        endpoint = self._options.endpoint or primary.table
        options = replace(self._options, endpoint=endpoint, secondary=False)
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._consume, name, options, budget),
                name=f"consumer of {name}",
                daemon=True,
            )
            for name in (self._queue_name, *(each.canonical for each in others))
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._stop.set()
            raise
        if self._error is not None:
            raise self._error
        return replace(self._sum(), seconds=budget.seconds_used)

    def _find(self) -> list[ResolvedAddress]:
        """Return the address of the queue and those of its secondary queues; wait for a server as a consumer does."""

        def find(session: Session) -> list[ResolvedAddress]:
            primary = find_queue(session, self._resolver, self._queue_name)
            return [primary, *find_secondary_queues(session, primary)]

        what, patient = f"Consuming the queue {self._queue_name}", self._options.wait_for_server
        with closing(Reconnecting(self._connect, what, pause=self._wait, patient=patient)) as connection:
            return connection.run(find)

    def _wait(self, seconds: float) -> None:
        self._on_contact(False)
        if self._stop.wait(seconds):
            raise StoppedError

    def _consume(self, name: str, options: ConsumeOptions, budget: Budget) -> None:
        consumer = Consumer(
            self._connect,
            self._resolver,
            name,
            self._handle,
            options,
            on_progress=lambda done: self._note(name, done),
            stop=self._stop,
            on_contact=self._on_contact,
        )
        try:
            self._note(name, consumer.run(budget))
        except BaseException as error:
            with self._lock:
                self._error = self._error or error
            self._stop.set()

    def _note(self, name: str, done: ConsumeResult) -> None:
        with self._lock:
            self._done[name] = done
            self._on_progress(self._sum())

    def _sum(self) -> ConsumeResult:
        done = [vars(each) for each in self._done.values()]
        return ConsumeResult(**{each.name: sum(one[each.name] for one in done) for each in fields(ConsumeResult)})
