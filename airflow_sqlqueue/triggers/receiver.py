"""Receiver for the message triggers of one queue: Airflow's shared stream, with Airflow's answer to each message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

from airflow_sqlqueue.errors import MessageError, TransientError
from airflow_sqlqueue.triggers.base import Attempts

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.queue.browsing import MessageHead
    from airflow_sqlqueue.queue.locked_messages import LockedMessages
    from airflow_sqlqueue.triggers.base import QueueTrigger

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Reception:
    """Parts of a trigger that its receiver uses; ``locked_messages`` makes the object that holds the messages."""

    trigger: QueueTrigger
    max_held: int
    locked_messages: Callable[[QueueClient], LockedMessages]


class _Round:
    """Messages held at one time, with Airflow's answers so far."""

    def __init__(self, heads: Sequence[MessageHead]) -> None:
        self.delete = [head.row_version for head in heads if head.expired]
        self.alive = [head for head in heads if not head.expired]
        self.reject: list[int] = []
        self.is_settled = asyncio.Event()
        self.failure: Exception | None = None
        self._pending = len(self.alive)

    def note(self, row_version: int, outcome: AdvanceOutcome) -> bool:
        """Note Airflow's answer for a message; return whether all answers are there.

        A message without an answer, or whose event may not be stored, stays in the queue.
        """
        self._pending -= 1
        if not outcome.failed and outcome.acked:
            self.delete.append(row_version)
        elif not outcome.failed and outcome.rejected:
            self.reject.append(row_version)
        else:
            self.failure = TransientError(
                "Airflow did not store every event in time; the trigger receives those messages again."
            )
        return not self._pending


class MessageReceiver(SharedStreamProducer):
    """Stream of message heads from a queue; it holds the messages, and deletes each when Airflow has its events.

    Airflow writes to its database after each round, and the round's transaction stays open until then.
    """

    def __init__(self, reception: Reception) -> None:
        self._reception, self._trigger = reception, reception.trigger
        # A connection belongs to one thread, and must not block the event loop.
        self._thread = ThreadPoolExecutor(1, "sqlqueue-receiver")
        self._held: LockedMessages | None = None
        self._client: QueueClient | None = None
        self._round: _Round | None = None

    async def open_stream(self) -> AsyncGenerator[tuple[MessageHead, Any], None]:
        """Yield each message's head, with its key for :meth:`advance`; without end."""
        trigger = self._trigger
        attempts = Attempts(trigger.shown_name, trigger.log)
        while True:
            try:
                watch = await trigger.open_watch()
                # Triggers that start together join the stream one by one, and a late one would miss messages.
                pause = trigger.poll_interval
                while True:
                    await watch.found(after=pause)
                    held = await self._holding(watch.client)
                    while heads := await self._on_thread(partial(held.lock, self._reception.max_held)):
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
        """Note that Airflow's database has the events of these messages, or that they were rejected or failed."""
        current = self._round
        for (noted, row_version), outcome in batch:
            if current is not None and noted is current and noted.note(row_version, outcome):
                await self._settle(noted)

    async def aclose(self) -> None:
        """Settle the messages with an answer, and release the others."""
        self._trigger.close_watch()
        try:
            if self._round is not None:
                await self._settle(self._round)
        finally:
            await self._close()
            self._thread.shutdown(wait=False)

    async def _settle(self, settled: _Round) -> None:
        """Delete and reject the messages of a round. Never raises: Airflow would restart the stream without a pause."""
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
                log.warning("%d messages of %s were rejected", len(settled.reject), self._trigger.shown_name)
        settled.is_settled.set()

    async def _holding(self, client: QueueClient) -> LockedMessages:
        """Return the holder of messages, made anew after the Airflow connection was changed."""
        if self._held is None or self._client is not client:
            await self._close()
            self._held, self._client = self._reception.locked_messages(client), client
        return self._held

    async def _close(self) -> None:
        self._round = None
        if self._held is not None:
            await self._on_thread(self._held.close)
        self._held = self._client = None

    def _on_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
