"""Options of operations: a field of a dataclass is found in the operator, on the command line and in the docs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import typer
from airflow.sdk import DAG
from typer.testing import CliRunner

from airflow_sqlqueue import operators
from airflow_sqlqueue.cli.commands import Command, with_option_groups, words_of
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.operators import base, batches, consume, drain, error_queue, maintenance
from airflow_sqlqueue.options import BYTES, Options, option
from airflow_sqlqueue.queue.condition import QueueCondition
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions
from airflow_sqlqueue.queue.forwarding import ForwardOptions
from airflow_sqlqueue.queue.purge import PurgeOptions
from airflow_sqlqueue.sensors import SqlQueueDepthSensor


class Operation(NamedTuple):
    """An operation with options.

    :param operator: arguments of a task without its options.
    :param options_of: the options that the task's run would use.
    """

    kind: type[Options]
    module: Any
    operator: Callable[..., Any]
    options_of: Callable[[Any], Any]

    def __str__(self) -> str:
        return self.kind.__name__


def consuming(**arguments: Any) -> Any:
    return operators.SqlQueueConsumeOperator(task_id="t", queue_name="q", python_callable=print, **arguments)


def draining(**arguments: Any) -> Any:
    given = {"queue_name": "q", "staging": "/tmp/staging", "data_bus": "/tmp/bus", **arguments}
    return operators.SqlQueueDrainOperator(task_id="t", **given)


def purging(**arguments: Any) -> Any:
    return operators.SqlQueuePurgeExpiredOperator(task_id="t", queue_name="q", **arguments)


def forwarding(**arguments: Any) -> Any:
    return operators.SqlQueueForwardOperator(task_id="t", queue_name="q", to_queue="other", **arguments)


def moving(**arguments: Any) -> Any:
    return operators.SqlQueueMoveDelayedOperator(task_id="t", queue_name="q", **arguments)


def sweeping(**arguments: Any) -> Any:
    return operators.SqlQueueSweepOperator(task_id="t", **arguments)


def returning(**arguments: Any) -> Any:
    return operators.SqlQueueReturnToSourceOperator(task_id="t", **arguments)


def waiting(**arguments: Any) -> Any:
    return SqlQueueDepthSensor(task_id="t", queue_name="q", **arguments)


OPERATIONS = [
    Operation(ConsumeOptions, consume, consuming, lambda task: task._options()),
    Operation(DrainOptions, drain, draining, lambda task: task._check()),
    Operation(PayloadOptions, drain, draining, lambda task: task._payload_options(DrainOptions())),
    Operation(PurgeOptions, maintenance, purging, lambda task: task._options()),
    Operation(ForwardOptions, maintenance, forwarding, lambda task: task._options()),
    Operation(MoveOptions, maintenance, moving, lambda task: task._options()),
    Operation(QueueCondition, base, waiting, lambda task: task.condition),
    Operation(SweepOptions, batches, sweeping, lambda task: task._options()),
    Operation(ErrorQueueOptions, error_queue, returning, lambda task: task._options()),
]


def with_made_up_options(operation: Operation) -> Any:
    """The operation's dataclass with four more options, under its own name."""

    @dataclass(frozen=True, kw_only=True)
    class MadeUp(operation.kind):  # type: ignore[name-defined, misc]
        """Options with some more."""

        shade: str = option("red", "shade of the lamp", choices=("red", "green"))
        glow_bytes: int = option(2**20, "bytes of a glow", unit=BYTES, above=0)
        glow_time: timedelta = option(timedelta(hours=12), "time of a glow")
        dims: bool = option(False, "dim the lamp; ``shade`` stays")

    MadeUp.parameter, MadeUp.__name__ = operation.kind.parameter, operation.kind.__name__
    return MadeUp


@pytest.fixture(params=OPERATIONS, ids=str)
def operation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Operation:
    """An operation whose dataclass has the made-up options."""
    found: Operation = request.param
    made_up = with_made_up_options(found)
    monkeypatch.setattr(found.module, found.kind.__name__, made_up)
    return found._replace(kind=made_up)


def test_a_made_up_option_reaches_the_operation_from_a_templated_mapping(operation: Operation) -> None:
    given = {"shade": "{{ params.shade }}", "glow_bytes": "16MiB", "glow_time": "{{ 2 }}h", "dims": "{{ 1 == 1 }}"}
    with DAG("d", schedule=None, default_args={operation.kind.parameter: given}):
        task = operation.operator()
    assert operation.kind.parameter in task.template_fields
    assert task.template_fields_renderers[operation.kind.parameter] == "json"
    task.render_template_fields({"params": {"shade": "green"}})
    found = operation.options_of(task)
    assert (found.shade, found.glow_bytes, found.glow_time, found.dims) == ("green", 2**24, timedelta(hours=2), True)
    with pytest.raises(ConfigurationError, match="shade is 'blue': choose one of red, green"):
        operation.options_of(operation.operator(**{operation.kind.parameter: {"shade": "blue"}}))


def test_a_made_up_option_is_on_the_command_line(operation: Operation) -> None:
    app, seen = typer.Typer(rich_markup_mode=None), []

    def command(options: Any) -> None:
        seen.append(options)

    command.__annotations__ = {"options": operation.kind, "return": None}
    app.command(cls=Command)(with_option_groups(command))
    text = " ".join(CliRunner().invoke(app, ["--help"], terminal_width=80).stdout.split())
    assert "--shade <str> Shade of the lamp: red or green. [default: red]" in text
    assert "--glow-bytes <str> Bytes of a glow. [default: 1MiB]" in text
    assert "--glow-time TIME Time of a glow. [default: 12h]" in text
    assert "--dims Dim the lamp; --shade stays." in text
    words = ["--shade", "green", "--glow-bytes", "3KiB", "--glow-time", "90s", "--dims"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (found,) = seen
    assert (found.shade, found.glow_bytes, found.glow_time, found.dims) == ("green", 3072, timedelta(seconds=90), True)
    again = CliRunner().invoke(app, words_of(found))
    assert (again.exit_code, seen[1]) == (0, found)
    refused = CliRunner().invoke(app, ["--glow-bytes", "1.5MiB"])
    assert str(refused.exception) == "--glow-bytes takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not '1.5MiB'."
    empty = CliRunner().invoke(app, ["--glow-time", ""])
    assert str(empty.exception) == "--glow-time is empty: give a value, or leave it out."


def test_a_made_up_option_is_in_the_docs(operation: Operation) -> None:
    text = inspect.getdoc(operation.kind) or ""
    assert ":param shade: shade of the lamp: ``red`` or ``green``.\n" in text
    assert ":param glow_bytes: bytes of a glow, 1MiB by default.\n" in text
    names = [line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith(":param ")]
    assert names == [each.name for each in operation.kind.described()]
    assert f":class:`~airflow_sqlqueue.{operation.kind.__name__}`" in _docs_of(type(operation.operator()))


def _docs_of(cls: type) -> str:
    return "".join(
        vars(base)["__doc__"] or "" for base in cls.__mro__ if base.__module__.startswith("airflow_sqlqueue")
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_mistyped_option_is_named_when_the_dag_is_parsed(operation: Operation) -> None:
    name = operation.kind.parameter
    near = operation.kind.described()[0].name
    with pytest.raises(ConfigurationError) as caught:
        operation.operator(**{name: {f"{near}s": "{{ 1 }}"}})
    assert str(caught.value).startswith(f"Task 't': {name} has no option '{near}s': did you mean '{near}'")
    with pytest.raises(ConfigurationError, match=rf"{name} has no option 'zzz': choose from {near}, "):
        operation.operator(**{name: {"zzz": 1}})


@pytest.mark.parametrize("make", [consuming, draining, forwarding, returning])
def test_a_mistyped_condition_of_a_filter_is_named_when_the_dag_is_parsed(make: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="Task 't': There is no filter 'messagetype': did you mean 'message_type'"
    ):
        make(filters={"messagetype": "{{ 1 }}"})


def test_an_argument_of_the_task_is_no_option() -> None:
    with pytest.raises(ConfigurationError, match="consume_options has no option 'endpoint'"):
        consuming(consume_options={"endpoint": "Billing"})


def test_options_may_be_the_dataclass() -> None:
    task = consuming(consume_options=ConsumeOptions(max_handlers=8, inbox=True), max_messages="{{ 5 }}")
    task.render_template_fields({})
    assert task._options() == ConsumeOptions(max_handlers=8, inbox=True, max_messages=5)
    assert draining(drain_options=DrainOptions(workers=3))._check() == DrainOptions(workers=3)


def test_defaults_of_a_dag_reach_the_mapping_and_the_flat_arguments() -> None:
    """A task's own mapping replaces that of the DAG."""
    defaults = {"max_seconds": 60, "drain_options": {"workers": 3}, "consume_options": {"max_handlers": 8}}
    with DAG("d", schedule=None, default_args=defaults):
        assert draining()._check() == DrainOptions(workers=3, max_seconds=60)
    with DAG("own", schedule=None, default_args=defaults):
        assert draining(drain_options={"rows_per_part": 7})._check() == DrainOptions(rows_per_part=7, max_seconds=60)
    with DAG("consuming", schedule=None, default_args=defaults):
        assert consuming()._options() == ConsumeOptions(max_handlers=8, max_seconds=60)


def test_a_mapping_may_come_from_another_task() -> None:
    with DAG("d", schedule=None):
        made = operators.SqlQueueRequeueOperator(task_id="make", batch={})
        task = draining(drain_options=made.output)
    assert task.upstream_task_ids == {"make"}


@pytest.mark.parametrize("kind", [each.kind for each in OPERATIONS], ids=str)
def test_defaults_are_within_the_limits_and_can_be_stored(kind: type[Options]) -> None:
    assert kind().changed() == ({"min_messages": 1} if kind is QueueCondition else {})
    json.dumps({each.name: each.words(each.default) for each in kind.described() if each.default})
