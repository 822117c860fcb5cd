"""The provider of common-messaging: triggers of ``MessageQueueTrigger``, and the cost of discovery."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger, SqlQueueMessageEventTrigger
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS
from tests.airflow.versions import needs

msg_queue = pytest.importorskip("airflow.providers.common.messaging.triggers.msg_queue")

HEAVY = {"pyodbc", "pyarrow", "pyspark", "airflow_sqlqueue.hooks.sqlqueue", "airflow_sqlqueue.client"}


def test_the_scheme_is_a_depth_trigger_with_its_arguments() -> None:
    trigger = msg_queue.MessageQueueTrigger(
        scheme="mssql+queue", queue_name="orders", wait_for={"min_messages": 100}, repeat_interval=10
    )
    ours = SqlQueueDepthEventTrigger(queue_name="orders", wait_for={"min_messages": 100}, repeat_interval=10)
    assert trigger.serialize() == ours.serialize()
    Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])


def test_a_trigger_for_assets_refuses_a_condition_that_signals_no_level() -> None:
    with pytest.raises(ConfigurationError, match="no max_messages"):
        SqlQueueDepthEventTrigger(queue_name="orders", wait_for={"max_messages": 0})


@needs(SHARED_STREAMS)
def test_another_scheme_is_the_trigger_on_messages() -> None:
    options = {"queue_name": "orders", "message_types": ["Shop.B", "Shop.A"], "headers": ["Shop.List"]}
    trigger = msg_queue.MessageQueueTrigger(scheme="mssql+queue+messages", **options)
    assert trigger.serialize() == SqlQueueMessageEventTrigger(**options).serialize()


@needs(SHARED_STREAMS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"message_types": "Shop.A"},
        {"message_types": []},
        {"message_types": ["Shop.A", "Shop.B, Shop"]},
        {"headers": "Shop.List"},
        {"max_held": 0},
        {"max_held": 1001},
        {"poll_interval": 0},
    ],
)
def test_options_of_a_trigger_on_messages_that_cannot_be_used(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        SqlQueueMessageEventTrigger(queue_name="orders", **wrong)


def test_airflow_lists_them(airflow: Any) -> None:
    listed = airflow("providers", "queues", "-o", "plain")
    assert "airflow_sqlqueue.queues.SqlQueueMessagesProvider" in listed
    assert "airflow_sqlqueue.queues.SqlQueueMessageQueueProvider" in listed


def run(program: str) -> str:
    """The last line that the program prints, and the warnings about this package."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    warnings = [line for line in done.stderr.splitlines() if "sqlqueue" in line and "[info " not in line]
    return "".join([done.stdout.splitlines()[-1], *warnings])


def test_neither_finding_it_nor_a_dag_with_a_watcher_loads_a_driver() -> None:
    program = (
        f"import sys, airflow_sqlqueue.queues; heavy = {HEAVY!r};"
        "found = sorted((heavy | {'airflow_sqlqueue.triggers'}) & sys.modules.keys());"
        "from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger as T; T(queue_name='q');"
        "print([*found, *sorted(heavy & sys.modules.keys())])"
    )
    assert run(program) == "[]"


def test_without_common_messaging_airflow_leaves_it_out_in_silence() -> None:
    program = (
        "import sys; sys.modules['airflow.providers.common.messaging.providers.base_provider'] = None;"
        "from airflow.providers_manager import ProvidersManager; manager = ProvidersManager();"
        "manager.initialize_providers_queues();"
        "print([name for name in manager.queue_class_names if 'sqlqueue' in name])"
    )
    assert run(program) == "[]"
