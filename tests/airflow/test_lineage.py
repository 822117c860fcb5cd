"""Lineage of finished tasks, as OpenLineage's provider requests it, and of a DAG's own SQL."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any
from unittest import mock

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor, OperatorLineage

try:
    from airflow.sdk.lineage import HookLineageCollector
except ImportError:  # Airflow 3.1
    from airflow.lineage.hook import HookLineageCollector

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainToSparkOperator,
    SqlQueueForwardOperator,
    SqlQueuePublishOperator,
    SqlQueuePurgeOperator,
    SqlQueueRequeueOperator,
    SqlQueueReturnToSourceOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.operators.lineage import of_batch

FAILED = {"NServiceBus.FailedQ": "", "NServiceBus.MessageId": "1"}


class Told:
    """The lineage of a task that is run: its inputs and outputs, as (dataset, rows, bytes, files)."""

    def __init__(self, hook: SqlQueueHook, context: Any) -> None:
        self._context = context
        self._namespace = f"mssql://{hook.client.settings.host}:{hook.client.settings.port}"

    def of(self, operator: Any) -> tuple[list[Any], list[Any], Any]:
        result = operator.execute(self._context(task_id=operator.task_id))
        lineage = DefaultExtractor(operator).extract_on_complete(None) or OperatorLineage()
        return self._flows(lineage.inputs), self._flows(lineage.outputs), result

    def _flows(self, datasets: Any) -> list[Any]:
        flows = []
        for dataset in datasets:
            (facet,) = (getattr(dataset, "inputFacets", None) or dataset.outputFacets).values()
            name = dataset.name if dataset.namespace == self._namespace else f"{dataset.namespace} {dataset.name}"
            flows.append((name.removeprefix("sqlqueue.dbo."), facet.rowCount, facet.size, facet.fileCount))
        return flows


@pytest.fixture
def told(hook: SqlQueueHook, context: Any) -> Told:
    return Told(hook, context)


def test_a_send_and_a_purge(told: Told, hook: SqlQueueHook, queue_name: str) -> None:
    send = SqlQueueSendOperator(task_id="s", queue_name=queue_name, messages=[{"body": "12"}] * 3, exactly_once=True)
    assert told.of(send) == ([], [(queue_name, 3, 6, None)], 3)
    assert told.of(send)[1] == [(queue_name, 3, None, None)]
    hook.create_queue(queue_name, delayed=True)
    later = SqlQueueSendOperator(task_id="l", queue_name=queue_name, messages=[{"body": "1"}], delay=60)
    assert told.of(later)[1] == [(f"{queue_name}.Delayed", 1, 1, None)]
    purge: dict[str, Any] = {"queue_name": queue_name, "all_messages": True, "confirm": True}
    inputs, outputs, _ = told.of(SqlQueuePurgeOperator(task_id="c", only_count=True, **purge))
    assert (inputs, outputs) == ([], [])
    inputs, outputs, _ = told.of(SqlQueuePurgeOperator(task_id="p", **purge))
    assert (inputs, outputs) == ([(queue_name, 3, None, None)], [])


def test_a_publishing_a_move_and_a_return(told: Told, hook: SqlQueueHook, queue_name: str) -> None:
    other = f"{queue_name}.other"
    hook.create_queue(other, subscriptions=True)
    topic = f"Lineage.{queue_name}"
    for name in (queue_name, other):
        hook.client.subscriptions.subscribe(name, [topic])
    publish = SqlQueuePublishOperator(task_id="p", message_type=topic, messages=[{"body": "1"}] * 2)
    assert sorted(told.of(publish)[1]) == [(queue_name, 2, 2, None), (other, 2, 2, None)]
    move = SqlQueueForwardOperator(task_id="m", queue_name=queue_name, to_queue=other)
    assert told.of(move)[:2] == ([(queue_name, 2, None, None)], [(other, 2, None, None)])
    hook.receive(other, 10)
    hook.send(other, [Message({**FAILED, "NServiceBus.FailedQ": queue_name}, b"1")])
    back = SqlQueueReturnToSourceOperator(task_id="r", queue_name=other, all_messages=True)
    assert told.of(back)[:2] == ([(other, 1, None, None)], [(queue_name, 1, None, None)])


@pytest.mark.parametrize("stage", ["files", "table"])
def test_a_drain_and_a_requeue(told: Told, hook: SqlQueueHook, queue_name: str, tmp_path: Any, stage: str) -> None:
    hook.send(queue_name, [Message({}, b"123")] * 4)
    staging = {"staging": str(tmp_path)} if stage == "files" else {"stage": stage}
    drain = SqlQueueDrainToSparkOperator(task_id="d", queue_name=queue_name, **staging)  # type: ignore[arg-type]
    inputs, outputs, result = told.of(drain)
    batch = Batch.from_dict(result["batch"])
    where = f"file {tmp_path}/{batch.folder}" if stage == "files" else "sqlqueue.sqlqueue.BatchMessage"
    staged = (where, 4, batch.bytes, len(batch.paths) or None)
    assert (inputs, outputs) == ([(queue_name, 4, batch.bytes, None)], [staged])
    requeue = SqlQueueRequeueOperator(task_id="r", batch=result)
    assert told.of(requeue)[:2] == ([staged], [(queue_name, 4, batch.bytes, None)])


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/in/{id}/{part}", "file", "/data/in/{id}"),
        ("file:///data/in/{id}/{part}", "file", "/data/in/{id}"),
        ("s3a://lake/in#1/{id}/{part}", "s3://lake", "in#1/{id}"),
        ("abfss://lake@acct.example/in/{id}/{part}", "abfss://lake@acct.example", "in/{id}"),
        ("hdfs://name:8020/in/{id}/{part}", "hdfs://name:8020", "/in/{id}"),
    ],
)
def test_the_folder_of_a_batch_is_named_as_openlineage_names_it(path: str, namespace: str, name: str) -> None:
    paths = tuple(path.format(id="b", part=f"part-{number}.parquet") for number in (1, 2))
    (flow,) = of_batch(None, Batch("b", "q@[dbo]@[d]", "sealed", paths, 2, messages=5, bytes=50))  # type: ignore[arg-type]
    assert (flow.namespace, flow.name, flow.files) == (namespace, name.format(id="b"), 2)


def test_an_empty_batch_and_a_task_that_moved_nothing_yet(told: Told, queue_name: str, tmp_path: Any) -> None:
    drain = SqlQueueDrainToSparkOperator(task_id="d", queue_name=queue_name, staging=str(tmp_path))
    assert drain.get_openlineage_facets_on_complete(None) is None
    assert told.of(drain)[:2] == ([(queue_name, 0, 0, None)], [])


def test_data_frames_and_inserts_tell_no_parameters(hook: SqlQueueHook, capfd: pytest.CaptureFixture[str]) -> None:
    where = "airflow.providers.common.sql.hooks.lineage"
    # common-sql 1.28, the lowest of Airflow 3.1, tells lineage nothing.
    has_lineage = find_spec(where) is not None
    pandas = pytest.warns(UserWarning, match="pandas only supports SQLAlchemy")
    with mock.patch(f"{where}.get_hook_lineage_collector") if has_lineage else nullcontext(mock.Mock()) as collector:
        with pandas:
            assert hook.get_df("SELECT ? AS [a]", parameters=["s3cret"])["a"].tolist() == ["s3cret"]
        with pandas:
            (chunk,) = hook.get_df_by_chunks("SELECT ? AS [a]", parameters=("s3cret",), chunksize=10)
        assert chunk["a"].tolist() == ["s3cret"]
        with pandas, pytest.raises(Exception, match="HY"):
            # Its name, which is no value, would be selected.
            hook.get_df("SELECT ? AS [a]", parameters={"name": "s3cret"})
        with pytest.raises(Exception, match="208"):
            hook.insert_rows("dbo.[not there]", [("s3cret", b"s3cret")])
    told = str(collector.return_value.add_extra.call_args_list)
    assert ("SELECT ?" in told) == has_lineage
    assert "sql_parameters" not in told, "a collector may write them as JSON, where their repr counts for nothing"
    logged = "".join(capfd.readouterr())
    assert "INSERT" in logged
    assert "s3cret" not in told + logged


def test_polars_gets_options_as_parameters_with_names(hook: SqlQueueHook) -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    polars = {"df_type": "polars", "parameters": {"parameters": ["s3cret"]}}
    assert hook.get_df("SELECT ? AS [a]", **polars)["a"].to_list() == ["s3cret"]


def test_calls_of_the_hook_reach_airflows_collector(
    hook: SqlQueueHook, queue_name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = HookLineageCollector()
    monkeypatch.setattr("airflow_sqlqueue.hooks.lineage.get_hook_lineage_collector", lambda: collector)
    hook.send(queue_name, [Message(body=b"s3cret"), Message(body=b"s3cret")])
    hook.receive(queue_name)
    hook.drain(queue_name, str(tmp_path))
    found, uri = collector.collected_assets, hook.asset(queue_name).uri
    assert [(each.asset.uri, each.count) for each in found.inputs] == [(uri, 2)]
    assert [(each.asset.uri, each.count) for each in found.outputs] == [(uri, 1)]
    assert "s3cret" not in repr(found)
