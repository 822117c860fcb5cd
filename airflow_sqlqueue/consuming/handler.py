"""Handler: receives one message after the other, calls the function, and commits, or rolls back and counts the failure.

As in endpoints, the next receive of a failed message decides whether it is retried, delayed or given up, and does so in
that receive's transaction. So a crash in between loses nothing (docs/transport/transactions.md, "Recoverability").
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any

from airflow_sqlqueue.consuming import recoverability, service_control
from airflow_sqlqueue.consuming.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.consuming.options import ConsumeOptions
from airflow_sqlqueue.consuming.receiver import Receiver
from airflow_sqlqueue.delayed.moving import check_accepts
from airflow_sqlqueue.envelope import Envelope, causation, tracing
from airflow_sqlqueue.errorqueue.failure_headers import Failure, complete_headers, failed_message, type_name, unchanged
from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    NotAQueueError,
    PayloadError,
    PermissionDeniedError,
    QueueNotFoundError,
    TransientError,
    is_of_a_message,
)
from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage, can_be_written
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.discovery import find_queue
from airflow_sqlqueue.transactions import NONE, transaction
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

Handle = Callable[[Envelope], Any]
"""The function that handles a message; its result is ignored, and an exception makes the message fail."""

_NO_FAILURE = Failure("", {})
"""The failure of a message with unreadable headers, to which no header can be added."""


@dataclass
class CurrentMessage:
    """Message that an endpoint is handling. ``given_up``: the handler has put the message into the error queue."""

    endpoint: Endpoint
    message_id: str | None
    given_up: bool = False


_handling: ContextVar[CurrentMessage | None] = ContextVar("sqlqueue_handling", default=None)


def current_message() -> CurrentMessage | None:
    """Return the message that is being handled in this thread or task; None outside of handlers."""
    return _handling.get()


class Outcome(Enum):
    """Outcome of a receive. After ``ROLLED_BACK`` the message is in its queue again.

    After ``GIVEN_UP`` it is in the error queue without another attempt, and after ``FAILED`` because of this attempt.
    """

    HANDLED = "handled"
    FAILED = "failed"
    GIVEN_UP = "given up"
    DELAYED = "delayed"
    FORWARDED = "forwarded"
    ROLLED_BACK = "rolled_back"


@dataclass
class _Attempt:
    """An attempt to handle a message.

    ``at_risk``: from now on every error counts as caused by the message. ``giving_up``: the message is on its way to
    the error queue. ``failed`` is the record of the message's failures after this attempt has failed. ``started`` is
    the time at which the function was called.
    """

    message: ReceivedMessage | None = None
    envelope: Envelope | None = None
    at_risk: bool = False
    giving_up: bool = False
    failed: recoverability.FailedAttempts | None = None
    started: datetime | None = None

    def is_to_blame(self, error: Exception) -> bool:
        """Whether the message causes an error, and not the server, a table or a setting."""
        return self.message is not None and (self.at_risk or is_of_a_message(error))


class SessionStack:
    """Open sessions of one thread, lent as a stack: a connection for each message would cost more than the message.

    Two transactions that borrow sessions in the same order get the same sessions for the same purposes.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._open: list[Session] = []
        self._lent = 0

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend the next session to the block. Blocks are nested: the last session lent is returned first."""
        if self._lent == len(self._open):
            self._open.append(self._connect())
        session = self._open[self._lent]
        self._lent += 1
        try:
            yield session
        finally:
            self._lent -= 1

    def close(self) -> None:
        """Close all sessions."""
        for session in self._open:
            session.close()
        self._open.clear()


class Handler:
    """Handler of a queue's messages, one at a time. For one thread.

    :param on_received: called after each receive that found a message, before it is handled, with a function that
        counts the waiting messages up to a limit.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        endpoint: Endpoint,
        resolver: AddressResolver,
        handle: Handle,
        options: ConsumeOptions,
        failures: recoverability.FailureStorage,
        receiver: Receiver,
        on_received: Callable[[Callable[[int], int]], None],
    ) -> None:
        self._settings, self._endpoint, self._resolver, self._handle = settings, endpoint, resolver, handle
        self._mode, self._recoverability = options.transaction_mode, options.recoverability
        self._data_bus = options.data_bus
        self._failures, self._receiver, self._on_received = failures, receiver, on_received
        self._tables: EndpointTables | None = None
        self._unsettled: tuple[_Attempt, Failure | None] | None = None

    @property
    def is_unsettled(self) -> bool:
        """Whether the next call of :meth:`next` finishes a message that is in no queue."""
        return self._unsettled is not None

    def next(self, sessions: SessionStack) -> Outcome | None:
        """Receive a message and handle it; return None if there was no message to receive.

        Raises a server error that the message does not cause; the message is in the queue then.
        """
        if self._unsettled is not None:
            return self._settle(sessions)
        attempt = _Attempt()
        try:
            outcome = self._attempt(sessions, attempt)
        except Exception as error:
            if attempt.message is None or not attempt.is_to_blame(error):
                raise
            if attempt.giving_up:
                return self._set_aside(sessions, attempt.message, error)
            return self._rolled_back(attempt, attempt.message, error)
        if self._unsettled is not None:
            return self._settle(sessions)
        if attempt.message is not None:
            self._failures.forget(attempt.message.row_version)
        return outcome

    def _attempt(self, sessions: SessionStack, attempt: _Attempt) -> Outcome | None:
        with transaction(self._settings, sessions.lend, self._mode) as current:
            try:
                # Even in the mode ``none`` messages that do not go to the function leave the queue in a transaction.
                with current.receiving.transaction() if self._mode == NONE else nullcontext():
                    outcome = self._receive(current.receiving, attempt)
                if attempt.envelope is not None:
                    with tracing.process_span(attempt.envelope, self._endpoint.name, self._endpoint.queue.canonical):
                        outcome = self._call(attempt, attempt.envelope)
                        if outcome is Outcome.HANDLED and self._mode != NONE:
                            self._report(current.receiving, attempt)
            except Exception as error:
                # Noted before the rollback: after it, another handler may receive the message.
                if attempt.message is not None and attempt.is_to_blame(error):
                    attempt.failed = self._note_failure(attempt, attempt.message, error)
                raise
        return outcome

    def _receive(self, session: Session, attempt: _Attempt) -> Outcome | None:
        """Receive a message; handle it here if it is malformed, has failed too often, or is for another queue."""
        tables = self._tables_of(session)
        received = self._receiver.receive(tables.queue)
        if not received:
            return None
        (message,) = received
        attempt.message = message
        self._on_received(partial(self._receiver.waiting, tables.queue))
        envelope = Envelope.of(message)
        if envelope.problem is not None:
            attempt.giving_up = True
            log.error("Message %s goes to the error queue as it is: %s", message.id, envelope.problem)
            return self._give_up(tables, message, _NO_FAILURE)
        headers = MappingProxyType(complete_headers(message, envelope))
        envelope = Envelope(headers, message.body, message.id, data_bus=self._data_bus)
        failed = self._failures.find(message.row_version)
        if failed is not None and (outcome := self._recover(tables, attempt, envelope, failed)):
            return outcome
        if destination := self._destination(envelope):
            attempt.at_risk = True
            return self._forward(session, envelope, destination)
        attempt.envelope = envelope
        return None

    def _recover(
        self, tables: EndpointTables, attempt: _Attempt, envelope: Envelope, failed: recoverability.FailedAttempts
    ) -> Outcome | None:
        """Delay or give up a message that has failed before; return None if it is tried again."""
        message = attempt.message
        assert message is not None
        # A message for another queue has been delayed before. After another delay it would be handled here.
        is_ours = self._destination(envelope) is None
        can_delay = tables.delayed is not None and is_ours and can_be_written(envelope.headers)
        action = recoverability.RecoverabilityAction.GIVE_UP
        if not failed.is_final:
            action = self._recoverability.action(failed.attempts, envelope, can_delay=can_delay)
        shown_id, kind = quoted(envelope.identity.message_id), failed.failure.exception_type
        if action is recoverability.RecoverabilityAction.RETRY:
            return None
        if action is recoverability.RecoverabilityAction.GIVE_UP or tables.delayed is None:
            attempt.giving_up = True
            log.error("Message %s goes to the error queue after %s, attempt %d", shown_id, kind, failed.attempts)
            return self._give_up(tables, message, failed.failure)
        delay = self._recoverability.delay(envelope)
        log.warning("Message %s is tried again in %s after %s", shown_id, delay, kind)
        tables.delayed.store(
            [Message(recoverability.delayed_headers(envelope.headers, envelope), message.body)], delay=delay
        )
        return Outcome.DELAYED

    def _give_up(self, tables: EndpointTables, message: ReceivedMessage, failure: Failure) -> Outcome:
        failed_queue = self._destination(Envelope.of(message)) or self._endpoint.queue.canonical
        tables.error_queue.send([failed_message(message, failure, failed_queue, self._endpoint.name)])
        return Outcome.GIVEN_UP

    def _destination(self, envelope: Envelope) -> str | None:
        """Return the destination of a message that was delayed on its way to another queue; None for this queue."""
        text = envelope.headers.get(HeaderNames.FORWARD_DESTINATION)
        try:
            return text if text and self._resolver.resolve(text) != self._endpoint.queue else None
        except AddressError:
            return text

    def _forward(self, session: Session, envelope: Envelope, destination: str) -> Outcome:
        """Send a delayed message to its destination, a task that the transport's own mover leaves to the endpoint.

        An error of the destination makes the message fail.
        """
        queue = QueueTable(session, find_queue(session, self._resolver, destination))
        queue.require_allowed(self._resolver)
        check_accepts(queue)
        headers = {name: value for name, value in envelope.headers.items() if name != HeaderNames.FORWARD_DESTINATION}
        queue.send([Message(headers, envelope.body, id=envelope.row_id)])
        return Outcome.FORWARDED

    def _call(self, attempt: _Attempt, envelope: Envelope) -> Outcome:
        handling = CurrentMessage(self._endpoint, envelope.identity.message_id)
        token = _handling.set(handling)
        attempt.at_risk = self._mode != NONE
        attempt.started = datetime.now(timezone.utc)
        try:
            with causation.handling(envelope, self._endpoint.name), tracing.handler_span(self._handle):
                result = self._handle(envelope)
        except Exception as error:
            if self._mode != NONE:
                raise
            self._unsettled = attempt, Failure.of(error)
            return Outcome.FAILED
        finally:
            _handling.reset(token)
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            attempt.at_risk = False
            if not inspect.isasyncgen(result):
                getattr(result, "close", lambda: None)()
            raise ConfigurationError("The handler is asynchronous or a generator, so nothing ran: give a function.")
        if handling.given_up:
            return Outcome.FAILED
        if self._mode == NONE and (self._endpoint.audit_queue or service_control.is_retry(envelope)):
            self._unsettled = attempt, None
        return Outcome.HANDLED

    def _report(self, session: Session, attempt: _Attempt) -> None:
        """Acknowledge a retry of ServiceControl, and copy a handled message to the audit queue.

        In the mode ``receive_only`` too this is in the transaction of the receive, not in that of the sends.
        """
        message, envelope, started = attempt.message, attempt.envelope, attempt.started
        assert message is not None
        assert envelope is not None
        assert started is not None
        acknowledged = service_control.acknowledge(session, self._resolver, envelope)
        try:
            service_control.audit(self._tables_of(session), message, envelope, started, acknowledged=acknowledged)
        except (QueueNotFoundError, NotAQueueError, PermissionDeniedError):
            # No message can be copied to this audit queue, so this message is not to blame.
            attempt.at_risk = False
            raise

    def _settle(self, sessions: SessionStack) -> Outcome:
        """Finish a message that is in no queue; the handler repeats this until it succeeds.

        A handled message is reported. A failed one, or one that cannot be reported, goes to the error queue.
        """
        assert self._unsettled is not None
        attempt, failure = self._unsettled
        message = attempt.message
        assert message is not None
        with sessions.lend() as session:
            tables = self._tables_of(session)
            if failure is None:
                try:
                    with session.transaction():
                        self._report(session, attempt)
                except Exception as error:
                    if not is_of_a_message(error):
                        raise
                    failure = Failure.of(error)
                    self._unsettled = attempt, failure
                else:
                    self._unsettled = None
                    return Outcome.HANDLED
            log.error("Message %s goes to the error queue after %s", _id_of(message), failure.exception_type)
            try:
                with session.transaction():
                    self._give_up(tables, message, failure)
            except Exception as error:
                if not is_of_a_message(error):
                    raise
                # The message is in no queue, so it is put back first; another handler may receive it then.
                with session.transaction():
                    (row_version,) = tables.queue.send_numbered([unchanged(message)])
                tables.set_aside(row_version, error, Envelope.of(message).problem)
        self._unsettled = None
        return Outcome.FAILED

    def _set_aside(self, sessions: SessionStack, message: ReceivedMessage, error: Exception) -> Outcome:
        """Move a message that the error queue has refused, unchanged; after the rollback it is in its queue."""
        with sessions.lend() as session:
            self._tables_of(session).set_aside(message.row_version, error, Envelope.of(message).problem)
        self._failures.forget(message.row_version)
        return Outcome.GIVEN_UP

    def _note_failure(
        self, attempt: _Attempt, message: ReceivedMessage, error: Exception
    ) -> recoverability.FailedAttempts:
        # A destination that cannot take a message cannot take it a moment later either.
        is_final = attempt.envelope is None and not isinstance(error, TransientError)
        # No retry brings back a payload that is gone, or makes it smaller.
        is_final = is_final or isinstance(error, (PayloadError, *self._recoverability.unrecoverable))
        return self._failures.record(message.row_version, error, is_final=is_final)

    def _rolled_back(self, attempt: _Attempt, message: ReceivedMessage, error: Exception) -> Outcome:
        # The failure of a commit is not noted yet.
        failed = attempt.failed or self._note_failure(attempt, message, error)
        self._receiver.put_back(message.row_version)
        log.warning("Message %s failed with %s, attempt %d", _id_of(message), type_name(error), failed.attempts)
        return Outcome.ROLLED_BACK

    def _tables_of(self, session: Session) -> EndpointTables:
        self._tables = self._endpoint.tables(session, self._tables)
        return self._tables


def _id_of(message: ReceivedMessage) -> str:
    return quoted(Envelope.of(message).identity.message_id)
