"""Failures in groups, and what the buttons do: a preview that counts, a signed order, a run that does it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.queue.errors.failure_headers import EDIT_OF
from tests.airflow.plugin.actions import conf_of, execute

pytestmark = pytest.mark.airflow

CONNECTION = "api/connections/sqlqueue_default"
ACTIONS = f"{CONNECTION}/actions"
SECRET = "what the exception says"


@pytest.fixture
def error_queue(hook: SqlQueueHook) -> Iterator[str]:
    name = f"test.{uuid.uuid4().hex[:12]}.error"
    hook.create_queue(name)
    yield name
    hook.client.run_sql(f"DROP TABLE IF EXISTS {hook.client.resolve(name).qualified_name}")


def failed(queue: str, exception: str, hour: int = 12, number: int = 0) -> Message:
    headers = {
        HeaderNames.MESSAGE_ID: f"{exception}-{number}",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.OrderPlaced, Shop",
        HeaderNames.EXCEPTION_TYPE: exception,
        HeaderNames.EXCEPTION_MESSAGE: SECRET,
        HeaderNames.FAILED_Q: queue,
        HeaderNames.TIME_OF_FAILURE: f"2026-01-01 {hour:02}:30:00:000000 Z",
    }
    return Message(headers, b"the body")


@pytest.fixture
def failures(hook: SqlQueueHook, queue_name: str, error_queue: str) -> str:
    """Three messages of one exception, in two hours, two of another, and one that failed nowhere."""
    lost = [failed(queue_name, "Lost", hour, hour) for hour in (12, 12, 14)]
    broken = [failed(queue_name, "Broken", number=number) for number in range(2)]
    hook.send(error_queue, [*lost, *broken, Message({HeaderNames.EXCEPTION_TYPE: "Broken"})])
    return error_queue


def run(dag: Any, run_id: str, **changed: Any) -> list[Any]:
    return execute(dag, run_id, {**conf_of(run_id), **changed})


def groups(post: Any, error_queue: str, by: str) -> dict[str | None, Any]:
    answer = post(f"{CONNECTION}/failures", {"queue": error_queue, "group_by": by})
    assert answer["is_complete"] is True
    assert answer["messages"] == sum(group["messages"] for group in answer["groups"])
    return {group["label"]: group for group in answer["groups"]}


def test_failures_are_grouped_with_their_hours(post: Any, failures: str) -> None:
    by_exception = groups(post, failures, "exception_type")
    assert {label: group["messages"] for label, group in by_exception.items()} == {"Lost": 3, "Broken": 3}
    lost = by_exception["Lost"]
    assert lost["first"] == "2026-01-01T12:30:00+00:00"
    assert lost["histogram"] == [["2026-01-01T12:00:00+00:00", 2], ["2026-01-01T14:00:00+00:00", 1]]
    assert {label: g["messages"] for label, g in groups(post, failures, "message_type").items()} == {
        "Shop.OrderPlaced": 5,
        None: 1,
    }
    assert set(groups(post, failures, "hour")) == {"2026-01-01T12:00Z", "2026-01-01T14:00Z", None}
    assert len(groups(post, failures, "endpoint")) == 2


def test_a_group_beyond_the_largest_ones_is_counted_and_found(post: Any, failures: str) -> None:
    wanted = {"queue": failures, "group_by": "hour", "limit": 1}
    first, *_, last = groups(post, failures, "hour").values()
    answer = post(f"{CONNECTION}/failures", wanted)
    assert ([group["label"] for group in answer["groups"]], answer["all_groups"]) == ([first["label"]], 3)
    assert post(f"{CONNECTION}/failures", {**wanted, "group": last["group"]})["groups"] == [last]


def test_the_members_of_a_group_are_listed(post: Any, failures: str) -> None:
    group = groups(post, failures, "exception_type")["Lost"]
    path = f"{CONNECTION}/queues/{failures}/messages"
    wanted = {"group_by": "exception_type", "group": group["group"], "limit": 2}
    first = post(path, wanted)
    second = post(path, {**wanted, "after": first["next"]})
    found = [each["message_id"] for each in first["messages"] + second["messages"]]
    assert sorted(found) == ["Lost-12", "Lost-12", "Lost-14"]


def test_an_error_queue_that_is_not_there_is_a_sentence(post: Any, live: str) -> None:
    answer = post(f"{CONNECTION}/failures", {"queue": "nowhere"})
    assert "does not exist" in answer["problem"]


def test_a_group_is_counted_confirmed_and_returned(
    post: Any, get: Any, page: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any, logged: Any
) -> None:
    group = groups(post, failures, "exception_type")["Broken"]
    wanted = {"action": "return", "queue": failures, "group_by": "exception_type", "group": group["group"]}
    preview = post(f"{ACTIONS}/preview", wanted)
    assert preview["messages"] == 2
    assert "2 to " in preview["sentence"]
    assert "1 would stay, no failed queue" in preview["sentence"]
    assert hook.depth(failures).messages == 6
    assert page("POST", ACTIONS, json={"token": preview["token"], "count": 3}).status_code == 409
    started = post(ACTIONS, {"token": preview["token"], "count": 2})
    assert started["dag_id"] == "sqlqueue_actions"
    waiting = get(f"{ACTIONS}/{started['run_id']}")
    assert waiting == {"state": "queued", "done": 0, "of": 2, "sentence": None}
    row = logged()[0]
    assert (row.event, row.owner, row.run_id) == ("sqlqueue_return", "vera", started["run_id"])
    assert json.loads(row.extra)["messages"] == 2
    # Confirmed twice, it runs once, however its signature is written.
    for token in (preview["token"], f"{preview['token']}="):
        assert page("POST", ACTIONS, json={"token": token, "count": 2}).status_code == 409
    # One more fails meanwhile: it was not confirmed.
    hook.send(failures, [failed(queue_name, "Broken", number=9)])
    said = run(dag, started["run_id"])[-1]
    assert (said["done"], said["of"]) == (2, 2)
    assert "2 messages were returned" in said["sentence"]
    assert hook.depth(queue_name).messages == 2
    assert hook.depth(failures).messages == 5
    # Cleared, the run meets only what was counted.
    assert run(dag, started["run_id"])[-1]["done"] == 0
    assert hook.depth(failures).messages == 5


def test_an_order_does_not_live_for_ever(
    post: Any, get: Any, failures: str, dag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.providers.common.compat.sdk import AirflowFailException
    from airflow.utils.session import create_session

    from airflow_sqlqueue.plugin import action_tokens

    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    wanted = {"action": "return", "queue": failures, "row_versions": [first["row_version"]]}
    started = post(ACTIONS, {"token": post(f"{ACTIONS}/preview", wanted)["token"], "count": 1})
    monkeypatch.setitem(action_tokens.MAX_SECONDS, "order", -1)
    with pytest.raises(AirflowFailException, match="order is too old"):
        run(dag, started["run_id"])
    with create_session() as session:
        session.query(DagRun).filter(DagRun.run_id == started["run_id"]).update({"state": "failed"})
    assert "failed before it could report a reason" in get(f"{ACTIONS}/{started['run_id']}")["sentence"]


def test_a_selection_is_redirected(
    post: Any, page: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any
) -> None:
    listed = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    chosen = [listed[0]["row_version"], listed[5]["row_version"]]
    wanted = {"action": "redirect", "queue": failures, "row_versions": chosen, "to_queue": queue_name}
    preview = post(f"{ACTIONS}/preview", wanted)
    assert preview["messages"] == 2
    started = post(ACTIONS, {"token": preview["token"], "count": 2})
    run(dag, started["run_id"])
    assert hook.depth(queue_name).messages == 2


def test_a_token_confirms_only_the_action_that_was_previewed(
    post: Any, page: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.plugin import action_tokens

    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    wanted = {"action": "return", "queue": failures, "row_versions": [first["row_version"]]}
    token = post(f"{ACTIONS}/preview", wanted)["token"]

    def refused(token: str, user: str = "vera") -> str:
        answer = page("POST", ACTIONS, json={"token": token, "count": 1}, user=user)
        assert answer.status_code == 409, answer.text
        return str(answer.json()["detail"])

    assert "another user" in refused(token, user="ulf")
    assert "not signed" in refused(f"{token}x")
    assert "not signed" in refused("")
    with monkeypatch.context() as later:
        later.setitem(action_tokens.MAX_SECONDS, "preview", -1)
        assert "too old" in refused(token)
    hook.queue(failures).take([first["row_version"]])
    assert "has changed" in refused(token)


@pytest.mark.parametrize(
    "wanted",
    [
        {"action": "burn"},
        {"action": "return", "queue": "error"},
        {"action": "return", "queue": "error", "row_versions": []},
        {"action": "return", "row_versions": [1]},
        {"action": "return", "queue": "error", "row_versions": [1], "to_queue": "elsewhere"},
        {"action": "return", "queue": "error", "row_versions": [1], "group_by": "hour", "group": "0" * 32},
        {"action": "redirect", "queue": "error", "row_versions": [1]},
        {"action": "return", "queue": "error", "group_by": "hour", "group": "not a hash"},
        {"action": "return", "queue": "error", "row_versions": [1], "body": "new"},
        {"action": "return", "queue": "error", "row_versions": [1], "max_messages": 0},
        {"action": "return", "queue": "error", "row_versions": [1], "rate": 0},
        {"action": "return", "queue": "error", "row_versions": [1], "rate": "inf"},
        {"action": "return", "queue": "error", "row_versions": [1], "reason": "none is kept"},
        {"action": "archive", "queue": "error", "row_versions": [1], "reason": "x" * 501},
        {"action": "archive", "queue": "error", "row_versions": [1], "to_queue": "elsewhere"},
        {"action": "park", "queue": "error", "row_versions": [1]},
        {"action": "restore", "row_versions": [1]},
        {"action": "purge_archive", "queue": "error"},
        {"action": "edit_and_return", "queue": "error", "row_versions": [1]},
        {"action": "requeue"},
        {"action": "requeue", "batch_id": "1"},
    ],
)
def test_a_request_that_is_no_action_is_refused(page: Any, live: str, wanted: dict[str, Any]) -> None:
    answer = page("POST", f"{ACTIONS}/preview", json=wanted)
    assert answer.status_code == 400, answer.text


def test_a_run_takes_no_order_but_the_pages(
    post: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any
) -> None:
    """The right to run DAGs does not allow actions on queues, or a second use of an order."""
    from airflow.providers.common.compat.sdk import AirflowFailException

    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    wanted = {"action": "return", "queue": failures, "row_versions": [first["row_version"]]}
    preview = post(f"{ACTIONS}/preview", wanted)
    started = post(ACTIONS, {"token": preview["token"], "count": 1})
    conf = conf_of(started["run_id"])
    for text, run_id in ((conf["order"], "manual__1"), (preview["token"], started["run_id"]), ("", started["run_id"])):
        with pytest.raises(AirflowFailException):
            execute(dag, run_id, {**conf, "order": text})
    assert hook.depth(queue_name).messages == 0
    # What else the configuration says means nothing.
    run(dag, started["run_id"], row_versions=[2, 3], connection="another")
    assert hook.depth(queue_name).messages == 1


def test_runs_and_logs_hold_no_text_of_a_message(post: Any, failures: str, dag: Any, logged: Any) -> None:
    group = groups(post, failures, "exception_type")["Lost"]
    wanted = {"action": "return", "queue": failures, "group_by": "exception_type", "group": group["group"]}
    preview = post(f"{ACTIONS}/preview", wanted)
    started = post(ACTIONS, {"token": preview["token"], "count": 3})
    conf = json.dumps(conf_of(started["run_id"]))
    pushed = json.dumps(run(dag, started["run_id"]))
    audit = json.dumps([row.extra for row in logged()[:3]])
    for text in (conf, pushed, audit, preview["sentence"]):
        assert "Lost" not in text
        assert SECRET not in text


def test_without_the_dag_nothing_starts(post: Any, get: Any, page: Any, failures: str, dag: Any, logged: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    assert get("api/session")["actions"] == {"available": True, "reason": None, "dag_id": "sqlqueue_actions"}
    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    wanted = {"action": "return", "queue": failures, "row_versions": [first["row_version"]]}
    token = post(f"{ACTIONS}/preview", wanted)["token"]
    for change, reason in (({"is_paused": True}, "paused"), ({"is_stale": True, "is_paused": False}, "no DAG")):
        with create_session() as session:
            for name, value in change.items():
                setattr(session.get(DagModel, "sqlqueue_actions"), name, value)
        shown = get("api/session")["actions"]
        assert shown["available"] is False
        assert reason in shown["reason"]
        before = len(logged())
        answer = page("POST", ACTIONS, json={"token": token, "count": 1})
        assert (answer.status_code, reason in answer.json()["detail"]) == (409, True)
        assert len(logged()) == before


def test_the_progress_is_that_of_the_connections_own_runs(
    page: Any, get: Any, post: Any, failures: str, dag: Any
) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    wanted = {"action": "return", "queue": failures, "row_versions": [first["row_version"]]}
    run_id = post(ACTIONS, {"token": post(f"{ACTIONS}/preview", wanted)["token"], "count": 1})["run_id"]
    for value in run(dag, run_id):
        XComModel.set("progress", value, dag_id="sqlqueue_actions", task_id="act", run_id=run_id)
    assert get(f"{ACTIONS}/{run_id}")["done"] == 1
    assert "1 message was returned" in get(f"{ACTIONS}/{run_id}")["sentence"]
    with create_session() as session:
        from airflow.models.dagrun import DagRun
        from sqlalchemy import select

        session.scalar(select(DagRun).where(DagRun.run_id == run_id)).conf = {"connection": "another"}
    assert page("GET", f"{ACTIONS}/{run_id}").status_code == 404
    assert page("GET", f"{ACTIONS}/nothing").status_code == 404


def test_a_message_is_edited_at_once(
    post: Any, page: Any, failures: str, queue_name: str, hook: SqlQueueHook, logged: Any
) -> None:
    (first, *_) = post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]
    path = f"{CONNECTION}/queues/{failures}/messages/{first['row_version']}/edit"
    changed = {"headers": {"Shop.Fixed": "a new value", HeaderNames.CORRELATION_ID: None}, "body": "a new body"}
    for unread in ({f"h{n}": "" for n in range(10_001)}, {"h": "x" * 1_048_576}):
        refused = page("POST", path, json={"headers": unread})
        assert (refused.status_code, "bytes" in refused.text or "malformed" in refused.text) == (400, True)
    taken = page("POST", path, json={"headers": {HeaderNames.MESSAGE_ID: "mine"}})
    assert (taken.status_code, "is set by the edit" in taken.json()["detail"]) == (400, True)
    dry = post(path, changed)
    assert "would go to" in dry["sentence"]
    assert dry["sentence"].endswith(", with 2 headers changed and a new body.")
    assert post(path, {"headers": {"Shop.Fixed": None}})["sentence"].endswith(", with 1 header changed.")
    assert hook.depth(queue_name).messages == 0
    before = len(logged())
    done = post(path, {**changed, "dry_run": False})
    assert "went to" in done["sentence"]
    (message,) = hook.receive(queue_name, 5)
    headers = decode_headers(message.headers).values
    assert message.body == b"a new body"
    assert headers["Shop.Fixed"] == "a new value"
    assert headers[EDIT_OF] == first["message_id"]
    row, *_ = logged()
    assert len(logged()) == before + 1
    assert (row.event, row.owner) == ("sqlqueue_edit", "vera")
    assert "a new" not in row.extra
    assert page("POST", path, json={**changed, "dry_run": False}).status_code == 404
    assert page("POST", path, json={}).status_code == 400
