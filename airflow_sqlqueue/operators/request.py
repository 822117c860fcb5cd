"""Operator that sends a request to an endpoint and waits for its reply."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError, NoReplyError, SqlQueueError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.operators.base import RoutedTask, task_key, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.results import check_result
from airflow_sqlqueue.operators.waiting import WaitingTask
from airflow_sqlqueue.options.arguments import arguments_for, check_op_kwargs
from airflow_sqlqueue.untrusted import event_value

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_sqlqueue.messages.message import Message
    from airflow_sqlqueue.queue.publishing.conversation import Reply


class _FunctionError(Exception):
    """Error of this package that ``python_callable`` raised: it ends the try, where the same one of a poll passes."""

    def __init__(self, error: SqlQueueError) -> None:
        super().__init__()
        self.error = error


class SqlQueueRequestOperator(WaitingTask, RoutedTask):
    """Send a request, wait for its reply, receive it and call ``python_callable`` with it.

    Delivery: the request is sent exactly once for a task instance, by the send ledger: a retry sends no second request
    and waits for the reply to the first. The reply is received in the transaction in which ``python_callable`` runs, so
    it returns to its queue for the next try if that raises, or if XCom cannot store its result. Without a callable the
    reply's body is lost. A task that is cleared after it had its reply waits in vain, because its request is not sent
    again: run the DAG again.

    The request's id is random, so that no other program can reply before the request is sent, and the send ledger
    keeps it for retries. The reply is the message with that correlation id in ``reply_queue``; other replies stay
    there. Without a reply in time, the try fails with :class:`~airflow_sqlqueue.errors.NoReplyError`.

    XCom: ``message_id`` of the request, ``reply`` with its ``message_id``, ``message_type``, ``error_code`` (a
    callback's result) and ``bytes`` of its body, and ``result``, the result of ``python_callable``, which XCom must be
    able to store. A text with more than 1,000 characters, a NUL or half a surrogate pair is None. The body itself is
    not in XCom unless the callable returns it.

    ``message`` is not templated on purpose: Airflow stores rendered fields in its database and shows them.

    :param queue_name: the queue to send to, ``table@[schema]@[catalog]``; None: that of ``endpoint`` (templated)
    :param reply_queue: the queue that receives replies; it must exist and may be shared (templated)
    :param message: the request, with the fields of a message of
        :class:`~airflow_sqlqueue.operators.SqlQueueSendOperator`, or a function that gets the task's context and
        returns it.
    :param python_callable: called as ``python_callable(reply, **op_kwargs)`` with a
        :class:`~airflow_sqlqueue.Envelope`, like a handler. It locks the reply's row while it runs: keep it short.
    :param op_kwargs: further arguments of ``python_callable`` (templated)
    :param wait_timeout: longest time to wait for the reply, seconds or a timedelta; None: no limit.
    """

    template_fields = templated(RoutedTask, "reply_queue", "op_kwargs", WaitingTask)

    def __init__(
        self,
        *,
        reply_queue: str,
        message: Mapping[str, Any] | Callable[[Context], Mapping[str, Any]],
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        wait_timeout: float | timedelta | None = 3600.0,
        poll_interval: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(wait_timeout=wait_timeout, poll_interval=poll_interval, **kwargs)
        self.reply_queue = reply_queue
        self.message = message
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_sqlqueue.queue.send_ledger import send_id_for

        key = task_key(context)
        with fail_without_retry():
            check_op_kwargs(self.op_kwargs)
            if self.python_callable is not None:
                # Before the request is sent: its reply comes much later.
                arguments_for(self.python_callable, {}, self.op_kwargs or {})
            request = self._request(context)
            queue, client = self.sql_queue, self.hook.client
            if client.find(self.address) == client.find(self.reply_queue):
                # The request, which has the correlation id that is waited for, would be taken for its own reply.
                raise ConfigurationError(f"{self.address} is its own reply queue: name another one.")
            sent = queue.send_once(send_id_for(*key), [request], " ".join(map(str, key)), message_id=request.id)
            if not sent.repeated:
                Metrics(self, queue).count("send.messages", sent.messages)
            how = "An earlier try has sent the request" if sent.repeated else "Sent the request"
            self.log.info("%s to %s", how, self.address)
            return self._answer(context, str(sent.message_id))

    def execute_complete(self, context: Context, event: Any = None, *, message_id: str) -> dict[str, Any]:
        """Receive the reply that the trigger has found; wait again if it has gone."""
        from airflow_sqlqueue.triggers.base import found_in

        with fail_without_retry():
            found_in(event)
            return self._answer(context, message_id)

    def timed_out(self) -> NoReplyError:
        return NoReplyError(
            f"No reply came to {self.reply_queue} within the wait_timeout: check that the receiver of "
            f"{self.queue_name or self.endpoint} runs, or wait longer."
        )

    def _answer(self, context: Context, message_id: str) -> dict[str, Any]:
        def trigger() -> BaseTrigger:
            from airflow_sqlqueue.triggers.reply import SqlQueueReplyTrigger

            return SqlQueueReplyTrigger(
                queue_name=self.reply_queue,
                correlation_id=message_id,
                poll_interval=self.poll_interval,
                **self.connection_arguments,
            )

        try:
            return self.wait(lambda: self._take(context, message_id), trigger, {"message_id": message_id})
        except _FunctionError as raised:
            raise raised.error from None

    def _take(self, context: Context, message_id: str) -> dict[str, Any] | None:
        client = self.hook.client
        with client.transaction():
            reply = client.queue(self.reply_queue).take_reply(message_id)
            if reply is None:
                return None
            result = None
            if self.python_callable is not None:
                try:
                    result = self.python_callable(Envelope.of(reply.message), **(self.op_kwargs or {}))
                except SqlQueueError as error:
                    raise _FunctionError(error) from error
                check_result(self, context, result)
        Metrics(self, client.queue(self.reply_queue)).count("reply.messages", 1)
        return {"message_id": message_id, "reply": _metadata(reply), "result": result}

    def _request(self, context: Context) -> Message:
        """Return the request, with a new id, which the send ledger replaces if an earlier try has sent the request."""
        from airflow_sqlqueue.messages.envelope.outgoing import Sender

        written = self.message(context) if callable(self.message) else self.message
        if not isinstance(written, Mapping):
            raise MessageError("The request is not a mapping of a message's fields.")
        replies = self.hook.client.queue(self.reply_queue).address.canonical
        sender = Sender(key=str(uuid.uuid4()), endpoint=f"airflow.{task_key(context)[0]}")
        (bare,) = sender.messages([{}])
        (request,) = sender.messages([{**written, "reply_to": replies}])
        headers = request.headers
        if isinstance(headers, str) or {headers[HeaderNames.MESSAGE_ID], headers[HeaderNames.CORRELATION_ID]} != {
            str(bare.id)
        }:
            raise MessageError(
                "The request has its own ids: leave out its key, message id and correlation id, so that no other "
                "program knows its id before it is sent."
            )
        return request


def _metadata(reply: Reply) -> dict[str, Any]:
    return {
        "message_id": event_value(reply.headers.get(HeaderNames.MESSAGE_ID)),
        "message_type": event_value(reply.headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
        "error_code": reply.error_code,
        "bytes": len(reply.body),
    }
