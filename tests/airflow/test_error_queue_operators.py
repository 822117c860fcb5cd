"""Operators that archive, restore, park and delete failed messages, on a server."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.operators import SqlQueueFailedMessagesOperator
from tests.airflow.test_return_to_source import SECRET, error

__all__ = ["error"]

ALL: Any = {"all_messages": True}


def test_archive_and_restore(hook: SqlQueueHook, error: str, context: Any) -> None:
    archive = SqlQueueFailedMessagesOperator(
        action="archive",
        task_id="archive",
        queue_name=error,
        filters={"endpoint": "{{ endpoint }}"},
        reason="{{ endpoint }} is gone",
        max_messages="{{ 1 + 0 }}",
        error_queue_options={"rate": "{{ 1000 }}"},
    )
    archive.render_template_fields({"endpoint": "Sales"})
    done = archive.execute(context())
    assert (done["messages"], done["complete"], done["warnings"]) == (1, False, [])
    (group,) = hook.client.errors.archived.triage(error, by=["reason", "archived_by"]).groups
    assert group.values["reason"] == "Sales is gone"
    running = context()["ti"]
    assert group.values["archived_by"] == f"{running.dag_id} {running.run_id} {running.task_id} -1"
    restore = SqlQueueFailedMessagesOperator(action="restore", task_id="restore", queue_name=error, **ALL)
    assert restore.execute(context())["messages"] == 1
    assert hook.depth(error).messages == 4


def test_park(hook: SqlQueueHook, queue_name: str, error: str, context: Any) -> None:
    park = SqlQueueFailedMessagesOperator(
        action="park", task_id="p", queue_name=error, to_queue="{{ to }}", filters={"kind": "failed"}
    )
    park.render_template_fields({"to": queue_name})
    assert park.execute(context())["messages"] == 3
    assert hook.client.errors.triage(queue_name).matched == 3
    assert park.lineage is not None
    assert [flow.messages for flow in (*park.lineage.inputs, *park.lineage.outputs)] == [3, 3]


def test_deletions(hook: SqlQueueHook, error: str, context: Any) -> None:
    counted = SqlQueueFailedMessagesOperator(action="delete", task_id="d", queue_name=error, only_count=True, **ALL)
    assert (counted.execute(context())["messages"], counted.lineage) == (4, None)
    some = SqlQueueFailedMessagesOperator(
        action="delete", task_id="d", queue_name=error, filters={"endpoint": "Sales"}, confirm=True
    )
    assert (some.execute(context())["messages"], hook.depth(error).messages) == (2, 2)
    SqlQueueFailedMessagesOperator(action="archive", task_id="a", queue_name=error, **ALL).execute(context())
    old = SqlQueueFailedMessagesOperator(
        action="purge_archive", task_id="o", queue_name=error, older_than="{{ age }}", confirm=True
    )
    old.render_template_fields({"age": 3600})
    assert old.execute(context())["messages"] == 0
    rest = SqlQueueFailedMessagesOperator(action="purge_archive", task_id="r", queue_name=error, confirm=True, **ALL)
    assert rest.execute(context())["messages"] == 2


def test_xcom_and_log_hold_no_text_of_a_message(
    error: str, context: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    with caplog.at_level(logging.DEBUG):
        done = SqlQueueFailedMessagesOperator(action="archive", task_id="a", queue_name=error, **ALL).execute(context())
        back = SqlQueueFailedMessagesOperator(action="restore", task_id="r", queue_name=error, **ALL).execute(context())
    shown = caplog.text + "".join(capfd.readouterr())
    assert "4 messages of" in shown
    assert SECRET not in shown + json.dumps([done, back])
