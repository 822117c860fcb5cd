"""Return to source: send failed messages back to the queues where they failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from airflow_sqlqueue import errors
from airflow_sqlqueue.errorqueue.chunked_work import (
    ChunkedWork,
    Clock,
    ErrorQueueOptions,
    ErrorQueueResult,
    refusals,
)
from airflow_sqlqueue.errorqueue.destinations import Destinations
from airflow_sqlqueue.errorqueue.failed_message import MALFORMED, FailedMessage
from airflow_sqlqueue.errorqueue.failure_headers import without_failure
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.reasons import Reason
from airflow_sqlqueue.errorqueue.scan import ErrorQueue
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.forwarding import transfer
from airflow_sqlqueue.routing import AddressResolver


@dataclass(frozen=True, kw_only=True)
class ReturnOptions(ErrorQueueOptions):
    """Options and limits of a return.

    :param redirect_to: send the messages to this queue instead of the queues where they failed.
    :param malformed: redirect messages with malformed headers too, their text unchanged; needs ``redirect_to``.
    """

    redirect_to: str | None = None
    malformed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.malformed and self.redirect_to is None:
            raise errors.ConfigurationError("Malformed messages name no queue: name one with redirect_to.")


@dataclass
class ReturnResult(ErrorQueueResult):
    """Result of a return, or its progress. ``returned`` counts messages by the queue that they were sent to."""

    returned: dict[str, int] = field(default_factory=dict)

    def handled(self, target: str, messages: int) -> None:
        """Count returned messages; zero adds no entry."""
        super().handled(target, messages)
        if messages:
            self.returned[target] = self.returned.get(target, 0) + messages


class ReturnToSource:
    """Return of failed messages to the queues where they failed, through the error queue's connection.

    Each transaction takes messages out of the error queue and puts them into one queue, so nothing is lost or doubled,
    whichever process dies; messages of an uncommitted transaction are still in the error queue. Row Id, message id,
    correlation id, conversation id and body are kept, headers of the failure are removed
    (:mod:`airflow_sqlqueue.errorqueue.failure_headers`), and the expiry is cleared. Messages of one queue keep their
    order if there is no other receiver. Messages that fail again while this runs are not returned a second time.

    A message that cannot be returned stays, the result has the reason, and the rest is returned. Raises
    :class:`QueueNotFoundError` and :class:`NotAQueueError` for the error queue itself and ``redirect_to``,
    :class:`ConfigurationError` where both are the same, :class:`TransactionError` inside a transaction, and what a
    broken connection raises.
    """

    def __init__(
        self,
        queue: QueueTable,
        resolver: AddressResolver,
        where: ErrorFilter,
        options: ReturnOptions | None = None,
        *,
        on_progress: Callable[[ReturnResult], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        options = options or ReturnOptions()
        self._work: Callable[[], ReturnResult] = lambda: ChunkedWork(
            ErrorQueue(queue),
            _Return(queue, Destinations(queue, resolver, options.redirect_to, options.malformed)),
            where,
            options,
            ReturnResult(),
            on_progress=on_progress,
            clock=clock,
        ).run()

    def run(self) -> ReturnResult:
        """Return the messages that match and were in the queue at the start."""
        return self._work()


class _Return:
    doing = "Returning"

    def __init__(self, queue: QueueTable, destinations: Destinations) -> None:
        self._queue, self._destinations = queue, destinations

    def target(self, message: FailedMessage) -> QueueTable | Reason:
        return self._destinations.of(message)

    def name(self, target: QueueTable) -> str:
        return target.address.canonical

    def handle(self, target: QueueTable, chunk: Sequence[FailedMessage]) -> int:
        moved = 0
        for malformed, run in groupby(chunk, key=lambda message: message.kind == MALFORMED):
            row_versions = [message.row_version for message in run]
            taken = [] if malformed else self._queue.take(row_versions)
            with refusals():
                if malformed:
                    moved += transfer(self._queue, target, row_versions)
                else:
                    target.send(map(without_failure, taken))
                    moved += len(taken)
        return moved
