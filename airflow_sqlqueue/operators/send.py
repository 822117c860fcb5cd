"""Operator that sends messages to a queue, and the base class of sending operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.messages.envelope.times import moment_of
from airflow_sqlqueue.operators.base import (
    RoutedTask,
    ServerTask,
    check_given_fields,
    check_options,
    note_counts,
    task_key,
    templated,
)
from airflow_sqlqueue.operators.lineage import Counted, Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.options import interval
from airflow_sqlqueue.options.budget import count_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.messages.envelope.outgoing import Sender

    MessageFields = Iterable[Mapping[str, Any]]


class MessagesTask(ServerTask):
    """Base class of tasks that send messages.

    :param messages: the messages, or a function that gets the task's context and returns them.
    :param content_type: content type of messages without their own (templated)
    :param originating_endpoint: name of the sending endpoint; None: ``airflow.`` and the DAG's id (templated)
    """

    template_fields = templated("content_type", "originating_endpoint", ServerTask)

    def __init__(
        self,
        *,
        messages: MessageFields | Callable[[Context], MessageFields],
        content_type: str = "application/json",
        originating_endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.messages = messages
        self.content_type = content_type
        self.originating_endpoint = originating_endpoint

    def sender(self, context: Context, enclosed_message_types: str | None = None) -> Sender:
        """Return the sender of the task instance, which gives a message the same id in every try."""
        from airflow_sqlqueue.messages.envelope.outgoing import Sender

        return Sender(
            key="\0".join(map(str, task_key(context))),
            endpoint=self.originating_endpoint or f"airflow.{context['ti'].dag_id}",
            content_type=self.content_type,
            enclosed_message_types=enclosed_message_types,
        )

    def written(self, context: Context) -> MessageFields:
        """Return the messages as the DAG's author wrote them; raises AirflowFailException for what is no list."""
        written = self.messages(context) if callable(self.messages) else self.messages
        try:
            iter(written)
        except TypeError:
            # The output of another task is one of these: Airflow puts results only into templated parameters.
            with fail_without_retry():
                raise MessageError(
                    f"messages is a value of the type {type(written).__name__}: give a list of mappings, or a function "
                    "of the task's context that returns one, as by ti.xcom_pull of another task."
                ) from None
        return written


class SqlQueueSendOperator(MessagesTask, RoutedTask):
    """Send messages that a .NET endpoint can handle, all of them in one transaction.

    Delivery: at least once. A try whose COMMIT took effect but whose answer was lost is repeated, with the same message
    ids, so that an endpoint with an outbox drops the repetition. With ``exactly_once`` the same transaction enters the
    send in the send ledger, and a repetition of the task in this run, also after clearing, sends nothing. XCom: the
    number of messages.

    A message is a mapping of these fields, all optional:

    - ``body``: text, bytes, anything JSON can hold, or an ``ObjectStoragePath`` (or another path), which is read when
      its message is sent: the DAG and XCom have only the path.
    - ``key``: a business key of the message, such as an order's number. The message id follows from the run and this
      key; without a key it follows from the run and the position, so a retry must then send the same messages in the
      same order to give them the same ids. A key given twice in one task is an error.
    - ``time_to_be_received``, or ``expires``: seconds or a timedelta, counted by the server's clock from the send.
    - ``message_type``, ``content_type``, ``intent``, ``correlation_id``, ``conversation_id``, ``related_to``,
      ``reply_to``: the headers of these names.
    - ``headers``: a mapping of text, None or aware datetimes, which overrides all other fields.

    Missing headers are filled in: message id, correlation and conversation id, intent, content type, time
    sent, originating endpoint and machine.

    ``messages`` is not templated on purpose: Airflow stores rendered fields in its database and shows them.

    :param enclosed_message_types: the .NET types of messages without ``message_type``, ``;``-separated, most derived
        first (templated)
    :param delay: seconds, or a timedelta, after which the queue receives them; until then they wait in its table of
        delayed messages, which an endpoint or a mover must serve (templated)
    :param due: the time at which the queue receives them, instead of ``delay``: aware, or as ISO 8601 (templated)
    :param exactly_once: whether to use the send ledger, a table in the queue's database.
    :param instance: with ``endpoint``, the instance or machine whose queue receives them, ``<endpoint>.<instance>``
        (templated)
    """

    template_fields = templated(RoutedTask, "enclosed_message_types", "delay", "due", "instance", MessagesTask)

    def __init__(
        self,
        *,
        enclosed_message_types: str | None = None,
        delay: timedelta | float | str | None = None,
        due: datetime | str | None = None,
        exactly_once: bool = False,
        instance: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.instance = instance
        self.enclosed_message_types = enclosed_message_types
        self.delay = delay
        self.due = due
        self.exactly_once = exactly_once
        check_options(self)

    @property
    def address(self) -> str:
        """The queue's address, given by the task, by the endpoint's name, or by that of its instance."""
        return self.hook.client.resolver.address_of(self.queue_name, self.endpoint, self.instance)

    def execute(self, context: Context) -> int:
        from airflow_sqlqueue.queue.send_ledger import SendResult, send_id_for

        key = task_key(context)
        sender, written = self.sender(context, self.enclosed_message_types), self.written(context)
        with fail_without_retry():
            check_given_fields(self)
            target, when = self._target()
            table, messages = target.address, Counted(sender.messages(written))
            if not self.exactly_once:
                sent = SendResult(target.send(messages, **when), repeated=False)
            else:
                sent = target.send_once(send_id_for(*key), messages, " ".join(map(str, key)), **when)
        how = "Another try has sent" if sent.repeated else "Sent"
        self.log.info("%s %s to %s", how, count_of(sent.messages, "message"), self.address)
        self.lineage = Lineage(outputs=[of_table(self.hook.client, table, sent.messages, messages.bytes)])
        note_counts(self, context, messages=sent.messages)
        if not sent.repeated:
            Metrics(self, self.sql_queue).count("send.messages", sent.messages)
        return sent.messages

    def _target(self) -> tuple[Any, dict[str, Any]]:
        """Return the queue, or its delayed messages, with further arguments of the send."""
        if self.delay is None and self.due is None:
            return self.sql_queue, {}
        return self.hook.client.delayed(self.address), {"delay": interval("delay", self.delay), "due": _due(self.due)}


def _due(value: datetime | str | None) -> datetime | None:
    return None if value is None else moment_of("due", value)
