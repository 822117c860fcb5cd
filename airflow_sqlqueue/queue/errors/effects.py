"""Effects of actions on failed messages: where each message goes, and what one transaction does to a chunk of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options import Options, argument, option
from airflow_sqlqueue.queue.browsing import delete
from airflow_sqlqueue.queue.errors.archive import Archive, ArchivedMessages, check_reason, current_user
from airflow_sqlqueue.queue.errors.bulk_action import ROW_REFUSALS, refusals
from airflow_sqlqueue.queue.errors.destinations import Destinations, other_queue
from airflow_sqlqueue.queue.errors.failed_message import MALFORMED, FailedMessage
from airflow_sqlqueue.queue.errors.failure_headers import without_failure
from airflow_sqlqueue.queue.errors.reasons import StayReason
from airflow_sqlqueue.queue.errors.scan import ErrorQueue
from airflow_sqlqueue.queue.forwarding import transfer
from airflow_sqlqueue.queue.queue_table import QueueTable


@dataclass(frozen=True, kw_only=True)
class ActionInputs(Options):
    """Inputs of an action besides its messages. An action has some of them: its ``needs`` and ``takes``."""

    to_queue: str = argument("", "the address of the queue that receives the messages")
    malformed: bool = option(False, "redirect messages with malformed headers too, their text unchanged")
    reason: str = option("", "the reason, which the archive keeps; at most 500 characters")
    by: str = argument("", "the person or task that archives; by default the account of this process, with its host")
    older_than: timedelta | None = option(
        None, "only messages that were archived longer ago, such as ``12h`` or ``7d``"
    )
    confirm: bool = argument(False, "True says that the messages may be lost")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_reason(self.reason)


@dataclass(frozen=True)
class ErrorStore:
    """Error queue, the archive of its database, and the resolver of the addresses that its messages name."""

    queue: QueueTable
    archive: Archive
    resolver: AddressResolver

    def failed(self) -> ErrorQueue:
        """Return the messages of the error queue."""
        return ErrorQueue(self.queue)

    def archived(self, older_than: timedelta | None = None) -> ArchivedMessages:
        """Archived messages of the error queue, or those archived longer ago than a time."""
        return ArchivedMessages(self.archive, self.queue.address, older_than)


class ActionEffect:
    """Base class of effects, of those that need nothing and whose messages go to no queue."""

    def __init__(self, store: ErrorStore, given: ActionInputs) -> None:
        self._store, self._queue, self._given = store, store.queue, given

    def prepare(self) -> None:
        """Make what the transactions need."""

    def target(self, message: FailedMessage) -> QueueTable | StayReason | None:
        """Return the queue that a message goes to, or the reason why it stays."""
        return None


class Return(ActionEffect):
    """Return of failed messages to the queues where they failed, through the error queue's connection.

    Each transaction takes messages out of the error queue and puts them into one queue. Row Id, message id, correlation
    id, conversation id and body are kept, headers of the failure are removed
    (:mod:`airflow_sqlqueue.queue.errors.failure_headers`), and the expiry is cleared. Messages of one queue keep their
    order if there is no other receiver. Messages that fail again while this runs are not returned a second time.
    """

    def __init__(self, store: ErrorStore, given: ActionInputs) -> None:
        super().__init__(store, given)
        self._destinations = Destinations(store.queue, store.resolver)

    def target(self, message: FailedMessage) -> QueueTable | StayReason:
        found = self._destinations.of(message)
        return StayReason.MALFORMED if isinstance(found, QueueTable) and _is_malformed(message) else found

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        assert target is not None
        moved = 0
        for unchanged, run in groupby(chunk, key=_is_malformed):
            row_versions = _numbers(list(run))
            taken = [] if unchanged else self._queue.take(row_versions)
            with refusals():
                if unchanged:
                    moved += transfer(self._queue, target, row_versions)
                else:
                    target.send(map(without_failure, taken))
                    moved += len(taken)
        return moved


class Redirect(Return):
    """Return of failed messages to one queue that the caller names.

    With ``malformed`` also of those whose headers cannot be read, or not be written again: their text is unchanged.
    """

    def __init__(self, store: ErrorStore, given: ActionInputs) -> None:
        super().__init__(store, given)
        self._target = other_queue(store.queue, store.resolver, given.to_queue)

    def target(self, message: FailedMessage) -> QueueTable | StayReason:
        is_refused = _is_malformed(message) and not self._given.malformed
        return StayReason.MALFORMED if is_refused else self._target


class Park(ActionEffect):
    """Move of failed messages to another queue of the server, with their headers; a refused message stays."""

    def __init__(self, store: ErrorStore, given: ActionInputs) -> None:
        super().__init__(store, given)
        self._target = other_queue(store.queue, store.resolver, given.to_queue)

    def target(self, message: FailedMessage) -> QueueTable:
        return self._target

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        with refusals(ROW_REFUSALS):
            return transfer(self._queue, self._target, _numbers(chunk))


class ToArchive(ActionEffect):
    """Move of failed messages into the archive, all columns unchanged, with the reason and who archives them."""

    def prepare(self) -> None:
        self._queue.require()
        self._store.archive.create()

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        by = self._given.by or current_user()
        return self._store.archive.put(self._queue, _numbers(chunk), by, self._given.reason)


class Restore(ActionEffect):
    """Move of archived messages back into their queue; they do not expire. A message that the queue refuses stays."""

    def __init__(self, store: ErrorStore, given: ActionInputs) -> None:
        super().__init__(store, given)
        store.queue.require()

    def target(self, message: FailedMessage) -> QueueTable:
        return self._queue

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        with refusals(ROW_REFUSALS):
            return self._store.archive.restore(self._queue, _numbers(chunk))


class Delete(ActionEffect):
    """Deletion of messages of an error queue for good."""

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        return delete(self._queue, _numbers(chunk))


class DeleteArchived(ActionEffect):
    """Deletion of archived messages for good. Their queue may be gone."""

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        return self._store.archived().delete(_numbers(chunk))


def _is_malformed(message: FailedMessage) -> bool:
    """Return whether a message can only move with its headers unchanged."""
    return message.kind == MALFORMED or not message.can_be_returned


def _numbers(chunk: Sequence[FailedMessage]) -> list[int]:
    return [message.row_version for message in chunk]
