"""What the page's buttons do to failed messages besides the return: the first ones, archive, restore, park, delete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.plugin.failure_actions import FailureAction
from airflow_sqlqueue.queue.errors import actions
from tests.airflow.plugin.test_actions import ACTIONS, CONNECTION, SECRET, error_queue, failed, failures, groups, run

__all__ = ["error_queue", "failures"]

pytestmark = pytest.mark.airflow


def group_of(post: Any, queue: str, label: str, **more: Any) -> dict[str, Any]:
    """The part of a request that names a group by its exception."""
    answer = post(f"{CONNECTION}/failures", {"queue": queue, "group_by": "exception_type", **more})
    (group,) = (group for group in answer["groups"] if group["label"] == label)
    return {"queue": queue, "group_by": "exception_type", "group": group["group"]}


def confirm(post: Any, wanted: dict[str, Any], messages: int) -> tuple[str, str]:
    """Preview and confirm; return the run and the preview's sentence."""
    preview = post(f"{ACTIONS}/preview", wanted)
    assert preview["messages"] == messages, preview
    return post(ACTIONS, {"token": preview["token"], "count": messages})["run_id"], preview["sentence"]


def test_the_page_offers_each_action_where_it_belongs() -> None:
    """By a button, on failed or archived messages, with a warning, and at a rate."""
    offered = {name: FailureAction(action).to_dict() for name, action in actions.ACTIONS.items()}
    found = {name: (each["label"], each["on"], each["danger"], bool(each["pace"])) for name, each in offered.items()}
    assert found == {
        "return": ("Return", "failed", False, True),
        "redirect": ("Redirect", "failed", False, False),
        "park": ("Park", "failed", False, False),
        "archive": ("Archive", "failed", False, False),
        "delete": ("Delete", "failed", True, False),
        "restore": ("Restore", "archived", False, False),
        "purge_archive": ("Delete", "archived", True, False),
    }


def test_the_first_of_a_group_go_back_at_a_rate(
    post: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any
) -> None:
    wanted = {"action": "return", **group_of(post, failures, "Lost"), "max_messages": 2, "rate": 500}
    run_id, sentence = confirm(post, wanted, 2)
    assert "2 messages of" in sentence
    assert "at most 500 a second" in sentence
    (first, *_) = hook.queue(failures).peek(1)
    assert run(dag, run_id)[-1]["done"] == 2
    assert hook.depth(queue_name).messages == 2
    assert first.row_version not in [message.row_version for message in hook.queue(failures).peek()]
    # Cleared, the run does not take the next two.
    assert run(dag, run_id)[-1]["done"] == 0


def test_archive_and_restore(
    post: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any, logged: Any
) -> None:
    wanted = {"action": "archive", **group_of(post, failures, "Broken"), "reason": "told the bank"}
    run_id, sentence = confirm(post, wanted, 3)
    assert "3 messages of" in sentence
    assert "would be archived" in sentence
    hook.send(failures, [failed(queue_name, "Broken", number=9)])
    assert run(dag, run_id)[-1]["sentence"] == "3 messages were archived."
    assert hook.depth(failures).messages == 4
    details = json.loads(logged()[0].extra)
    assert (logged()[0].event, details["reason"], details["messages"]) == ("sqlqueue_archive", "told the bank", 3)
    found = post(f"{CONNECTION}/failures", {"queue": failures, "archived": True, "group_by": "reason"})
    (group,) = found["groups"]
    assert (group["label"], group["messages"]) == ("told the bank", 3)
    assert (group["archived"]["by"], group["archived"]["reason"]) == ("vera", "told the bank")
    by_reason = {"queue": failures, "group_by": "reason", "group": group["group"]}
    run_id, sentence = confirm(post, {"action": "restore", **by_reason, "max_messages": 2}, 2)
    assert "would be restored" in sentence
    assert run(dag, run_id)[-1]["sentence"] == "2 messages were restored."
    assert hook.depth(failures).messages == 6
    # Cleared, the run does not restore the third.
    assert run(dag, run_id)[-1]["done"] == 0
    run_id, sentence = confirm(post, {"action": "purge_archive", **by_reason}, 1)
    assert "from the archive for good" in sentence
    assert "1 message was deleted from the archive" in run(dag, run_id)[-1]["sentence"]
    assert post(f"{CONNECTION}/failures", {"queue": failures, "archived": True})["groups"] == []


def test_park(post: Any, page: Any, failures: str, queue_name: str, hook: SqlQueueHook, dag: Any) -> None:
    wanted = {"action": "park", **group_of(post, failures, "Lost"), "to_queue": queue_name}
    run_id, sentence = confirm(post, wanted, 3)
    assert f"3 to {hook.client.find(queue_name).canonical}" in sentence
    assert "3 messages were parked" in run(dag, run_id)[-1]["sentence"]
    assert set(groups(post, queue_name, "exception_type")) == {"Lost"}
    here = {**wanted, **group_of(post, failures, "Broken"), "to_queue": failures}
    assert "already" in page("POST", f"{ACTIONS}/preview", json=here).json()["detail"]


def test_delete(post: Any, page: Any, failures: str, hook: SqlQueueHook, dag: Any) -> None:
    wanted = {"action": "delete", **group_of(post, failures, "Broken")}
    preview = post(f"{ACTIONS}/preview", wanted)
    assert (preview["messages"], hook.depth(failures).messages) == (3, 6)
    assert "would be deleted for good" in preview["sentence"]
    assert page("POST", ACTIONS, json={"token": preview["token"], "count": 2}).status_code == 409
    run_id = post(ACTIONS, {"token": preview["token"], "count": 3})["run_id"]
    assert "3 messages were deleted" in run(dag, run_id)[-1]["sentence"]
    assert hook.depth(failures).messages == 3


def test_an_archive_that_does_not_exist_yet_is_empty(post: Any, hook: SqlQueueHook, failures: str) -> None:
    assert post(f"{CONNECTION}/failures", {"queue": failures, "archived": True})["groups"] == []
    preview = post(f"{ACTIONS}/preview", {"action": "restore", "queue": failures, "row_versions": [1]})
    assert (preview["messages"], preview["possible"]) == (0, False)


def test_previews_and_runs_hold_no_text_of_a_message(post: Any, failures: str, hook: SqlQueueHook, dag: Any) -> None:
    hook.send(failures, [Message("{" + SECRET)])
    runs = 0
    for action in ("archive", "restore", "archive", "purge_archive"):
        archived = action != "archive"
        answer = post(f"{CONNECTION}/failures", {"queue": failures, "archived": archived, "group_by": "kind"})
        for group in answer["groups"]:
            wanted = {"action": action, "queue": failures, "group_by": "kind", "group": group["group"]}
            run_id, sentence = confirm(post, wanted, group["messages"])
            pushed = json.dumps(run(dag, run_id))
            assert SECRET not in sentence + pushed
            assert "Lost" not in sentence + pushed
            runs += 1
    assert runs == 12


def test_another_receiver_is_warned_of(
    post: Any, failures: str, dag: Any, monkeypatch: pytest.MonkeyPatch, hook: SqlQueueHook
) -> None:
    from airflow_sqlqueue.queue.errors import other_receivers

    monkeypatch.setattr(other_receivers, "other_receivers", lambda session, queue: ["a program on HOST"])
    run_id, sentence = confirm(post, {"action": "archive", **group_of(post, failures, "Lost")}, 3)
    assert "receives from" in sentence
    assert "ServicePulse" in run(dag, run_id)[-1]["sentence"]
