"""Templated numbers and times: what a template renders to becomes a number, or is refused."""

from __future__ import annotations

import inspect
from datetime import timedelta
from functools import partial
from typing import Any

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
)
from airflow_sqlqueue.operators.rendered import interval_or
from airflow_sqlqueue.options import interval, number, size, truth, whole_number


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (whole_number, None, None),
        (whole_number, "", None),
        (whole_number, "None", None),
        (whole_number, " 1000 ", 1000),
        (whole_number, 5, 5),
        (whole_number, 5.0, 5),
        (number, "0.5", 0.5),
        (truth, "True", True),
        (truth, " false ", False),
        (truth, False, False),
        (truth, "None", None),
        (size, "512 KiB", 524_288),
        (size, "16MiB", 2**24),
        (size, "1000000", 1_000_000),
        (size, 7, 7),
        (size, "", None),
        (interval, "3600", timedelta(hours=1)),
        (interval, "90s", timedelta(seconds=90)),
        (interval, "7d", timedelta(days=7)),
        (interval, 1.5, timedelta(seconds=1.5)),
        (interval, timedelta(days=2), timedelta(days=2)),
        (partial(interval_or, timedelta(days=7)), timedelta(0), timedelta(0)),
        (partial(interval_or, timedelta(days=7)), "0", timedelta(0)),
        (partial(interval_or, timedelta(days=7)), None, timedelta(days=7)),
    ],
)
def test_rendered_values(read: Any, value: Any, found: Any) -> None:
    assert read("x", value) == found


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (whole_number, "many", "x is 'many': give a whole number"),
        (whole_number, 5.5, "x is '5.5': give a whole number"),
        (whole_number, True, "x is 'True': give a whole number"),
        (number, [], "give a number"),
        (truth, "yes", "x is 'yes': give True or False"),
        (truth, 1, "give True or False"),
        (size, "1.5MiB", "x takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not '1.5MiB'"),
        (size, "2MB", "takes bytes"),
        (size, "-1", "takes bytes"),
        (interval, "1 day", "give a number of seconds, or a time as 90s, 30m, 12h or 7d"),
        (interval, "inf", "too long a time"),
    ],
)
def test_other_values_are_refused(read: Any, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read("x", value)


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
