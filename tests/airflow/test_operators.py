"""The operators without a server: refused arguments, and templates."""

from __future__ import annotations

import asyncio
import inspect
import re
from inspect import Parameter, signature
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, ObjectStoragePath
from inherited_parameters import fields_of, whole_docstring, whole_signature

from airflow_sqlqueue import SqlQueueNotifier, operators, sensors, triggers
from airflow_sqlqueue.errors import AddressError, ConfigurationError
from airflow_sqlqueue.hooks.arguments import HOOK_ARGUMENTS
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.operators import (
    SqlQueueCreateOperator,
    SqlQueueDrainToSparkOperator,
    SqlQueueFailedMessagesOperator,
    SqlQueueMarkConsumedOperator,
    SqlQueuePurgeExpiredOperator,
    SqlQueuePurgeOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.sensors import SqlQueueDepthSensor

CLASSES = [getattr(module, name) for module in (operators, sensors) for name in module.__all__]


def parameters_of(cls: Any) -> dict[str, Parameter]:
    """The parameters that the manual shows, with those of the bases."""
    return {name: p for name, p in whole_signature(cls).parameters.items() if p.kind is not p.VAR_KEYWORD}


def documented_by(cls: Any) -> dict[str, str]:
    """The texts of the manual on them."""
    lines = whole_docstring(cls, inspect.cleandoc(cls.__doc__).splitlines())
    return {name: " ".join(text) for name, text in fields_of(lines).items()}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_parameter_is_documented_and_marked_where_it_is_templated(cls: Any) -> None:
    parameters, texts = parameters_of(cls), documented_by(cls)
    assert texts.keys() == parameters.keys()
    assert {name for name, text in texts.items() if "(templated)" in text} == set(cls.template_fields)
    assert {parameter.kind for parameter in parameters.values()} == {Parameter.KEYWORD_ONLY}
    assert len(cls.template_fields) == len(set(cls.template_fields))


@pytest.mark.parametrize("cls", [getattr(operators, name) for name in operators.__all__])
def test_fields_with_values_that_are_no_text_are_shown_as_such(cls: Any) -> None:
    """Airflow shows a mapping or a list in one line where nothing says how."""
    hints = parameters_of(cls)
    values = {name for name in cls.template_fields if re.search(r"Mapping|Sequence|dict", str(hints[name].annotation))}
    assert values == cls.template_fields_renderers.keys()
    assert set(cls.template_fields_renderers.values()) <= {"json", "py"}


@pytest.mark.parametrize("cls", [getattr(triggers, name) for name in triggers.__all__])
def test_every_parameter_of_a_trigger_is_documented_and_none_is_templated(cls: Any) -> None:
    parameters, texts = parameters_of(cls), documented_by(cls)
    assert texts.keys() == parameters.keys()
    assert "(templated)" not in "".join(texts.values())
    assert {parameter.kind for parameter in parameters.values()} == {Parameter.KEYWORD_ONLY}


SHARED = {"sqlqueue_conn_id", "hook_params", "poll_interval", "wait_timeout", "deferrable"}


@pytest.mark.parametrize("cls", [*CLASSES, *(getattr(triggers, name) for name in triggers.__all__)])
def test_a_shared_parameter_is_documented_by_a_base_class_alone(cls: Any) -> None:
    """Unless the class gives it a default or a meaning of its own, which its constructor or its text then has."""
    own = set(re.findall(r":param (\w+):", cls.__doc__)) & SHARED
    assert own <= signature(cls.__init__).parameters.keys()


def test_shared_arguments_come_from_the_dags_defaults_too() -> None:
    """Airflow hands ``default_args`` to every constructor of the class's bases."""
    defaults = {"sqlqueue_conn_id": "shop", "hook_params": {"default_schema": "sales"}, "queue_name": "orders"}
    with DAG("d", schedule=None, default_args=defaults):
        purge = SqlQueuePurgeOperator(task_id="purge")
        sensor = SqlQueueDepthSensor(task_id="wait", sqlqueue_conn_id="other")
    assert (purge.sqlqueue_conn_id, purge.hook_params, purge.queue_name) == ("shop", defaults["hook_params"], "orders")
    assert (sensor.sqlqueue_conn_id, sensor.queue_name) == ("other", "orders")


@pytest.mark.parametrize("cls", CLASSES)
def test_shared_arguments_can_be_mapped(cls: Any) -> None:
    with DAG("d", schedule=None):
        mapped = cls.partial(task_id="t", hook_params={}).expand(sqlqueue_conn_id=["one", "two"])
        assert mapped.operator_class is cls
        with pytest.raises(TypeError, match="unexpected keyword argument 'conn_id'"):
            cls.partial(task_id="no", conn_id="one")


SWITCHES = [(cls, name) for cls in CLASSES for name, p in parameters_of(cls).items() if p.annotation == "bool"]


@pytest.mark.parametrize(("cls", "name"), SWITCHES)
@pytest.mark.parametrize("given", ["{{ params.sure }}", "False", None])
def test_a_text_switches_nothing_on(cls: Any, name: str, given: Any) -> None:
    """A template that nobody renders is true as a text."""
    parameters = parameters_of(cls)
    texts = {each: "q" for each, p in parameters.items() if p.default is Parameter.empty and each != "action"}
    texts |= {each: "q" for each in ("queue_name",) if each in parameters and "endpoint" not in texts}
    actions = {"action": "park"} if cls is SqlQueueFailedMessagesOperator else {}
    with pytest.raises(ConfigurationError, match=re.escape(f"Task 't': {name} is {str(given)!r}: give True or False")):
        cls(task_id="t", **texts, **actions, **{name: given})


def test_a_missing_queue_is_named_when_the_dag_is_parsed() -> None:
    with pytest.raises(AddressError, match=r"Task 't': .* give queue_name or endpoint\."):
        SqlQueueCreateOperator(task_id="t")


def test_queue_staging_and_arguments_are_rendered() -> None:
    operator = SqlQueueDrainToSparkOperator(
        task_id="t",
        queue_name="{{ q }}",
        staging=ObjectStoragePath("file:///staging/{{ q }}"),
        python_callable=print,
        op_kwargs={"lake": "/lake/{{ q }}"},
        spark_conf={"spark.hadoop.fs.s3a.access.key": "{{ q }}"},
        drain_options={"max_messages": 5},
    )
    operator.render_template_fields({"q": "audit"})
    assert operator.queue_name == "audit"
    assert str(operator.staging) == "file:///staging/audit"
    assert operator.op_kwargs == {"lake": "/lake/audit"}
    assert operator.spark_conf == {"spark.hadoop.fs.s3a.access.key": "{{ q }}"}, "nor stored, nor shown"
    job = operator._make_job({"q": "audit"})  # type: ignore[typeddict-item]
    assert job.spark_conf == {"spark.hadoop.fs.s3a.access.key": "audit"}


@pytest.mark.parametrize(
    "cls",
    [SqlQueuePurgeExpiredOperator, SqlQueuePurgeOperator, SqlQueueDepthSensor, SqlQueueDrainToSparkOperator],
)
@pytest.mark.parametrize("named", [{}, {"queue_name": "audit", "endpoint": "Sales"}])
def test_a_task_works_on_one_queue(cls: Any, named: dict[str, str]) -> None:
    with pytest.raises(AddressError, match=r"Task 't': Name the queue by its .*: give queue_name or endpoint"):
        cls(task_id="t", **named)


def test_messages_are_not_rendered_because_rendered_fields_are_stored() -> None:
    operator = SqlQueueSendOperator(task_id="t", queue_name="q", messages=[{"body": "{{ x }}"}])
    operator.render_template_fields({"x": 1})
    assert operator.messages == [{"body": "{{ x }}"}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"python_callable": print, "application": "job.py"}, "Both python_callable and application"),
        ({"python_callable": "audit_job.run"}, "python_callable cannot be called"),
        ({"python_callable": asyncio.sleep}, "python_callable is asynchronous"),
        ({"python_callable": print, "op_kwargs": "{'a': 1}"}, "op_kwargs is a value of the type str"),
        (
            {"python_callable": print, "op_kwargs": {1: 2, "a": 3}},
            "op_kwargs is a value of the type dict: .* by their names",
        ),
        (
            {"application": "job.py", "application_args": "--day 1"},
            "application_args is a list, with an item for each argument, not str",
        ),
        ({"drain_options": {"rows_per_statement": 0}}, "rows_per_statement must be"),
        ({"stage": "table"}, "leave out the staging folder"),
        ({"staging": None}, "needs a staging folder"),
        ({"stage": "tables"}, "choose one of files, table"),
        ({"redaction": "rules.json", "data_bus": "/tmp/bus"}, "leave out data_bus or redaction"),
    ],
)
def test_a_drain_that_cannot_work_fails_without_retry(arguments: Any, says: str, connection: Any, context: Any) -> None:
    connection()
    operator = SqlQueueDrainToSparkOperator(**{"task_id": "t", "queue_name": "q", "staging": "/tmp/x", **arguments})
    with pytest.raises(AirflowFailException, match=says) as raised:
        operator.execute(context())
    assert isinstance(raised.value.__cause__, ConfigurationError)
    assert str(raised.value) == str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (SqlQueueCreateOperator(task_id="t", queue_name=" "), "has no table name"),
        (SqlQueueMarkConsumedOperator(task_id="t", batch={"batch": {}}), "misses the manifest's"),
        (
            SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for={"min_messages": "many"}),
            "'many': give a whole number",
        ),
        (
            SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for={"min_messages": 0}),
            "min_messages must be 1 or more",
        ),
        (
            SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for={"min_messages": 1, "max_messages": 5}),
            "without other",
        ),
        (
            SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for={"oldest_seconds": "long"}),
            "is 'long': give a number",
        ),
        (
            SqlQueueDepthSensor(task_id="t", queue_name="q", wait_for={"oldest_seconds": 0}),
            "oldest_seconds must be more than 0",
        ),
        (SqlQueuePurgeOperator(task_id="t", queue_name="q", all_messages=True), "confirm that they may be lost"),
        (SqlQueuePurgeOperator(task_id="t", queue_name="q", purge_options={"chunk": 5_000}), "locks never escalate"),
    ],
)
def test_errors_that_no_retry_fixes_fail_without_one(operator: Any, says: str, connection: Any, context: Any) -> None:
    connection(host="127.0.0.1", port=1)
    with pytest.raises(AirflowFailException, match=says):
        operator.execute(context())


def test_a_purge_of_expired_messages_takes_no_others() -> None:
    with pytest.raises(TypeError, match="all_messages"):
        SqlQueuePurgeExpiredOperator(task_id="t", queue_name="q", all_messages=True)


def test_a_soft_failing_sensor_that_cannot_read_is_not_skipped(connection: Any, context: Any) -> None:
    connection(schema="")
    sensor = SqlQueueDepthSensor(task_id="t", queue_name="q", soft_fail=True)
    with pytest.raises(ConfigurationError, match="names no database"):
        sensor.execute(context())


def test_arguments_of_the_hook_are_known_without_it() -> None:
    parameters = signature(SqlQueueHook.__init__).parameters.values()
    assert tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY) == HOOK_ARGUMENTS


@pytest.mark.parametrize("cls", [SqlQueueCreateOperator, SqlQueueDepthSensor, SqlQueueNotifier])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"defualt_schema": "shop"}, "hook_params has no argument 'defualt_schema': did you mean 'default_schema'"),
        ({"schema": "Shop"}, "hook_params has no argument 'schema'"),
        ({"sqlqueue_conn_id": "x"}, "hook_params has no argument 'sqlqueue_conn_id'"),
        ({1: 2}, "hook_params has no argument '1'"),
        ("default_schema", "hook_params is a mapping of arguments, not str"),
    ],
)
def test_wrong_arguments_of_the_hook_fail_where_the_dag_is_parsed(cls: Any, wrong: Any, says: str) -> None:
    """A misspelled one would silently lead to another table."""
    needed = {"message_type": "Ops.Failed"} if cls is SqlQueueNotifier else {"task_id": "t"}
    with pytest.raises(ConfigurationError, match=says):
        cls(queue_name="orders", hook_params=wrong, **needed)


def test_a_database_that_is_no_text_is_one_sentence(connection: Any) -> None:
    hook = SqlQueueHook(connection(), database=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="database has to be text, not int"):
        _ = hook.client
