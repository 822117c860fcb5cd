"""A drain's limits as they are written on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.cli.drain_options import changed_limits, drain_options
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.errors import ConfigurationError


def test_options_have_defaults() -> None:
    assert drain_options() == drain_options(rows_per_part=None, bytes_per_part=None) == DrainOptions()


@pytest.mark.parametrize(
    ("text", "size"), [("1000000", 1_000_000), ("512KiB", 524_288), ("16 MiB", 16_777_216), ("1GiB", 1_073_741_824)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert drain_options(bytes_per_part=text, settle_seconds=0.5) == DrainOptions(
        bytes_per_part=size, settle_seconds=0.5
    )


@pytest.mark.parametrize("text", ["", "MiB", "1.5MiB", "-1", "2MB"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--bytes-per-statement takes bytes"):
        drain_options(bytes_per_statement=text)


def test_the_drain_refuses_options_out_of_range() -> None:
    wrong: dict[str, Any] = {"rows_per_statement": 5_000}
    with pytest.raises(ConfigurationError, match="locks would escalate"):
        drain_options(**wrong)


def test_a_resumed_drain_keeps_every_limit_that_was_given() -> None:
    given = {"workers": 4, "bytes_per_part": "1MiB", "settle_seconds": 1.5, "keep_expired": True, "max_messages": 7}
    kept = changed_limits(drain_options(**given))
    assert kept == {**given, "bytes_per_part": 2**20}
    assert drain_options(
        **{name: str(kept[name]) if "bytes" in name else kept[name] for name in kept}
    ) == drain_options(**given)
    assert changed_limits(drain_options()) == {}
