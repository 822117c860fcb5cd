"""The receiver behind the triggers on one queue's messages: Airflow's shared stream, with its word on each message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

from airflow_sqlqueue.errors import MessageError, TransientError
from airflow_sqlqueue.triggers.base import Attempts

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.consuming.locked_messages import LockedMessages
    from airflow_sqlqueue.queue.browsing import MessageHead
    from airflow_sqlqueue.triggers.message import SqlQueueMessageEventTrigger

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Round:
    """The messages that are held at one time, and what is known of each by now."""

    def __init__(self, heads: Sequence[MessageHead]) -> None:
        self.delete = [head.row_version for head in heads if head.expired]
        self.alive = [head for head in heads if not head.expired]
        self.reject: list[int] = []
        self.is_settled = asyncio.Event()
        self.failure: Exception | None = None
        self._pending = len(self.alive)

    def note(self, row_version: int, outcome: AdvanceOutcome) -> bool:
        """What became of a message; returns whether all are known now.

        One that nobody looked at, or whose event was perhaps not stored, stays in the queue.
        """
        self._pending -= 1
        if not outcome.failed and outcome.acked:
            self.delete.append(row_version)
        elif not outcome.failed and outcome.rejected:
            self.reject.append(row_version)
        else:
            self.failure = TransientError("Airflow stored not every event in time; those messages come again.")
        return not self._pending


class MessageReceiver(SharedStreamProducer):
    """Holds messages of the queue, gives out their heads, and deletes each when Airflow has its events.

    Airflow waits for its own database after each round, and the round's transaction is open as long.
    """

    def __init__(self, trigger: SqlQueueMessageEventTrigger) -> None:
        self._trigger = trigger
        # A connection is for one thread, and nothing may block the event loop.
        self._thread = ThreadPoolExecutor(1, "sqlqueue-receiver")
        self._held: LockedMessages | None = None
        self._client: QueueClient | None = None
        self._round: _Round | None = None

    async def open_stream(self) -> AsyncGenerator[tuple[MessageHead, Any], None]:
        """Each message's head, with what :meth:`advance` has to know it by; without end."""
        trigger = self._trigger
        attempts = Attempts(trigger.queue_name, trigger.log)
        while True:
            try:
                watch = await trigger.open_watch()
                # Triggers that begin together join the stream one after the other: who comes late accepts nothing.
                pause = trigger.poll_interval
                while True:
                    await watch.found(after=pause)
                    held = await self._holding(watch.client)
                    while heads := await self._on_thread(partial(held.lock, trigger.max_held)):
                        self._round = current = _Round(heads)
                        for head in current.alive:
                            yield head, (current, head.row_version)
                        if not current.alive:
                            await self._settle(current)
                        await current.is_settled.wait()
                        if current.failure is not None:
                            raise current.failure
                        attempts.succeeded()
                    await self._on_thread(held.close)
                    pause = trigger.poll_interval
            except Exception as error:
                trigger.close_watch()
                await self._close()
                await attempts.failed(error)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Airflow's database has the events of these messages, or they were rejected or have failed."""
        current = self._round
        for (noted, row_version), outcome in batch:
            if current is not None and noted is current and noted.note(row_version, outcome):
                await self._settle(noted)

    async def aclose(self) -> None:
        """Settle what is known, and let go of the rest."""
        self._trigger.close_watch()
        try:
            if self._round is not None:
                await self._settle(self._round)
        finally:
            await self._close()
            self._thread.shutdown(wait=False)

    async def _settle(self, settled: _Round) -> None:
        """Never raises: Airflow would end the stream, and begin it again without a pause."""
        self._round = None
        held = self._held
        assert held is not None
        reason = MessageError("No trigger of the queue accepts messages of this type: see its message_types.")
        try:
            await self._on_thread(lambda: held.settle(settled.delete, settled.reject, reason))
        except Exception as error:
            settled.failure = error
        else:
            if settled.reject:
                log.warning("%d messages of %s were rejected", len(settled.reject), self._trigger.queue_name)
        settled.is_settled.set()

    async def _holding(self, client: QueueClient) -> LockedMessages:
        """The holder of messages, where the watch has found some: its connection may have been changed meanwhile."""
        if self._held is None or self._client is not client:
            await self._close()
            self._held, self._client = self._trigger.held_messages(client), client
        return self._held

    async def _close(self) -> None:
        self._round = None
        if self._held is not None:
            await self._on_thread(self._held.close)
        self._held = self._client = None

    def _on_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
