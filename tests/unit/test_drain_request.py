"""Requests of a drain and its options: what contradicts, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.drain.options import DrainOptions, batch_id_for, owner_of
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import MessageFilter

SALES = MessageFilter(endpoint="Sales")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"where": SALES, "copy": True}, "leave out the filter, or copy"),
        ({"where": SALES, "options": DrainOptions(max_bytes=1)}, "max_bytes is for drains of all messages"),
        ({"incremental": "daily"}, "give copy as well"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        DrainRequest(**given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"locked_wait_seconds": -0.1}, "locked_wait_seconds must be 0 or more"),
        ({"seconds_per_part": 0}, "seconds_per_part must be more than 0"),
        ({"workers": 0}, "workers must be 1 to"),
        ({"readable_by": "world"}, "choose one of owner, group, all"),
        ({"max_bytes": -1}, "max_bytes"),
    ],
)
def test_options_out_of_bounds_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        DrainOptions(**given)


@pytest.mark.parametrize(("readable_by", "mode"), [("owner", 0o600), ("group", 0o640), ("all", 0o644)])
def test_readers_of_files_are_a_mode(readable_by: str, mode: int) -> None:
    assert DrainOptions(readable_by=readable_by, locked_wait_seconds=0).file_mode == mode


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"drain_options has no option 'row_per_part'"):
        DrainOptions.of({"row_per_part": 3})
    assert DrainOptions.of({"rows_per_part": 3}).rows_per_part == 3


def test_a_task_that_is_not_mapped_has_airflows_index_of_it() -> None:
    assert batch_id_for("dag", "run", "task") == batch_id_for("dag", "run", "task", -1)
    assert owner_of("dag", "task") == owner_of("dag", "task", -1)
