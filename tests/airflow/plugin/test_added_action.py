"""A made-up action and a made-up grouping on the page: one entry in a table, and the page offers and does it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import plugin
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.plugin.batch_actions import BATCH_ACTIONS
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS
from tests.airflow.plugin.test_actions import ACTIONS as PATH
from tests.airflow.plugin.test_actions import CONNECTION, error_queue, failures, run
from tests.made_up import LEND, SIZE

__all__ = ["error_queue", "failures"]

pytestmark = pytest.mark.airflow

STATIC = Path(plugin.__path__[0], "static")


def test_an_added_action_is_offered_previewed_and_done(
    get: Any,
    post: Any,
    page: Any,
    failures: str,
    queue_name: str,
    hook: SqlQueueHook,
    dag: Any,
    logged: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [each["row_version"] for each in post(f"{CONNECTION}/queues/{failures}/messages", {})["messages"]]
    wanted = {"action": "lend", "queue": failures, "row_versions": rows, "to_queue": queue_name}
    assert page("POST", f"{PATH}/preview", json=wanted).status_code == 400
    monkeypatch.setitem(ACTIONS, "lend", LEND)
    (offered,) = [each for each in get("api/session")["offered"] if each["name"] == "lend"]
    assert (offered["label"], offered["on"], offered["danger"]) == ("Lend", "failed", False)
    assert [(field["name"], field["required"]) for field in offered["fields"]] == [("to_queue", True)]
    preview = post(f"{PATH}/preview", wanted)
    assert (preview["messages"], preview["label"]) == (6, "Lend 6 messages")
    assert "6 messages of" in preview["sentence"]
    assert "would be lent: 6 to" in preview["sentence"]
    run_id = post(PATH, {"token": preview["token"], "count": 6})["run_id"]
    assert logged()[0].event == "sqlqueue_lend"
    said = run(dag, run_id)[-1]
    assert (said["done"], said["of"]) == (1, 6)
    assert "1 message was lent; 5 left: not there, or locked by others." in said["sentence"]
    assert hook.depth(queue_name).messages == 1
    for missing in ({}, {"to_queue": queue_name, "reason": "none is kept"}):
        asked = {"action": "lend", "queue": failures, "row_versions": rows, **missing}
        assert page("POST", f"{PATH}/preview", json=asked).status_code == 400


def test_an_added_grouping_is_offered_and_groups(
    get: Any, post: Any, page: Any, failures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"queue": failures, "group_by": "size"}
    assert page("POST", f"{CONNECTION}/failures", json=wanted).status_code == 400
    monkeypatch.setitem(GROUPINGS, "size", SIZE)
    assert {"key": "size", "label": "Size", "archived": False} in get("api/session")["groupings"]
    (group,) = post(f"{CONNECTION}/failures", wanted)["groups"]
    assert (group["label"], group["messages"]) == ("large", 6)
    of_group = {"group_by": "size", "group": group["group"]}
    assert len(post(f"{CONNECTION}/queues/{failures}/messages", of_group)["messages"]) == 6
    asked = {"action": "delete", "queue": failures, **of_group}
    assert post(f"{PATH}/preview", asked)["messages"] == 6


def test_the_script_has_no_list_of_its_own() -> None:
    """What it names is that a message came from a group at all; names of actions and groupings come from the API."""
    texts = {path.name: path.read_text("utf-8") for path in STATIC.glob("*.js")}
    names = {*ACTIONS, *BATCH_ACTIONS, *(name for name in GROUPINGS if "_" in name)} - {"return", "archive", "delete"}
    found = {(file, name) for file, text in texts.items() for name in names if re.search(rf"[\"'`]{name}[\"'`]", text)}
    # The grouping that is shown first.
    assert found == {("failures.js", "exception_type")}
