"""Settlement of received messages apart from their function: to another queue, the error queue, back, or audited."""

from __future__ import annotations

import logging
from collections.abc import Callable, Set

from airflow_sqlqueue import errors
from airflow_sqlqueue.endpoint import service_control
from airflow_sqlqueue.endpoint.attempt import Attempt, Outcome
from airflow_sqlqueue.endpoint.endpoint import EndpointTables
from airflow_sqlqueue.endpoint.run import Run
from airflow_sqlqueue.endpoint.session_stack import SessionStack
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors import failure_headers
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.server.reconnecting import passes
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.untrusted import quoted


class Settlement:
    """Settlement of the messages of one handler.

    In the mode ``none`` a handled or failed message is in no queue any more: it is kept here until it is settled.
    """

    def __init__(self, run: Run) -> None:
        self._endpoint, self._resolver, self._log = run.endpoint, run.resolver, run.failures.log
        self._tables: EndpointTables | None = None
        self._acknowledging: dict[str, ResolvedAddress] = {}
        self._kept: tuple[Attempt, failure_headers.Failure | None] | None = None

    def tables(self, session: Session) -> EndpointTables:
        """Return the endpoint's tables through a session."""
        self._tables = self._endpoint.tables(session, self._tables)
        return self._tables

    def destination(self, session: Session, envelope: Envelope) -> str | None:
        """Return the destination of a message that was delayed on its way to another queue; None for this queue."""
        text = envelope.headers.get(HeaderNames.FORWARD_DESTINATION)
        try:
            return text if text and find_queue(session, self._resolver, text) != self._endpoint.queue else None
        except errors.AddressError:
            return text

    def forward(self, session: Session, envelope: Envelope, destination: str) -> None:
        """Send a delayed message to its destination, which the transport's own mover leaves to the endpoint."""
        queue = QueueTable(session, find_queue(session, self._resolver, destination))
        queue.require_allowed(self._resolver)
        headers = {name: value for name, value in envelope.headers.items() if name != HeaderNames.FORWARD_DESTINATION}
        queue.send([Message(headers, envelope.body, id=envelope.row_id)])

    def give_up(self, session: Session, message: ReceivedMessage, failure: failure_headers.Failure) -> None:
        """Send a message to the error queue."""
        failed_queue = self.destination(session, Envelope.of(message)) or self._endpoint.queue.canonical
        failed = failure_headers.failed_message(message, failure, failed_queue, self._endpoint.name)
        self.tables(session).error_queue.send([failed])

    def dead_letter(self, session: Session, row_version: int, message: ReceivedMessage, error: Exception) -> None:
        """Move a message in its queue that the error queue has refused, unchanged."""
        self.tables(session).dead_letter(row_version, error, Envelope.of(message).problem)

    def send_back(self, session: Session, message: ReceivedMessage) -> int:
        """Send a message that is in no queue back to its own, and return its RowVersion: others may receive it."""
        with session.transaction():
            (row_version,) = self.tables(session).queue.send_numbered([failure_headers.unchanged(message)])
        return row_version

    def acknowledge(self, session: Session, envelope: Envelope) -> bool:
        """Tell ServiceControl of a message that it has sent again."""
        return service_control.acknowledge(session, self._resolver, envelope, self._acknowledging)

    def report(self, session: Session, attempt: Attempt, given_up: Set[str | None] = frozenset()) -> None:
        """Acknowledge retries of ServiceControl, and copy handled messages to the audit queue.

        In the mode ``receive_only`` too this is in the transaction of the receive, not in that of the sends.
        """
        started = attempt.started
        assert started is not None
        for message, envelope in attempt.batch:
            if envelope.identity.message_id in given_up:
                continue
            acknowledged = self.acknowledge(session, envelope)
            try:
                service_control.audit(self.tables(session), message, envelope, started, acknowledged=acknowledged)
            except (errors.QueueNotFoundError, errors.NotAQueueError, errors.PermissionDeniedError):
                # No message can be copied to this audit queue, so this message is not to blame.
                attempt.at_risk = False
                raise

    @property
    def is_open(self) -> bool:
        """Whether a message is kept here, in no queue."""
        return self._kept is not None

    def keep(self, attempt: Attempt, failure: failure_headers.Failure | None = None) -> None:
        """Keep a message that is in no queue: one that failed, or that is to be reported."""
        self._kept = attempt, failure

    def settle(self, sessions: SessionStack) -> Outcome:
        """Settle the kept message; the handler repeats this until it succeeds.

        A handled message is reported. A failed one, or one that cannot be reported, goes to the error queue, or back
        into its queue if that error queue takes no message.
        """
        assert self._kept is not None
        attempt, failure = self._kept
        with sessions.lend() as session:
            if failure is None:
                try:
                    with session.transaction():
                        self.report(session, attempt)
                except Exception as error:
                    if not errors.is_of_a_message(error):
                        raise
                    failure = failure_headers.Failure.of(error)
                    self.keep(attempt, failure)
                else:
                    self._kept = None
                    return Outcome.HANDLED
            self._settle_failed(session, attempt.received[0], failure)
        self._kept = None
        return Outcome.FAILED

    def _settle_failed(self, session: Session, message: ReceivedMessage, failure: failure_headers.Failure) -> None:
        kind, message_id = failure.exception_type, quoted(Envelope.of(message).identity.message_id)
        what, line = f"messages to the error queue after {kind}", "Message %s goes to the error queue after %s"
        self._log.note(logging.ERROR, what, line, message_id, kind)
        try:
            with session.transaction():
                self.give_up(session, message, failure)
        except Exception as error:
            is_refused = errors.is_of_a_message(error)
            if not is_refused and passes(error, known=True):
                raise
            row_version = self.send_back(session, message)
            if not is_refused:
                self._kept = None
                raise
            self.dead_letter(session, row_version, message, error)

    def give_back(self, connect: Callable[[], SessionStack]) -> None:
        """Send the kept message back to its queue if it failed and the error queue has not taken it to the end."""
        if self._kept is not None and self._kept[1] is not None:
            with connect().lend() as session:
                self.send_back(session, self._kept[0].received[0])
            self._kept = None
