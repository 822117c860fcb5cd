"""Templated numbers and times: what a template renders to becomes a number, or is refused."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.operators import SqlQueuePurgeOperator, SqlQueueReturnToSourceOperator
from airflow_sqlqueue.operators.rendered import interval, interval_or, number, whole_number


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
        (interval, "3600", timedelta(hours=1)),
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
        (interval, "1 day", "give a timedelta or a number of seconds"),
        (interval, "inf", "no timedelta"),
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
    assert purge.limits() == {"max_messages": 50, "max_seconds": None}
    assert purge.selection()["older_than"] == timedelta(minutes=1)
    back = SqlQueueReturnToSourceOperator(task_id="back", rate="{{ 2 }}")
    assert {"rate", "max_messages", "max_seconds"} <= set(back.template_fields)
