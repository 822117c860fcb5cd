"""Refusals of bad input that need no server, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.errors import AddressError, ConfigurationError, MessageError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import endpoint_table
from airflow_sqlqueue.queue.delayed.table import _when
from airflow_sqlqueue.queue.errors.actions import ACTIONS, action_named
from airflow_sqlqueue.queue.errors.editing import check_headers
from airflow_sqlqueue.queue.errors.failure_headers import Failure, failed_message
from airflow_sqlqueue.queue.errors.filters import ErrorFilter

NOTHING: Any = None
TEXT: Any = "text"
NUMBER: Any = 3_600
MAPPING: Any = {}
OPTIONS: Any = DrainOptions()


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: QueueAddress(" "), AddressError, "address is blank"),
        (lambda: QueueAddress("Sales", "a@b").text_for("3.0"), AddressError, "Version 3.0 cannot read the schema"),
        (lambda: endpoint_table(" "), AddressError, "endpoint name is blank"),
        (lambda: Message({}, TEXT), MessageError, "body is bytes, not str"),
        (lambda: Message({}, b"", NUMBER), MessageError, "to be received is a timedelta, not int"),
        (lambda: _when(NUMBER, None), MessageError, "A delay is a timedelta"),
        (lambda: _when(None, TEXT), MessageError, "a due time a datetime"),
        (lambda: check_headers({f"k{number}": "" for number in range(10_001)}), MessageError, "more than 10,000"),
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
        (lambda: Consumer(NOTHING, NOTHING, "Sales", TEXT), ConfigurationError, "handler is a str: give a function"),
    ],
)
def test_bad_input_gets_a_sentence(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_a_dry_run_needs_no_confirmation() -> None:
    ACTIONS["delete"].check([], dry_run=True)
    ACTIONS["delete"].check(["confirm"])
