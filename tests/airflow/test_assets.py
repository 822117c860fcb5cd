"""Queues as assets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_sqlqueue.assets import convert_to_openlineage, create_asset
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.lineage import namespace_of
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueForwardOperator,
    SqlQueuePurgeOperator,
    SqlQueueSendOperator,
    drain,
)
from airflow_sqlqueue.versions.airflow import PARTITION_KEYS
from tests.airflow.versions import needs


def test_an_asset_has_the_parts_of_the_table() -> None:
    asset = create_asset(host="db1", database="Shop", table="odd/na me", port=1500, extra={"owner": "sales"})
    assert asset.uri == "mssql+queue://db1:1500/Shop/dbo/odd%2Fna%20me"
    assert asset.extra == {"owner": "sales"}
    dataset = convert_to_openlineage(asset, None)
    assert (dataset.namespace, dataset.name) == ("mssql://db1:1500", "Shop.dbo.odd/na me")


def test_a_uri_is_completed() -> None:
    assert Asset("mssql+queue://db1/Shop/dbo/audit").uri == "mssql+queue://db1:1433/Shop/dbo/audit"
    assert Asset("mssql+queue://db1/EXPRESS/Shop/dbo/audit").uri == "mssql+queue://db1/EXPRESS/Shop/dbo/audit"


def test_a_named_instance_is_part_of_its_queues_assets_and_datasets(connection: Any) -> None:
    hook = SqlQueueHook(connection(host=r"db1\EXPRESS"))
    asset = hook.asset("audit")
    assert asset.uri == "mssql+queue://db1/EXPRESS/shop/dbo/audit"
    assert asset.uri != create_asset(host="db1", database="shop", table="audit").uri
    dataset = convert_to_openlineage(asset, None)
    assert (dataset.namespace, dataset.name) == ("mssql://db1/EXPRESS", "shop.dbo.audit")
    assert namespace_of(hook.client.settings) == dataset.namespace
    info: Any = hook.get_openlineage_database_info(hook.connection)
    assert f"{info.scheme}://{info.authority}" == dataset.namespace


def test_a_host_of_ipv6_is_bracketed() -> None:
    asset = create_asset(host="::1", database="Shop", table="audit")
    assert asset.uri == "mssql+queue://[::1]:1433/Shop/dbo/audit"


@pytest.mark.parametrize(
    "uri",
    [
        "mssql+queue:///Shop/dbo/audit",
        "mssql+queue://db1/Shop/audit",
        "mssql+queue://db1/Shop//audit",
        "mssql+queue://db1:1500/EXPRESS/Shop/dbo/audit",
    ],
)
def test_a_uri_that_is_no_queues(uri: str) -> None:
    with pytest.raises(ValueError, match="A queue's URI names"):
        Asset(uri)


def test_a_uri_has_no_query() -> None:
    with pytest.raises(ValueError, match="A queue's URI has no query"):
        Asset("mssql+queue://db1/Shop/dbo/audit?limit=1")


def test_the_hook_makes_the_asset_of_an_address(hook: SqlQueueHook) -> None:
    settings = hook.client.settings
    uri = f"mssql+queue://{settings.host}:{settings.port}/sqlqueue/nsb/audit"
    assert hook.asset("audit@[nsb]").uri == uri
    routed = SqlQueueHook("sqlqueue_default", endpoint_schemas={"audit": "nsb"})
    assert routed.asset(endpoint="audit").uri == uri


@needs(PARTITION_KEYS)
@pytest.mark.parametrize("partition_by_batch", [False, True])
def test_the_partition_key_of_a_drains_event_is_its_batch(
    hook: SqlQueueHook, queue_name: str, context: Any, tmp_path: Any, partition_by_batch: bool
) -> None:
    asset = hook.asset(queue_name)
    hook.send(queue_name, [Message({}, b"x")])
    operator = SqlQueueDrainOperator(
        task_id="drain",
        queue_name=queue_name,
        staging=str(tmp_path),
        outlets=[asset],
        partition_by_batch=partition_by_batch,
    )
    outlet_events = OutletEventAccessors()
    drained = operator.execute({**context(task_id="drain"), "outlet_events": outlet_events})
    event = outlet_events[asset]
    assert event.extra["batch_id"] == drained["batch"]["batch_id"]
    assert event.partition_keys == ({event.extra["batch_id"]} if partition_by_batch else set())


def test_a_partition_key_takes_a_later_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "PARTITION_KEYS", replace(PARTITION_KEYS, is_available=False, installed="3.2.0"))
    with pytest.raises(ConfigurationError, match=r"partition_by_batch needs Airflow 3\.3 or later, and 3\.2\.0 is"):
        SqlQueueDrainOperator(task_id="t", queue_name="q", staging="/staging", partition_by_batch=True)


def test_events_have_the_counts(hook: SqlQueueHook, queue_name: str, context: Any, tmp_path: Any) -> None:
    hook.create_queue(f"{queue_name}.to")
    asset = hook.asset(queue_name)
    tasks = [
        SqlQueueSendOperator(task_id="send", queue_name=queue_name, messages=[{"body": "x"}] * 3, outlets=[asset]),
        SqlQueueForwardOperator(
            task_id="forward", queue_name=queue_name, to_queue=f"{queue_name}.to", max_messages=1, outlets=[asset]
        ),
        SqlQueueDrainToSparkOperator(
            task_id="drain",
            queue_name=queue_name,
            staging=str(tmp_path),
            drain_options={"max_messages": 1},
            outlets=[asset],
        ),
        SqlQueuePurgeOperator(task_id="purge", queue_name=queue_name, all_messages=True, confirm=True, outlets=[asset]),
    ]
    events = []
    for task in tasks:
        outlet_events = OutletEventAccessors()
        task.execute({**context(task_id=task.task_id), "outlet_events": outlet_events})
        events.append(outlet_events[asset].extra)
    sent, forwarded, drained, purged = events
    assert sent == {"messages": 3}
    assert forwarded == {"messages": 1, "to_queue": f"{queue_name}.to"}
    assert drained["messages"] == 1
    assert drained.keys() == {"batch_id", "messages", "bytes", "parts"}
    assert purged == {"messages": 1}
