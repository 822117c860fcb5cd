"""Error queues from Airflow: the hook's methods and the operator, on a server."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.operators import SqlQueueFailedMessagesOperator, SqlQueueReturnToSourceOperator
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions

SECRET = "s3cret-c0ntent"


def failed(queue_name: str, endpoint: str = "Sales") -> Message:
    headers = {
        HeaderNames.MESSAGE_ID: f"m-{endpoint}",
        HeaderNames.FAILED_Q: queue_name,
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.EXCEPTION_TYPE: "System.TimeoutException",
        HeaderNames.EXCEPTION_MESSAGE: SECRET,
        "Shop.Card": SECRET,
    }
    return Message(headers, SECRET.encode())


@pytest.fixture
def error(hook: SqlQueueHook, queue_name: str) -> Any:
    """An error queue with two failures of Sales, one of Billing and a malformed message."""
    name = f"{queue_name}.error"
    hook.create_queue(name)
    hook.send(name, [failed(queue_name), failed(queue_name), failed(queue_name, "Billing"), Message("{" + SECRET)])
    yield name
    hook.client.tables.drop(name, force=True)


def give_back(error: str, **arguments: Any) -> SqlQueueReturnToSourceOperator:
    return SqlQueueReturnToSourceOperator(task_id="return", queue_name=error, **arguments)


def test_the_operator_returns_matching_messages_and_counts_them(
    hook: SqlQueueHook, queue_name: str, error: str, context: Any
) -> None:
    operator = give_back(error, filters={"endpoint": "{{ endpoint }}", "exception_type": "System.TimeoutException"})
    operator.render_template_fields({"endpoint": "Sales"})
    done = operator.execute(context())
    assert (done["messages"], done["destinations"], done["left"]) == (2, {f"{queue_name}@[dbo]@[sqlqueue]": 2}, {})
    rest = give_back(error, all_messages=True).execute(context())
    assert (rest["messages"], rest["left"], rest["complete"]) == (1, {"malformed headers": 1}, True)
    assert hook.depth(queue_name).messages == 3
    (message, *_) = hook.receive(queue_name)
    headers = decode_headers(message.headers).values
    assert (headers[HeaderNames.MESSAGE_ID], HeaderNames.FAILED_Q in headers) == ("m-Sales", False)


def test_xcom_and_log_hold_no_text_of_a_message(
    error: str, context: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    with caplog.at_level(logging.DEBUG):
        done = give_back(error, all_messages=True, error_queue_options={"rate": 1_000}).execute(context())
    shown = caplog.text + "".join(capfd.readouterr())
    assert "1 message left in" in shown
    assert SECRET not in shown + json.dumps(done)


def test_the_operator_can_count_redirect_and_stop(
    hook: SqlQueueHook, queue_name: str, error: str, context: Any
) -> None:
    counted = give_back(error, all_messages=True, only_count=True).execute(context())
    assert (counted["messages"], counted["dry_run"]) == (3, True)
    some = give_back(error, all_messages=True, max_messages=1, max_seconds=60).execute(context())
    assert (some["messages"], some["complete"]) == (1, False)
    redirect: Any = SqlQueueFailedMessagesOperator(
        task_id="redirect", action="redirect", queue_name=error, to_queue=queue_name, malformed=True, all_messages=True
    )
    rest = redirect.execute(context())
    assert (rest["messages"], rest["left"]) == (3, {})
    assert hook.depth(queue_name).messages == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Say which messages are meant"),
        ({"filters": {"endpoint": None}}, "Say which messages are meant"),
        ({"filters": {"endpoint": "Sales"}, "all_messages": True}, "one of the two"),
        ({"filters": {"since": ""}}, "since is not a time"),
        ({"all_messages": True, "error_queue_options": {"rate": 0}}, "rate must be"),
    ],
)
def test_errors_that_no_retry_fixes_fail_without_one(arguments: Any, says: str, connection: Any, context: Any) -> None:
    connection(host="127.0.0.1", port=1)
    with pytest.raises(AirflowFailException, match=says):
        give_back("error", **arguments).execute(context())


def test_the_hook_triages_shows_and_edits(hook: SqlQueueHook, queue_name: str, error: str) -> None:
    groups = hook.client.errors.triage(error, by=["endpoint"], filters={"kind": "failed"}).groups
    assert [(group.values, group.messages) for group in groups] == [
        ({"endpoint": "Sales"}, 2),
        ({"endpoint": "Billing"}, 1),
    ]
    shown = hook.client.errors.show(error, row_version=groups[1].example, with_body=True)
    assert (shown.envelope.failure.exception_message, shown.body) == (SECRET, SECRET.encode())
    edited = hook.client.errors.edit(error, row_version=groups[1].example, body=b"mended")
    assert edited.edit_of == "m-Billing"
    assert [message.body for message in hook.receive(queue_name, 5)] == [b"mended"]
    with pytest.raises(ConfigurationError, match="Say which messages"):
        hook.client.errors.return_to_source(error)
    assert (
        hook.client.errors.return_to_source(
            error, filters={"message_ids": "m-Sales"}, options=ErrorQueueOptions(rate=500)
        ).messages
        == 2
    )


def test_an_edit_joins_a_transaction(hook: SqlQueueHook, queue_name: str, error: str) -> None:
    (group, *_) = hook.client.errors.triage(error, by=["endpoint"]).groups

    def edit_and_fail() -> None:
        with hook.transaction():
            hook.client.errors.edit(error, row_version=group.example, body=b"mended")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        edit_and_fail()
    assert (hook.depth(error).messages, hook.depth(queue_name).messages) == (4, 0)
