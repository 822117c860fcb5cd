"""Handler: receives a message or a batch, calls the function, and commits, or rolls back and counts the failure.

As in endpoints, the next receive of a failed message decides whether it is retried, delayed or given up, and does so in
that receive's transaction. So a crash in between loses nothing (docs/transport/transactions.md, "Recoverability").
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Set
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from types import MappingProxyType

from airflow_sqlqueue import errors
from airflow_sqlqueue.endpoint import recoverability, service_control
from airflow_sqlqueue.endpoint.attempt import Attempt, OnReceived, Outcome
from airflow_sqlqueue.endpoint.message_handlers import DISCARD, HandlerFunction, no_handler
from airflow_sqlqueue.endpoint.run import Run
from airflow_sqlqueue.endpoint.session_stack import SessionStack
from airflow_sqlqueue.endpoint.settlement import Settlement
from airflow_sqlqueue.messages.envelope import Envelope, causation, tracing
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, can_be_written
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue import MessageHead
from airflow_sqlqueue.queue.browsing import NO_ID
from airflow_sqlqueue.queue.errors import failure_headers
from airflow_sqlqueue.queue.errors.handling import HANDLING, CurrentMessages
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.transactions import NONE, transaction
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

BATCH_BYTES = 64 * MIB
"""Bytes of bodies at which the collection of a batch ends."""

_NO_FAILURE = failure_headers.Failure("", {})
"""The failure of a message with unreadable headers, to which no header can be added."""


class Handler:
    """Handler of messages, one or one batch at a time. For one thread. ``on_received`` is called before handling."""

    def __init__(self, run: Run, on_received: OnReceived) -> None:
        self._run, self._endpoint, self._handlers = run, run.endpoint, run.handlers
        self._failures, self._receiver, self._on_received = run.failures, run.receiver, on_received
        self._options, self._mode, bus = run.options, run.options.transaction_mode, run.options.data_bus
        self._data_bus = None if bus is None else bus.limited(run.options.payload_bytes)
        self.settlement = Settlement(run)

    def next(self, sessions: SessionStack, limit: int = 1) -> list[Outcome]:
        """Receive and handle a message, or a batch of up to ``limit`` messages; return an outcome for each.

        The list is empty if there was no message to receive, and has one outcome if a batch was rolled back. Raises a
        server error that the message does not cause; the messages are in the queue then, or kept by the settlement: if
        it is open, this finishes its message and receives none.
        """
        if self.settlement.is_open:
            return [self.settlement.settle(sessions)]
        attempt = Attempt()
        try:
            outcomes = self._attempt(sessions, attempt, limit)
        except Exception as error:
            self._receiver.go_to_head()
            if attempt.waits:
                log.info("Message %s waits: another handler has one with its id", _id_of(attempt.received[0]))
                self._put_back(attempt)
                return [Outcome.WAITED]
            if attempt.message is None or not attempt.is_to_blame(error):
                raise
            if attempt.giving_up:
                with sessions.lend() as session:
                    self.settlement.dead_letter(session, attempt.message.row_version, attempt.message, error)
                self._failures.forget(attempt.message.row_version)
                return [Outcome.GIVEN_UP]
            return [self._rolled_back(attempt, attempt.message, error)]
        if self.settlement.is_open:
            return [self.settlement.settle(sessions)]
        for message in attempt.received:
            self._failures.forget(message.row_version)
        return outcomes

    def _attempt(self, sessions: SessionStack, attempt: Attempt, limit: int) -> list[Outcome]:
        with transaction(self._run.settings, sessions.lend, self._mode) as current:
            try:
                # Even in the mode ``none`` messages that do not go to the function leave the queue in a transaction.
                with current.receiving.transaction() if self._mode == NONE else nullcontext():
                    outcome = self._receive(current.receiving, attempt)
                if attempt.message is not None and attempt.envelope is not None:
                    return self._dispatch(current.receiving, attempt, attempt.message, attempt.envelope, limit)
            except Exception as error:
                # Noted before the rollback: after it, another handler may receive the message.
                if attempt.message is not None and attempt.is_to_blame(error):
                    self._note_failure(attempt, attempt.message, error)
                raise
        return [] if outcome is None else [outcome]

    def _receive(self, session: Session, attempt: Attempt) -> Outcome | None:
        """Receive a message; handle it here if it is malformed, has failed too often, or is for another queue."""
        queue = self.settlement.tables(session).queue
        received = self._receiver.receive(queue)
        if not received:
            return None
        (message,) = received
        if self._mode != NONE:
            session.chain()
        attempt.message = message
        attempt.received.append(message)
        self._on_received(partial(self._receiver.waiting, queue))
        envelope = Envelope.of(message)
        if envelope.problem is not None:
            attempt.giving_up = True
            line = "Message %s goes to the error queue as it is: %s"
            self._failures.log.note(logging.ERROR, "malformed messages", line, message.id, envelope.problem)
            self.settlement.give_up(session, message, _NO_FAILURE)
            return Outcome.GIVEN_UP
        envelope = self._completed(message, envelope)
        failed = self._failures.find(message.row_version)
        if failed is not None and (outcome := self._recover(session, attempt, envelope, failed)):
            return outcome
        if destination := self.settlement.destination(session, envelope):
            attempt.at_risk = True
            self.settlement.forward(session, envelope, destination)
            return Outcome.FORWARDED
        attempt.envelope = _as_handled(envelope)
        return None

    def _completed(self, message: ReceivedMessage, envelope: Envelope) -> Envelope:
        headers = MappingProxyType(failure_headers.complete_headers(message, envelope))
        return Envelope(headers, message.body, message.id, data_bus=self._data_bus)

    def _recover(
        self, session: Session, attempt: Attempt, envelope: Envelope, failed: recoverability.FailedAttempts
    ) -> Outcome | None:
        """Delay or give up a message that has failed before; return None if it is tried again."""
        message, delayed = attempt.message, self.settlement.tables(session).delayed
        assert message is not None
        # A message for another queue has been delayed before. After another delay it would be handled here.
        is_ours = self.settlement.destination(session, envelope) is None
        can_delay = delayed is not None and is_ours and can_be_written(envelope.headers)
        action = recoverability.RecoverabilityAction.GIVE_UP
        if not failed.is_final:
            action = self._options.action(failed.attempts, envelope, can_delay=can_delay)
        shown_id, kind = quoted(envelope.identity.message_id), failed.failure.exception_type
        if action is recoverability.RecoverabilityAction.RETRY:
            return None
        if action is recoverability.RecoverabilityAction.GIVE_UP or delayed is None:
            attempt.giving_up = True
            line = "Message %s goes to the error queue after %s, attempt %d"
            what = f"messages to the error queue after {kind}"
            self._failures.log.note(logging.ERROR, what, line, shown_id, kind, failed.attempts)
            self.settlement.give_up(session, message, failed.failure)
            return Outcome.GIVEN_UP
        delay = self._options.delay(envelope)
        line = "Message %s is tried again in %s after %s"
        self._failures.log.note(logging.WARNING, f"messages delayed after {kind}", line, shown_id, delay, kind)
        headers = recoverability.delayed_headers(envelope.headers, envelope)
        delayed.store([Message(headers, message.body)], delay=delay)
        return Outcome.DELAYED

    def _dispatch(
        self, session: Session, attempt: Attempt, message: ReceivedMessage, envelope: Envelope, limit: int
    ) -> list[Outcome]:
        """Call the function of a message, with a batch if it takes one; the inbox leaves out what was handled."""
        function = self._handlers.find(envelope)
        if function is None and self._handlers.unhandled == DISCARD:
            return [Outcome.DISCARDED]
        attempt.batch = [(message, envelope)]
        if function is not None and function.is_batch and not self._failures.is_alone(message.row_version):
            attempt.batch += self._collect(session, attempt, function, min(limit, function.max_messages) - 1)
        if self._options.inbox:
            self._enter_inbox(session, attempt)
        outcomes = [Outcome.DUPLICATE] * attempt.duplicates
        if attempt.batch:
            with self._tracing(attempt, function):
                given_up = self._call(session, attempt, function)
                if self._mode != NONE:
                    self.settlement.report(session, attempt, given_up)
            outcomes += [
                Outcome.FAILED if each.identity.message_id in given_up else Outcome.HANDLED for _, each in attempt.batch
            ]
        return outcomes

    def _tracing(self, attempt: Attempt, function: HandlerFunction | None) -> AbstractContextManager[None]:
        """Span of a message; a batch, whose messages are of several traces, has none."""
        if function is not None and function.is_batch:
            return nullcontext()
        return tracing.process_span(attempt.batch[0][1], self._endpoint.name, self._endpoint.queue.canonical)

    def _causing(self, envelopes: list[Envelope], function: HandlerFunction) -> AbstractContextManager[None]:
        """Make a message the cause of what the function sends; a batch has no single cause."""
        return nullcontext() if function.is_batch else causation.handling(envelopes[0], self._endpoint.name)

    def _collect(
        self, session: Session, attempt: Attempt, function: HandlerFunction, wanted: int
    ) -> list[tuple[ReceivedMessage, Envelope]]:
        """Receive further messages for a batch: those of the same function that were not in a failed one."""
        queue, collected = self.settlement.tables(session).queue, []

        def joins(head: MessageHead) -> bool:
            envelope = Envelope.of(head.decoded)
            if self._failures.is_alone(head.row_version) or envelope.problem is not None or head.expired:
                return False
            is_ours = self._handlers.find_without_body(envelope) is function
            return is_ours and self.settlement.destination(session, envelope) is None

        first = attempt.batch[0][0]
        left, seconds, stop = BATCH_BYTES - len(first.body), function.max_seconds, self._run.stop
        for message in self._receiver.collect(queue, first.row_version, joins, wanted, left, seconds, stop):
            attempt.received.append(message)
            collected.append((message, _as_handled(self._completed(message, Envelope.of(message)))))
        return collected

    def _enter_inbox(self, session: Session, attempt: Attempt) -> None:
        """Enter the messages in the inbox, and leave those out of the batch that it has."""
        inbox, queue = self.settlement.tables(session).inbox, self._endpoint.queue
        kept = []
        # In one order, so that two batches with the same ids do not deadlock.
        for message, envelope in sorted(attempt.batch, key=lambda each: each[1].identity.message_id or ""):
            message_id = envelope.identity.message_id or ""
            try:
                # All messages without an id would be one message.
                is_new = message_id == str(NO_ID) or inbox.enter(queue, message_id)
            except (errors.DeadlockError, errors.LockTimeoutError):
                attempt.waits = True
                raise
            if is_new:
                kept.append((message, envelope))
            else:
                attempt.duplicates += 1
                log.debug("Message %s was handled before and is deleted", quoted(envelope.identity.message_id))
                self.settlement.acknowledge(session, envelope)
        attempt.batch = sorted(kept, key=lambda each: each[0].row_version)

    def _call(self, session: Session, attempt: Attempt, function: HandlerFunction | None) -> Set[str | None]:
        """Call the function, and return the ids of messages that it has given up."""
        envelopes = [envelope for _, envelope in attempt.batch]
        here, ids = self._endpoint, frozenset(each.identity.message_id for each in envelopes)
        handling = CurrentMessages(here.name, here.queue, here.error_queue, ids)
        token = HANDLING.set(handling)
        attempt.at_risk = self._mode != NONE
        attempt.started = datetime.now(timezone.utc)
        try:
            if function is None:
                raise no_handler(envelopes[0])
            result = self._result(session, function, envelopes)
        except Exception as error:
            if self._mode != NONE:
                raise
            if handling.given_up:
                # The function has put the message into the error queue already, and nothing undoes that in this mode.
                line = "Message %s failed with %s after its function had put it into the error queue"
                kind = failure_headers.type_name(error)
                what = f"messages failed with {kind} after they were put into the error queue"
                self._failures.log.note(logging.WARNING, what, line, quoted(envelopes[0].identity.message_id), kind)
                return handling.given_up
            self.settlement.keep(attempt, failure_headers.Failure.of(error))
            return frozenset()
        except BaseException:
            if not session.is_inherited:
                with suppress(errors.SqlQueueError):
                    self._undo_receive(session, attempt, handling)
            raise
        finally:
            HANDLING.reset(token)
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            attempt.at_risk = False
            if not inspect.isasyncgen(result):
                getattr(result, "close", lambda: None)()
            self._undo_receive(session, attempt, handling)
            raise errors.ConfigurationError(
                "The handler is asynchronous or a generator, so nothing ran: give a function."
            )
        if self._options.inbox:
            for message_id in handling.given_up:
                # It may come back from the error queue, to be handled then.
                self.settlement.tables(session).inbox.leave(self._endpoint.queue, message_id or "")
        is_reported = self._endpoint.audit_queue or service_control.is_retry(envelopes[0])
        if self._mode == NONE and is_reported and not handling.given_up:
            self.settlement.keep(attempt)
        return handling.given_up

    def _result(self, session: Session, function: HandlerFunction, envelopes: list[Envelope]) -> object:
        """Call the function and return its result; where it asks for the end of the program, its message fails."""
        with self._causing(envelopes, function), tracing.handler_span(function.call):
            try:
                return function.call(envelopes if function.is_batch else envelopes[0])
            except (Exception, KeyboardInterrupt):
                raise
            except BaseException as error:
                # As of sys.exit, a cancelled task of asyncio, or a panic in a package that is written in Rust.
                if session.is_inherited:
                    raise  # It ends the process that the function has forked.
                kind = failure_headers.type_name(error)
                cause = f"{kind}, as of sys.exit" if isinstance(error, SystemExit) else kind
                raise RuntimeError(f"The function of the message ended by {cause}.") from error

    def _undo_receive(self, session: Session, attempt: Attempt, handling: CurrentMessages) -> None:
        """Put a message back that was not handled, where no rollback does so, unless it is in the error queue."""
        if self._mode == NONE and not handling.given_up:
            self.settlement.send_back(session, attempt.received[0])

    def _note_failure(self, attempt: Attempt, message: ReceivedMessage, error: Exception) -> None:
        """Note the failure of a message; after that of a batch each of its messages is tried alone."""
        if attempt.is_shared:
            self._failures.single_out(each.row_version for each in attempt.received)
            return
        # A destination that cannot take a message cannot take it a moment later either.
        is_final = attempt.envelope is None and not isinstance(error, errors.TransientError)
        # No retry brings back a payload that is gone, or makes it smaller, or finds another function.
        never: tuple[type[BaseException], ...] = (
            errors.PayloadError,
            errors.NoHandlerError,
            *self._options.unrecoverable,
        )
        # A function that ended by no Exception has failed by a RuntimeError, whose cause is what the function raised.
        cause = error.__cause__
        raised = error if cause is None or isinstance(cause, Exception) else cause
        attempt.failed = self._failures.record(
            message.row_version, error, is_final=is_final or isinstance(raised, never)
        )

    def _rolled_back(self, attempt: Attempt, message: ReceivedMessage, error: Exception) -> Outcome:
        if attempt.failed is None:
            # The failure of a commit is not noted yet; noting a batch twice changes nothing.
            self._note_failure(attempt, message, error)
        self._put_back(attempt)
        kind = failure_headers.type_name(error)
        if attempt.failed is None:
            what, line = f"batches failed with {kind}", "A batch of %d failed with %s: its messages are tried alone"
            self._failures.log.note(logging.WARNING, what, line, len(attempt.received), kind)
        else:
            what, line = f"attempts failed with {kind}", "Message %s failed with %s, attempt %d"
            self._failures.log.note(logging.WARNING, what, line, _id_of(message), kind, attempt.failed.attempts)
        return Outcome.ROLLED_BACK

    def _put_back(self, attempt: Attempt) -> None:
        for each in attempt.received:
            self._receiver.put_back(each.row_version)


def _id_of(message: ReceivedMessage) -> str:
    return quoted(Envelope.of(message).identity.message_id)


def _as_handled(envelope: Envelope) -> Envelope:
    """Return a message of this queue as its function gets it, as endpoints do: without a delayed one's destination.

    From another queue, a copy with this header would be forwarded to this queue again.
    """
    if HeaderNames.FORWARD_DESTINATION not in envelope.headers:
        return envelope
    kept = {name: value for name, value in envelope.headers.items() if name != HeaderNames.FORWARD_DESTINATION}
    return replace(envelope, headers=MappingProxyType(kept))
