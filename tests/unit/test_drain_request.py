"""Requests of a drain and its options: what contradicts, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MessageFilter

SALES = MessageFilter(endpoint="Sales")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"where": SALES, "keep": True}, "leave out the filter, or keep"),
        ({"where": SALES, "options": DrainOptions(max_bytes=1)}, "max_bytes is for drains of all messages"),
        ({"only_new": "daily"}, "give keep as well"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        DrainRequest(**given)


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"drain_options cannot be used: .*'row_per_part'"):
        DrainOptions.of({"row_per_part": 3})
    assert DrainOptions.of({"rows_per_part": 3}).rows_per_part == 3
