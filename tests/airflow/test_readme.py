"""What the README shows exists and works as it is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.cli.app import app
from airflow_sqlqueue.errors import QueueNotFoundError

README = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block(text: str) -> str:
    """The first block of Python that holds a text."""
    return next(found for found in BLOCKS if text in found)


def test_the_dag_can_be_built() -> None:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS[0], "README.md", "exec"), names)
    assert names["drain"].upstream_task_ids == {"wait"}
    assert names["drain"].downstream_task_ids == {"purge"}


def test_the_drain_into_a_table_can_be_built() -> None:
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
    from airflow_sqlqueue.server.settings import ConnectionSettings

    assert 'stage="table"' in block(".read_batch(spark, batch)")
    exec(compile(block(".read_batch(spark, batch)"), "README.md", "exec"), {})
    assert callable(SqlQueueHook.read_batch)
    assert callable(ConnectionSettings.from_url)


def test_the_transaction_does_what_it_says(live: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("def handle("), "README.md", "exec"), names)
    hook = names["hook"]
    for queue in ("orders", "billing"):
        hook.create_queue(queue)
    hook.send("orders", [names["Message"](body=b"order")])
    with pytest.raises(QueueNotFoundError):
        names["handle"]()
    assert (hook.depth("orders").messages, hook.depth("billing").messages) == (1, 0)
    hook.run("CREATE TABLE dbo.Archive (Body varbinary(max) NOT NULL)", autocommit=True)
    names["handle"]()
    assert (hook.depth("orders").messages, hook.depth("billing").messages) == (0, 1)
    assert hook.get_records("SELECT Body FROM dbo.Archive") == [(b"order",)]


def test_every_call_of_the_hook_exists() -> None:
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

    names: dict[str, Any] = {}
    exec(compile(block("def remind("), "README.md", "exec"), names)
    calls = re.findall(r"hook\.(\w+)\(", block("def remind("))
    assert calls == ["send_delayed", "publish", "request"]
    assert all(callable(getattr(SqlQueueHook, name)) for name in calls)


def test_every_class_of_the_table_exists() -> None:
    from airflow_sqlqueue import operators, sensors

    shown = re.findall(r"^\| `(SqlQueue\w+)`", README, re.MULTILINE)
    exported = {*operators.__all__, *sensors.__all__}
    assert set(shown) == {name for name in exported if name.startswith("SqlQueue")}


def test_every_command_exists() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    shown = set(re.findall(r"^sqlqueue ([\w-]+)", README, re.MULTILINE))
    shown |= set(re.search(r"# also: (.*)", README)[1].split(", "))  # type: ignore[index]
    assert shown == known


def test_the_local_server_is_a_context_manager() -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("FakeServer")], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("mssql://sa:")
