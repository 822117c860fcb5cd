"""Refusals of bad input that need no server, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from airflow_sqlqueue.client.beginnings import whole_message_ids
from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import AddressError, ConfigurationError, MessageError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import endpoint_table
from airflow_sqlqueue.options import whole_numbers
from airflow_sqlqueue.queue.browsing import find
from airflow_sqlqueue.queue.delayed.table import DelayedTable, _when
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.actions import ACTIONS, action_named
from airflow_sqlqueue.queue.errors.editing import check_headers
from airflow_sqlqueue.queue.errors.failure_headers import Failure, failed_message
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.triage import triage
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.table_access import check_rows
from airflow_sqlqueue.spark import read_batch, register, verify_count

NOTHING: Any = None
TEXT: Any = "text"
NUMBER: Any = 3_600
HALF: Any = 1.5
MAPPING: Any = {}
ID: Any = UUID(int=1)
PRINT: Any = print
OPTIONS: Any = DrainOptions()


def client(**options: Any) -> QueueClient:
    return QueueClient.from_url("mssql://sa:x@localhost:1/test", **options)


def sent(messages: Any) -> list[Message]:
    with outgoing(messages, "Sales") as linked:
        return list(linked)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: QueueAddress(" "), AddressError, "address is blank"),
        (lambda: QueueAddress("Sales", "a@b").text_for("3.0"), AddressError, "Version 3.0 cannot read the schema"),
        (lambda: endpoint_table(" "), AddressError, "endpoint name is blank"),
        (lambda: Message({}, TEXT), MessageError, "body is bytes, not str"),
        (lambda: Message({}, b"", NUMBER), MessageError, "to be received is a timedelta, not int"),
        (lambda: Message(id=TEXT), MessageError, r"id is a UUID, not str: write uuid.UUID\(...\)"),
        (lambda: _when(NUMBER, None), MessageError, "A delay is a timedelta"),
        (lambda: _when(None, TEXT), MessageError, "a due time a datetime"),
        (lambda: check_headers({f"k{number}": "" for number in range(10_001)}), MessageError, "more than 10,000"),
        (lambda: check_headers(TEXT), ConfigurationError, "headers of an edit are a mapping of names and values, not"),
        (lambda: DelayedTable(NOTHING, NOTHING).peek(-1), ConfigurationError, "limit is -1: give a number of messages"),
        (lambda: triage(NOTHING, TEXT), ConfigurationError, r"a list, not the text 'text': give \['text'\]"),
        (lambda: triage(NOTHING, [], limit=NOTHING), ConfigurationError, "reads 1 message or more, not None"),
        (lambda: whole_message_ids(NOTHING, TEXT), ConfigurationError, "a list of texts, not the text 'text'"),
        (
            lambda: SendLedger(NOTHING, "shop", "sqlqueue").once(NOTHING, TEXT, NOTHING),
            ConfigurationError,
            "give one of type UUID",
        ),
        (
            lambda: SendLedger(NOTHING, "shop", "sqlqueue").once(NOTHING, ID, NOTHING, message_id=TEXT),
            ConfigurationError,
            "message_id is a value of type str: give one of type UUID",
        ),
        (
            lambda: failed_message(Envelope.of(Message("{")), Failure.of(ValueError()), "Sales", "Sales"),
            MessageError,
            "give the message as it was received",
        ),
        (lambda: action_named("returns"), ConfigurationError, "There is no action 'returns'.*choose from return, "),
        (lambda: ACTIONS["return"].check(["to_queue"]), ConfigurationError, "'return' takes no to_queue"),
        (lambda: ACTIONS["redirect"].check([], dry_run=True), ConfigurationError, "'redirect' needs to_queue"),
        (lambda: ACTIONS["delete"].check([]), ConfigurationError, "deletes messages for good"),
        (lambda: DrainOptions(max_messages=0), ConfigurationError, "max_messages must be more than 0: leave it out"),
        (
            lambda: DrainRequest(where=MAPPING),
            ConfigurationError,
            "where is a value of type dict: give one of type Mes",
        ),
        (
            lambda: DrainRequest(options=MAPPING),
            ConfigurationError,
            "options is .* dict: give one of type DrainOptions",
        ),
        (lambda: DrainRequest(batch_id=TEXT), ConfigurationError, "batch_id is .* str: give one of type UUID"),
        (lambda: DrainRequest(copy=TEXT), ConfigurationError, "copy is a value of type str: give one of type bool"),
        (
            lambda: Drain(NOTHING, NOTHING, NOTHING, OPTIONS),
            ConfigurationError,
            "request is a value of type DrainOptions: give one of type DrainRequest",
        ),
        (lambda: ErrorFilter(group="colour:00"), ConfigurationError, "cannot be grouped by 'colour'"),
        (lambda: client().queue("q").purge(MAPPING), ConfigurationError, "type dict: give one of type PurgeOptions"),
        (lambda: client().queue("q").consume(print, MAPPING), ConfigurationError, "give one of type ConsumeOptions"),
        (lambda: client().queue("q").check(MAPPING), ConfigurationError, "type dict: give one of type QueueCondition"),
        (lambda: client().queue("q").request(TEXT), ConfigurationError, "type str: give one of type Message"),
        (lambda: client().errors.return_to_source(options=MAPPING), ConfigurationError, "of type ErrorQueueOptions"),
        (lambda: client().batches.mark_consumed(TEXT), ConfigurationError, "A str is no Batch: give the batch of a"),
        (lambda: next(client().batches.messages(TEXT)), ConfigurationError, "A str is no Batch"),
        (lambda: client().batches.payloads(TEXT), ConfigurationError, "A str is no Batch"),
        (lambda: client().batches.erase(TEXT), ConfigurationError, "type str: give one of type EraseRequest"),
        (
            lambda: client().batches.conversation("c", catalogs="shop"),
            ConfigurationError,
            "give a list of names",
        ),
        (lambda: client().batches.named(NOTHING), ConfigurationError, "'None' is no id of a batch"),
        (lambda: client().batches.sweep("/nowhere/at all"), ConfigurationError, "no staging folder '/nowhere/at all'"),
        (lambda: QueueClient.from_url(NOTHING), ConfigurationError, "url is .* NoneType: give one of type str"),
        (lambda: QueueClient(TEXT), ConfigurationError, "settings is .* str: give one of type ConnectionSettings"),
        (lambda: client(lock_timeout=-1), ConfigurationError, "lock_timeout is '-1': give a number of seconds"),
        (lambda: check_rows(TEXT), ConfigurationError, "'text' rows for one statement: give 1 to 2000"),
        (
            lambda: verify_count(NUMBER, NOTHING),
            ConfigurationError,
            "df is a value of type int: give one of type Da",
        ),
        (lambda: read_batch(NOTHING, TEXT, OPTIONS), ConfigurationError, "connection is .* of type ConnectionSettings"),
        (
            lambda: register(NOTHING, TEXT),
            ConfigurationError,
            "connection is .* str: give one of type Connection",
        ),
        (lambda: depth(NOTHING, limit=-1), ConfigurationError, "limit is -1: give a number of messages, 0 or more"),
        (lambda: depth(NOTHING, "quick", limit=1), ConfigurationError, "A part of a queue is counted exactly"),
        (lambda: depth(NOTHING, "catalog", after=1), ConfigurationError, "leave out limit and after, or 'catalog'"),
        (lambda: find(NOTHING, MAPPING), ConfigurationError, "where is .* dict: give one of type MessageFilter"),
        (lambda: whole_numbers("row_versions", "57"), ConfigurationError, "row_versions is '57': give a list of whole"),
        (lambda: ErrorFilter(message_ids=TEXT), ConfigurationError, "message_ids takes a set of texts"),
        (lambda: ErrorFilter(message_ids=frozenset([ID])), ConfigurationError, "takes a set of texts"),
        (lambda: ErrorFilter(message_ids=ID), ConfigurationError, "takes a set of texts"),
        (lambda: MessageFilter(message_id=ID), ConfigurationError, "message_id takes text, not UUID"),
        (lambda: MessageFilter(headers=TEXT), ConfigurationError, "headers takes names and values, not str"),
        (lambda: MessageFilter(since=TEXT), ConfigurationError, "since is a datetime with a zone, not str"),
        (
            lambda: MessageHandlers().handles(PRINT),
            ConfigurationError,
            "function print>' is no message type",
        ),
        (lambda: MessageHandlers().batch(PRINT), ConfigurationError, "is no message type"),
        (
            lambda: MessageHandlers().batch("A", max_messages=TEXT),
            ConfigurationError,
            "max_messages must be 1 to 1,000",
        ),
        (lambda: MessageHandlers().batch("A", max_seconds=TEXT), ConfigurationError, "max_seconds must be 0 to 60"),
        (lambda: DrainOptions(max_messages=HALF), ConfigurationError, "max_messages is '1.5': give a whole number"),
        (lambda: Message(NOTHING), MessageError, "headers are a mapping or a text, not NoneType"),
        (lambda: ErrorFilter(row_versions=frozenset([TEXT])), ConfigurationError, "give a list of whole numbers"),
        (lambda: client().errors.fail(Message(), TEXT), ConfigurationError, "exception is .* str: give one of type"),
        (lambda: sent(Message()), MessageError, "Messages are sent as a list, .*, not as a Message"),
        (lambda: sent([TEXT]), MessageError, "A str cannot be sent as a message: send a Message"),
        (lambda: Consumer(NOTHING, NOTHING, "Sales", TEXT), ConfigurationError, "handler is a str: give a function"),
    ],
)
def test_bad_input_gets_a_sentence(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_a_dry_run_needs_no_confirmation() -> None:
    ACTIONS["delete"].check([], dry_run=True)
    ACTIONS["delete"].check(["confirm"])
