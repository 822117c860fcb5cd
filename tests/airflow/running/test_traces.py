"""The spans of tasks under an Airflow that runs, and the trace of the messages that they send."""

from __future__ import annotations

import uuid

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from airflow_sqlqueue import QueueClient
from tests.airflow.running.running_airflow import RunningAirflow, until
from tests.airflow.running.trace_collector import TraceCollector


@pytest.mark.airflow
@pytest.mark.timeout(900)
def test_a_message_that_a_task_sends_is_handled_in_the_trace_of_the_task(
    running_airflow: RunningAirflow, traces: TraceCollector, server_url: str
) -> None:
    airflow, client, own = running_airflow, QueueClient.from_url(server_url), f"test.{uuid.uuid4().hex[:10]}"
    names = {"orders": f"{own}.orders", "error": f"{own}.error"}
    for name in names.values():
        client.tables.create(name)
    airflow.add_dags("tracing.py", names, ["tracing"])
    airflow.post("dags/tracing/dagRuns", {"dag_run_id": "first", "logical_date": None})
    until("the run ends", lambda: airflow.get("dags/tracing/dagRuns/first")["state"] == "success")

    def spans() -> dict[str, Span]:
        return {span.name: span for span in list(traces.spans)}

    until("the spans are exported", lambda: {"send message", "process message", "ship"} <= spans().keys())
    found = spans()
    by_id = {span.span_id: span for span in list(traces.spans)}
    send, process = found["send message"], found["process message"]
    assert by_id[process.parent_span_id] == send
    assert by_id[found["ship"].parent_span_id] == process
    assert "place_order" in path_of(send, by_id)
    (link,) = process.links
    assert "ship_orders" in path_of(by_id[link.span_id], by_id)
    for name in names.values():
        client.tables.drop(name, force=True)


def path_of(span: Span, by_id: dict[bytes, Span]) -> str:
    """The names of a span and of those above it."""
    above = by_id.get(span.parent_span_id)
    return span.name if above is None else f"{path_of(above, by_id)} / {span.name}"
