"""Mover of due delayed messages, for queues without an endpoint that moves them.

Source: docs/transport/queue-tables.md, "Delayed messages". Unlike an endpoint's mover, it moves in the order of Due,
works with any layout of the input queue, and forwards messages to other queues itself.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any

from airflow_sqlqueue import errors
from airflow_sqlqueue.messages.address import MAX_ADDRESS_LENGTH
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, can_be_written, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options import option
from airflow_sqlqueue.options.budget import Limits
from airflow_sqlqueue.queue import forwarding
from airflow_sqlqueue.queue.browsing import PAGE_BYTES, is_last
from airflow_sqlqueue.queue.delayed.moving import DueMessage, move_rows
from airflow_sqlqueue.queue.delayed.table import FIRST, DelayedMessage, DelayedTable
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.server.reconnecting import reconnecting
from airflow_sqlqueue.server.sql import identifier, query
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

_MOST_ROUTES = 5_000
"""The most destinations that a run keeps in memory; the sender of a message chooses its destination."""

_MOST_PROBLEMS = 100


@dataclass(frozen=True, kw_only=True)
class MoveOptions(Limits):
    """Options of moving delayed messages. The default of ``chunk`` is the number in the transport's own batch.

    Lock escalation starts at 5,000 locks of a statement, and a row takes up to four.
    """

    chunk: int = option(100, "messages of one transaction", least=1, most=1_000, because="locks never escalate then")


@dataclass(frozen=True)
class MoveResult:
    """Result of a move.

    ``moved`` messages went to the input queue, ``forwarded`` messages to the queue that their header names. ``failed``
    messages went to the error queue because that queue cannot take them; without an error queue they stay, as ``left``
    messages. ``problems`` has the reasons for the first 100 of them, by the destination in the header. ``next_due`` is
    the due time of the earliest message in the table. ``busy``: another mover works on this table, and nothing was
    done. ``complete`` is False if another mover or a limit ended the move.
    """

    moved: int
    forwarded: int
    failed: int
    left: int
    next_due: datetime | None
    busy: bool
    complete: bool
    seconds: float
    problems: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON values, without the problems."""
        values = asdict(self)
        del values["problems"]
        return {**values, "next_due": self.next_due.isoformat() if self.next_due else None}


def move_due(
    delayed: DelayedTable,
    queue: QueueTable,
    resolver: AddressResolver,
    options: MoveOptions | None = None,
    *,
    error_queue: QueueTable | None = None,
) -> MoveResult:
    """Move the messages that are due by the server's clock to ``queue``, the input queue that ``delayed`` belongs to.

    A message with the header ``NServiceBus.SqlServer.ForwardDestination`` goes to the queue in the header instead,
    without the header, as when an endpoint forwards it. If that queue is missing or unusable, or headers may not name
    it, the message goes to ``error_queue`` with the destination in the header ``NServiceBus.FailedQ``. Without an
    error queue it stays and is reported. A message whose headers are not JSON goes to the input queue unchanged: the
    receiver there decides.

    An application lock allows one mover at a time on a table; a second mover returns at once. An endpoint's own mover
    does not take that lock; the two share the messages, and no message is moved twice. Each chunk is one transaction,
    earliest first, and skips messages that others hold. The server chooses the order of messages that are due at the
    same moment.

    Delivery: exactly once; a chunk is moved as a whole or not at all. All tables are on one server, and ``queue`` and
    ``error_queue`` use the session of ``delayed``. Raises the errors of a queue, and :class:`ConfigurationError` for a
    queue that is its own error queue; chunks moved before stay moved.
    """
    options = MoveOptions.or_default(options)
    if delayed.session.in_transaction:
        raise errors.TransactionError("A move commits its chunks one by one: call it outside the transaction.")
    budget = options.budget()
    mover = _Mover(delayed, queue, resolver, error_queue)
    with _mover_lock(delayed) as granted:
        complete = False
        while granted and not complete and (take := budget.reserve(options.chunk)):
            before = mover.done
            complete = mover.chunk(take)
            budget.give_back(take - (mover.done - before))
    return MoveResult(
        mover.moved,
        mover.forwarded,
        mover.failed,
        mover.left,
        next_due=delayed.next_due(),
        busy=not granted,
        complete=complete,
        seconds=budget.seconds_used,
        problems=mover.problems,
    )


@contextmanager
def _mover_lock(delayed: DelayedTable) -> Iterator[bool]:
    """Take the application lock of the table's mover for the block; the value tells whether it was granted."""
    session, table = delayed.session, delayed.layout.table
    catalog = identifier(table.catalog)
    # The lock is named by the object's number: its name is case-sensitive, and that of the table may not be.
    resource = f"sqlqueue.mover.{session.value(query('inspect.object_id'), table.qualified_name)}"
    granted = session.value(delayed.query("delayed.lock_mover", catalog=catalog), resource) >= 0
    try:
        yield granted
    finally:
        if granted:
            # After a broken connection the server releases the lock itself.
            with suppress(errors.SqlQueueError):
                session.run(delayed.query("delayed.release_mover", catalog=catalog), resource)


@dataclass(frozen=True)
class _ByDestination:
    """Messages of a chunk by their destination; ``forwarded`` by the header's text."""

    own: list[DueMessage] = field(default_factory=list)
    forwarded: dict[str, list[DueMessage]] = field(default_factory=dict)
    failed: list[DueMessage] = field(default_factory=list)
    staying: list[DelayedMessage] = field(default_factory=list)


class _UnknownRouteError(Exception):
    """A destination must be looked up first, outside the transaction, which a missing table may end."""

    def __init__(self, text: str) -> None:
        self.text = text


@dataclass(frozen=True)
class _Problem:
    """Reason why a destination takes no message. The error is not kept: it would keep the driver's cursor open."""

    error: str
    text: str

    @classmethod
    def of(cls, error: Exception) -> _Problem:
        kind = type(error)
        # The text of an error of another package may quote a message.
        text = str(error) if isinstance(error, errors.SqlQueueError) else kind.__name__
        return cls(f"{kind.__module__}.{kind.__name__}", text)


class _RefusedError(Exception):
    """A destination accepted no message. ``is_stale``: its table was altered since its layout was read."""

    def __init__(self, text: str, problem: _Problem, is_stale: bool) -> None:
        self.text, self.problem, self.is_stale = text, problem, is_stale


class _Mover:
    """Run of a mover. ``routes`` has the queue of each destination, or its problem, by the header's text."""

    def __init__(
        self, delayed: DelayedTable, queue: QueueTable, resolver: AddressResolver, error_queue: QueueTable | None
    ) -> None:
        self.session = delayed.session
        self.delayed, self.queue, self.error_queue = delayed, queue, error_queue
        self.resolver = resolver
        self._what = f"Moving delayed messages of the queue {queue.address.canonical}"
        self.routes: dict[str, QueueTable | _Problem] = {}
        self.moved = self.forwarded = self.failed = self.left = 0
        # Messages that stay are skipped: the moment of the last one, and those of that moment with their bytes.
        self._since = FIRST
        self._staying: dict[int, int] = {}
        self._due: list[DelayedMessage] = []
        self.problems: dict[str, str] = {}
        self._refused: dict[int, _Problem] = {}
        self._stuck: set[int] = set()
        self._refusals: dict[str, int] = {}
        self._accepting: set[str] = set()
        self._reread: set[str] = set()
        queue.check_accepts()
        if error_queue is not None:
            queue.check_destination(error_queue, "error")

    @property
    def done(self) -> int:
        """Number of messages that have left the table."""
        return self.moved + self.forwarded + self.failed

    def chunk(self, take: int) -> bool:
        """Move up to ``take`` messages in one transaction; return True if no more message is due.

        If the server refuses a message, fewer messages are moved at a time until that message is found.
        """
        while True:
            try:
                return reconnecting(self.session, self._what, partial(self._chunk, take))
            except _UnknownRouteError as unknown:
                if len(self.routes) >= _MOST_ROUTES:
                    self.routes.clear()
                    self._accepting.clear()
                self._note(unknown.text, self._find(unknown.text))
            except _RefusedError as refused:
                self._note(refused.text, refused.problem)
                if refused.is_stale and refused.text not in self._reread:
                    self._reread.add(refused.text)
                    del self.routes[refused.text]
            except Exception as error:
                if not errors.is_of_a_message(error):
                    raise
                take = len(self._due) // 2
                if not take:
                    take = 1
                    self._refuse(self._due[0], _Problem.of(error))

    def _chunk(self, take: int) -> bool:
        staying = self._staying
        wanted, max_bytes = take + len(staying), PAGE_BYTES + sum(staying.values())
        with self.session.transaction():
            rows = self.delayed.rows("delayed.due", self._since, wanted, max_bytes)
            due = self._due = [row for row in rows if row.row_version not in staying][:take]
            to = self._by_destination(due)
            move_rows(self.delayed, self.queue, to.own)
            for text, messages in to.forwarded.items():
                self._forward(text, messages)
            if self.error_queue is not None:
                move_rows(self.delayed, self.error_queue, to.failed)
        self.moved += len(to.own)
        self.forwarded += sum(map(len, to.forwarded.values()))
        self._accepting |= to.forwarded.keys()
        self.failed += len(to.failed)
        self._skip(to.staying)
        return len(due) < take and is_last(rows, wanted, max_bytes)

    def _note(self, text: str, route: QueueTable | _Problem) -> None:
        """Note the queue of a destination, or its problem."""
        self.routes[text] = route
        if isinstance(route, _Problem):
            self._note_problem(text, route)

    def _note_problem(self, text: str, problem: _Problem) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems[text] = problem.text

    def _refuse(self, message: DelayedMessage, problem: _Problem) -> None:
        """Note that the server refuses a message: it goes to the error queue, or stays if that refuses it too."""
        row_version = message.row_version
        text = decode_headers(message.headers).values.get(HeaderNames.FORWARD_DESTINATION)
        if row_version in self._refused or self.error_queue is None:
            self._stuck.add(row_version)
        elif text is not None and text not in self._accepting and isinstance(self.routes.get(text), QueueTable):
            # After as many refused messages before an accepted one the destination counts as one that takes no message.
            self._refusals[text] = self._refusals.get(text, 0) + 1
            if self._refusals[text] >= forwarding.REFUSALS:
                self._note(text, problem)
        if text is not None:
            self._note_problem(text, problem)
        self._refused[row_version] = problem
        place = "stays" if row_version in self._stuck else "goes to the error queue"
        log.warning("Message %d of %s %s: %s", row_version, self.delayed.address, place, problem.text)

    def _by_destination(self, due: Sequence[DelayedMessage]) -> _ByDestination:
        to = _ByDestination()
        for message in due:
            if message.row_version in self._stuck:
                to.staying.append(message)
                continue
            decoded = decode_headers(message.headers)
            refused = self._refused.get(message.row_version)
            text = None if decoded.problem else decoded.values.get(HeaderNames.FORWARD_DESTINATION)
            if text is None:
                (to.own if refused is None else to.failed).append(DueMessage(message, None, decoded.values))
                continue
            headers = {name: value for name, value in decoded.values.items() if name != HeaderNames.FORWARD_DESTINATION}
            route = refused or self._route(text)
            if isinstance(route, QueueTable):
                is_own = route.layout.table == self.queue.layout.table
                messages = to.own if is_own else to.forwarded.setdefault(text, [])
                messages.append(DueMessage(message, headers, headers))
            elif self.error_queue is not None:
                headers.update(_failure(text, route, self.queue))
                # Headers that cannot be written again stay unchanged.
                given = headers if can_be_written(headers) else None
                to.failed.append(DueMessage(message, given, headers))
            else:
                to.staying.append(message)
        return to

    def _skip(self, staying: Sequence[DelayedMessage]) -> None:
        if not staying:
            return
        latest = staying[-1].moment
        known = self._staying if latest == self._since else {}
        self._staying = known | {each.row_version: each.header_bytes for each in staying if each.moment == latest}
        self._since = latest
        self.left += len(staying)

    def _route(self, text: str) -> QueueTable | _Problem:
        if len(text) > MAX_ADDRESS_LENGTH:
            return _Problem.of(
                errors.AddressError(f"The queue address {quoted(text)} is longer than any valid address.")
            )
        if text not in self.routes:
            raise _UnknownRouteError(text)
        return self.routes[text]

    def _find(self, text: str) -> QueueTable | _Problem:
        try:
            address = find_queue(self.session, self.resolver, text)
            found = QueueTable(self.session, address)
            if address != self.queue.layout.table:
                found.require_allowed(self.resolver)
            found.check_accepts()
        except errors.TransientError:
            raise
        except errors.SqlQueueError as error:
            return _Problem.of(error)
        return found

    def _forward(self, text: str, due: Sequence[DueMessage]) -> None:
        route = self.routes[text]
        assert isinstance(route, QueueTable)
        try:
            move_rows(self.delayed, route, due)
            return
        except errors.LayoutChangedError as error:
            refusal = _RefusedError(text, _Problem.of(error), is_stale=True)
        except errors.SqlQueueError as error:
            if isinstance(error, errors.TransientError) or errors.is_of_a_message(error):
                raise
            refusal = _RefusedError(text, _Problem.of(error), is_stale=False)
        raise refusal


def _failure(destination: str, problem: _Problem, queue: QueueTable) -> dict[str, str]:
    """Return the headers of a message that could not be forwarded; a return to its source goes to its destination."""
    return {
        HeaderNames.FAILED_Q: destination,
        HeaderNames.TIME_OF_FAILURE: format_time(datetime.now(timezone.utc)),
        HeaderNames.EXCEPTION_TYPE: problem.error,
        HeaderNames.EXCEPTION_MESSAGE: problem.text,
        HeaderNames.PROCESSING_ENDPOINT: queue.address.table,
        HeaderNames.PROCESSING_MACHINE: socket.gethostname(),
    }
