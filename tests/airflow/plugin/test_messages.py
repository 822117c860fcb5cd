"""Messages on the page: pages, searches, headers and bodies; nothing is removed, and nothing of them leaks."""

from __future__ import annotations

import json
import logging
import re
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from tests import zoo

pytestmark = pytest.mark.airflow

SECRET = "the-value-of-a-header"
HOSTILE = {
    "<script>alert(1)</script>": "javascript:alert(1)",
    "right to left": "\u202eabc\u202c",
    "n" * 10_000: "long name",
    "NServiceBus.MessageId": "an-id",
    "NServiceBus.EnclosedMessageTypes": "Shop.OrderPlaced, Shop",
    "NServiceBus.TimeSent": "2026-01-01 12:00:00:000000 Z",
    "NServiceBus.CorrelationId": "a-correlation",
    "Shop.Secret": SECRET,
}


@pytest.fixture
def path(live: str, queue_name: str) -> str:
    return f"api/connections/{live}/queues/{queue_name}/messages"


def test_a_queue_is_paged_through_from_its_head(post: Any, hook: SqlQueueHook, queue_name: str, path: str) -> None:
    hook.send(queue_name, [Message({"NServiceBus.MessageId": f"m{number}"}) for number in range(5)])
    found, after = [], None
    while True:
        answer = post(path, {"after": after, "limit": 2})
        found += [each["message_id"] for each in answer["messages"]]
        if answer["ended"]:
            break
        after = answer["next"]
    assert found == ["m0", "m1", "m2", "m3", "m4"]
    assert answer["next"] is None
    assert hook.depth(queue_name).messages == 5


def test_a_page_ends_at_a_limit_of_header_bytes(
    post: Any, hook: SqlQueueHook, queue_name: str, path: str, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.plugin.api import messages

    monkeypatch.setattr(messages, "PAGE_BYTES", 10_000)
    hook.send(queue_name, [Message({"filled": "x" * 4_000}, b"b" * 100_000)] * 4)
    first = post(path, {"limit": 4})
    assert (len(first["messages"]), first["ended"]) == (2, False)
    assert first["messages"][0]["bytes"] > 100_000
    second = post(path, {"limit": 4, "after": first["next"]})
    assert (len(second["messages"]), second["ended"]) == (2, False)
    assert post(path, {"limit": 4, "after": second["next"]})["ended"] is True


def test_a_search_goes_by_headers(post: Any, hook: SqlQueueHook, queue_name: str, path: str) -> None:
    hook.send(queue_name, [Message({"Shop.Secret": "another"}), Message(HOSTILE), Message()])
    for wanted in (
        {"id": "an-id"},
        {"message_type": "Shop.OrderPlaced"},
        {"header": {"name": "Shop.Secret", "value": SECRET}},
        {"header": {"name": "right to left", "value": "\u202eabc\u202c"}},
    ):
        answer = post(path, wanted)
        assert [each["message_id"] for each in answer["messages"]] == ["an-id"], wanted
        assert answer["ended"] is True
    hook.send(queue_name, [Message(HOSTILE)])
    first = post(path, {"id": "an-id", "limit": 1})
    second = post(path, {"id": "an-id", "limit": 1, "after": first["next"]})
    assert (first["ended"], first["messages"] == answer["messages"]) == (False, True)
    assert second["messages"] != first["messages"]


def test_a_search_goes_on_where_it_stopped(
    post: Any, hook: SqlQueueHook, queue_name: str, path: str, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.plugin.api import messages

    monkeypatch.setattr(messages, "STRETCH", 2)
    hook.send(queue_name, [*[Message()] * 5, Message({"NServiceBus.MessageId": "last"})])
    answer, requests = post(path, {"id": "last"}), 1
    while not answer["messages"]:
        assert answer["ended"] is False
        answer, requests = post(path, {"id": "last", "after": answer["next"]}), requests + 1
    assert requests == 3


def test_headers_come_as_they_are_written(
    post: Any, get: Any, hook: SqlQueueHook, queue_name: str, path: str, caplog: Any
) -> None:
    hook.send(queue_name, [Message(HOSTILE, b"{}", time_to_be_received=timedelta(hours=1))])
    with caplog.at_level(logging.DEBUG):
        (summary,) = post(path, {})["messages"]
        shown = get(f"{path}/{summary['row_version']}")
    assert dict(shown["headers"]) == HOSTILE
    assert [name for name, _ in shown["headers"]] == list(HOSTILE)
    assert shown["raw_headers"] is None
    expected = {
        "message_id": "an-id",
        "message_type": "Shop.OrderPlaced",
        "time_sent": "2026-01-01T12:00:00+00:00",
        "correlation_id": "a-correlation",
        "expired": False,
        "is_readable": True,
    }
    assert {name: shown[name] for name in expected} == expected
    assert {name: summary[name] for name in expected} == expected
    assert shown["expires"] is not None
    assert SECRET not in caplog.text


def test_malformed_headers_are_shown_as_text(
    post: Any, get: Any, hook: SqlQueueHook, queue_name: str, path: str
) -> None:
    hook.send(queue_name, [Message('{"a": 1, "b": "<b>"}')])
    (summary,) = post(path, {})["messages"]
    assert summary["is_readable"] is False
    shown = get(f"{path}/{summary['row_version']}")
    assert shown["headers"] == [["b", "<b>"]]
    assert shown["raw_headers"] == '{"a": 1, "b": "<b>"}'
    assert shown["problem"] == "a header's value is not text"


@pytest.mark.parametrize("name", ["line\nfeed", "per%cent", "per%0Acent", "a\r\tb", "sla/sh"])
def test_a_queue_of_any_name_is_opened(page: Any, hook: SqlQueueHook, name: str) -> None:
    hook.create_queue(name)
    try:
        hook.send(name, [Message(body=b"x")])
        # As path() of api.js writes it, and once more: the test client decodes a path twice.
        part = quote(re.sub("[%\\n/]", lambda found: quote(found[0], safe=""), name), safe="")
        part = quote(part)
        answer = page("POST", f"api/connections/sqlqueue_default/queues/{part}/messages", json={})
        assert (answer.status_code, len(answer.json()["messages"])) == (200, 1), answer.text
        row = answer.json()["messages"][0]["row_version"]
        assert page("GET", f"api/connections/sqlqueue_default/queues/{part}/messages/{row}").status_code == 200
    finally:
        hook.client.tables.drop(name, force=True)


def test_a_message_that_is_not_there_is_a_sentence(page: Any, hook: SqlQueueHook, queue_name: str, path: str) -> None:
    for number, status in (("1", 404), ("9223372036854775807", 404), ("9223372036854775808", 400), ("x", 400)):
        answer = page("GET", f"{path}/{number}")
        assert answer.status_code == status, number
        assert set(answer.json()) == {"detail"}
    missing = page("GET", f"api/connections/sqlqueue_default/queues/no.{uuid.uuid4().hex}/messages/1")
    assert missing.status_code == 404
    assert "does not exist" in missing.json()["detail"]
    assert page("GET", "api/connections/sqlqueue_default/queues/%23a/messages/1").status_code == 400


@pytest.fixture
def bodies(monkeypatch: Any) -> None:
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES", "True")


DECODED: list[tuple[bytes, str | None, str, str | None]] = [
    (
        b'{"a":1.10,"a":[],"b":{"c":"\\"}"}}',
        "application/json",
        "json",
        '{\n  "a": 1.10,\n  "a": [],\n  "b": {\n    "c": "\\"}"\n  }\n}',
    ),
    (b"<a>1</a>", "text/xml", "xml", "<a>1</a>"),
    ("\ufeffgr\u00fc\u00df".encode("utf-16-le"), "text/plain", "text", "gr\u00fc\u00df"),
    (b"\x00\x01ab", None, "hex", "00000000  00 01 61 62                                      ..ab"),
    (b"\xff\xfe\xfa", "application/octet-stream", "hex", f"00000000  ff fe fa{' ' * 41}..."),
    (b"", None, "empty", ""),
]


def test_a_body_is_decoded(get: Any, post: Any, hook: SqlQueueHook, queue_name: str, path: str, bodies: None) -> None:
    types = [{} if each[1] is None else {"NServiceBus.ContentType": each[1]} for each in DECODED]
    hook.send(queue_name, [Message(headers, each[0]) for headers, each in zip(types, DECODED, strict=True)])
    for summary, (body, _, kind, text) in zip(post(path, {})["messages"], DECODED, strict=True):
        shown = get(f"{path}/{summary['row_version']}/body")
        assert shown == {"kind": kind, "text": text, "bytes": len(body), "cut": False}
    get(f"{path}/{summary['row_version']}")
    # Looking removes nothing and locks nothing.
    assert len(hook.receive(queue_name, 10)) == len(DECODED)


def test_a_large_body_is_cut_and_read_in_part(
    get: Any, post: Any, hook: SqlQueueHook, queue_name: str, path: str, bodies: None
) -> None:
    text = "\u00fc" * 1_500_000
    hook.send(queue_name, [Message({"NServiceBus.ContentType": "text/plain"}, b"x" + text.encode())])
    (summary,) = post(path, {})["messages"]
    shown = get(f"{path}/{summary['row_version']}/body")
    assert (shown["kind"], shown["bytes"], shown["cut"]) == ("text", 3_000_001, True)
    assert shown["text"] == ("x" + text)[:200_000]


def test_the_audit_log_names_the_user_who_saw_a_body_and_not_the_body(
    get: Any, post: Any, hook: SqlQueueHook, queue_name: str, path: str, bodies: None, logged: Any
) -> None:
    hook.send(queue_name, [Message(HOSTILE, b"the body's secret")])
    (summary,) = post(path, {})["messages"]
    get(f"{path}/{summary['row_version']}/body", user="oda", role="OP")
    row = logged()[0]
    assert (row.event, row.owner) == ("sqlqueue_see_body", "oda")
    assert json.loads(row.extra) == {
        "connection": "sqlqueue_default",
        "queue": hook.client.resolve(queue_name).canonical,
        "row_version": summary["row_version"],
    }


def test_an_internal_error_of_the_page_shows_no_text_of_a_message(
    page: Any, hook: SqlQueueHook, queue_name: str, path: str, monkeypatch: Any, caplog: Any
) -> None:
    from airflow_sqlqueue.plugin.api import messages

    def fail(*_: Any) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(messages, "_head", fail)
    answer = page("GET", f"{path}/1")
    assert answer.status_code == 500
    assert answer.json() == {"detail": "The page failed unexpectedly: see the API server's log."}
    assert answer.headers["cache-control"] == "no-store"
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text


def test_half_a_character_hides_no_other_message(post: Any, get: Any, hook: SqlQueueHook, queue_name: str) -> None:
    """Half a surrogate pair, as .NET may write one into JSON, is in no encoding but in escapes."""
    half = '{"NServiceBus.EnclosedMessageTypes": "Shop.\\ud800, Shop", "x": "\\udc00"}'
    hook.send(queue_name, [Message(half), Message({"x": "whole"})])
    path = f"api/connections/sqlqueue_default/queues/{queue_name}/messages"
    first, second = post(path, {})["messages"]
    assert first["message_type"] == "Shop.\ud800"
    shown = get(f"{path}/{first['row_version']}")
    assert ["x", "\udc00"] in [list(each) for each in shown["headers"]]
    assert second["message_type"] is None


def test_a_zoo_of_hostile_rows_is_shown(
    post: Any, get: Any, hook: SqlQueueHook, queue_name: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every view answers, in bounded size, and what is good is found behind it."""
    from airflow_sqlqueue.plugin.api import failures, messages

    monkeypatch.setattr(failures, "SECONDS", 120.0)
    monkeypatch.setattr(messages, "SEARCH_SECONDS", 120.0)
    with hook.client.queue(queue_name).open() as queue:
        sent = zoo.insert(queue.session, queue.address, [*zoo.SHORT, zoo.TOO_LONG], **zoo.QUEUE)
    hook.send(queue_name, [Message({"NServiceBus.CorrelationId": "good"})] * 100)
    found, after, ended = [], None, False
    while not ended:
        answer = post(path, {"limit": 200, "after": after})
        assert len(json.dumps(answer)) < 2_000_000
        found += answer["messages"]
        after, ended = answer["next"], answer["ended"]
    assert len(found) == sent + 100
    assert sum(not each["is_readable"] for each in found) >= len(zoo.TEXTS) - 5
    # All that is not readable, and a part of the others.
    for each in [each for number, each in enumerate(found[:sent]) if number % 6 == 0 or not each["is_readable"]]:
        one = get(f"{path}/{each['row_version']}")
        assert (one["problem"] is None) == each["is_readable"]
    too_long = get(f"{path}/{found[sent - 1]['row_version']}")
    assert too_long["problem"] == "the headers have more than 1,048,576 characters"
    assert len(too_long["raw_headers"]) == 100_000
    good = post(path, {"limit": 200, "header": {"name": "NServiceBus.CorrelationId", "value": "good"}})
    assert len(good["messages"]) == 100
    failed = path.replace(f"queues/{queue_name}/messages", "failures")
    groups = post(failed, {"queue": queue_name, "group_by": "exception_type"})
    assert groups["messages"] == sent + 100
    assert len(json.dumps(groups)) < 1_000_000
