"""Templated numbers and times: what a template renders to becomes a number, or is refused."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from airflow_sqlqueue import (
    ConsumeOptions,
    DrainOptions,
    ErrorQueueOptions,
    PayloadOptions,
    PurgeOptions,
    SweepOptions,
    operators,
    sensors,
)
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.operators import (
    SqlQueueDrainOperator,
    SqlQueuePurgeOperator,
    SqlQueueSendOperator,
)
from airflow_sqlqueue.operators.base import interval_or


@pytest.mark.parametrize(("value", "found"), [(timedelta(0), 0), ("0", 0), ("2h", 2), (None, 168), ("", 168)])
def test_a_time_that_is_left_out_has_its_default(value: Any, found: int) -> None:
    assert interval_or(timedelta(days=7), "x", value) == timedelta(hours=found)


def test_limits_are_rendered() -> None:
    purge = SqlQueuePurgeOperator(
        task_id="purge", queue_name="audit", max_messages="{{ 10 * 5 }}", older_than="{{ params.age }}", confirm=True
    )
    purge.render_template_fields({"params": {"age": 60}})  # type: ignore[typeddict-item]
    assert purge._options() == PurgeOptions(max_messages=50, older_than=timedelta(minutes=1), confirm=True)


LIMITS = {
    "older_than",
    "max_messages",
    "max_seconds",
    "filters",
    *(
        each.parameter
        for each in (ConsumeOptions, DrainOptions, PayloadOptions, PurgeOptions, SweepOptions, ErrorQueueOptions)
    ),
}


@pytest.mark.parametrize(
    "name", [name for room in (operators, sensors) for name in room.__all__ if name.startswith("SqlQueue")]
)
def test_limits_of_every_operator_and_sensor_are_templated(name: str) -> None:
    found = getattr(operators if name in operators.__all__ else sensors, name)
    taken = {each for base in found.__mro__ for each in inspect.signature(base.__init__).parameters}
    assert LIMITS & taken <= set(found.template_fields)


def drain_with(**options: Any) -> DrainOptions:
    """The options of a drain whose templates find 50, False and nothing."""
    drain = SqlQueueDrainOperator(task_id="drain", queue_name="audit", staging="/tmp/staging", **options)
    context = {"params": {"most": 50, "all": False, "none": None}}
    drain.render_template_fields(context)  # type: ignore[arg-type]
    return drain._check()


def test_options_of_a_drain_are_rendered() -> None:
    """A text that is not empty would count as true, and as no number."""
    found = drain_with(
        drain_options={
            "max_messages": "{{ params.most }}",
            "max_seconds": "{{ params.none }}",
            "seconds_per_part": "{{ params.most / 4 }}",
            "until_empty": "{{ params.all }}",
            "keep_expired": True,
            "workers": "",
        }
    )
    assert found == DrainOptions(max_messages=50, seconds_per_part=12.5, keep_expired=True)
    assert found.until_empty is False


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"drain_options": {"max_messages": "many"}},
            r"drain_options\['max_messages'\] is 'many': give a whole number",
        ),
        ({"drain_options": {"until_empty": "{{ params.most }}"}}, r"\['until_empty'\] is '50': give True or False"),
        ({"drain_options": "{{ params.most }}"}, "drain_options is a mapping of options, not str"),
        (
            {"data_bus": "/tmp/bus", "payload_options": {"workers": "{{ params.most }}"}},
            "workers must be 1 to 32",
        ),
        ({"data_bus": "/tmp/bus", "payload_options": {"workers": "few"}}, r"payload_options\['workers'\] is 'few'"),
        ({"drain_options": {"workers": [2]}}, r"drain_options\['workers'\] is '\[2\]': give a whole number"),
        ({"max_messages": 5, "drain_options": {"max_messages": 7}}, "max_messages is given twice"),
    ],
)
def test_options_of_a_drain_that_templates_spoil_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        drain_with(**options)


def test_a_users_own_operator_keeps_its_renderers() -> None:
    class Own(SqlQueueSendOperator):
        template_fields = (*SqlQueueSendOperator.template_fields, "query")
        template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    assert Own.template_fields_renderers["query"] == "sql"
