"""A made-up action and a made-up grouping: one entry in a table, and every place that people use has it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.operators import SqlQueueFailedMessagesOperator, metrics
from airflow_sqlqueue.queue.errors.actions import ACTIONS, Action
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS
from tests.airflow.test_return_to_source import error
from tests.made_up import LEND, SIZE

__all__ = ["error"]


PROGRAM = """
import json, sys
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS
from tests.made_up import LEND, SIZE
ACTIONS["lend"], GROUPINGS["size"] = LEND, SIZE
from airflow_sqlqueue.cli import main
main()
"""


@pytest.fixture
def lend(monkeypatch: pytest.MonkeyPatch) -> Action:
    monkeypatch.setitem(ACTIONS, "lend", LEND)
    # It is made from the table when it is imported.
    monkeypatch.setattr(metrics, "COUNTERS", metrics.COUNTERS | {"lend.messages"})
    return LEND


def test_an_added_action_is_one_of_the_client_and_of_the_operator(
    lend: Action, hook: SqlQueueHook, queue_name: str, error: str, context: Any
) -> None:
    done = hook.client.errors.act("lend", error, to_queue=queue_name, filters={"kind": "failed"})
    assert (done.messages, done.left) == (1, {"not there, or locked by others": 2})
    operator = SqlQueueFailedMessagesOperator(
        task_id="lend", action="lend", queue_name=error, to_queue=queue_name, filters={"kind": "failed"}
    )
    assert operator.execute(context())["destinations"] == {f"{queue_name}@[dbo]@[sqlqueue]": 1}
    with pytest.raises(ConfigurationError, match="needs to_queue"):
        SqlQueueFailedMessagesOperator(task_id="lend", action="lend", all_messages=True)


def test_an_added_action_and_an_added_grouping_are_on_the_command_line(
    hook: SqlQueueHook, queue_name: str, error: str, server: Any
) -> None:
    def sqlqueue(*arguments: str) -> Any:
        command = [sys.executable, "-c", PROGRAM, *arguments, "--url", server.url("sqlqueue"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    groups = sqlqueue("errors", error, "--by", "size")["items"]
    assert sum(group["messages"] for group in groups) == 4
    assert {group["size"] for group in groups} == {"large"}
    assert sqlqueue("lend", error, queue_name, "--all", "--dry-run")["messages"] == 4
    assert sqlqueue("lend", error, queue_name, "--all")["messages"] == 1


def test_an_added_grouping_is_a_key_and_a_filter_of_the_client(
    hook: SqlQueueHook, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_sqlqueue.queue.errors.groupings import group_name

    with pytest.raises(ConfigurationError, match="grouped by 'size'"):
        hook.client.errors.triage(error, by=["size"])
    monkeypatch.setitem(GROUPINGS, "size", SIZE)
    (group,) = hook.client.errors.triage(error, by=["size"]).groups
    assert (group.values, group.messages) == ({"size": "large"}, 4)
    done = hook.client.errors.triage(error, filters={"group": group_name("size", "large")})
    assert done.matched == 4


@pytest.mark.parametrize(
    ("action", "inputs", "says"),
    [
        ("burn", {}, "no action 'burn'"),
        ("archive", {"to_queue": "x"}, "'archive' takes no to_queue"),
        ("park", {}, "'park' needs to_queue"),
        ("delete", {}, "confirm that they may be lost"),
        ("purge_archive", {"reason": "x", "confirm": True}, "takes no reason"),
        ("return", {"confirm": True}, "takes no confirm"),
    ],
)
def test_inputs_that_an_action_does_not_have_or_lacks_are_refused(
    action: str, inputs: dict[str, Any], says: str, connection: Any
) -> None:
    """When the DAG is read, and by the client before it connects."""
    with pytest.raises(ConfigurationError, match=says):
        SqlQueueFailedMessagesOperator(task_id="t", action=action, all_messages=True, **inputs)
    hook = SqlQueueHook(connection(host="127.0.0.1", port=1))
    with pytest.raises(ConfigurationError, match=says):
        hook.client.errors.act(action, "error", all_messages=True, **inputs)
