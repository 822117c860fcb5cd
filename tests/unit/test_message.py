"""Headers, times and intervals."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import (
    Message,
    decode_headers,
    encode_headers,
    format_interval,
    format_time,
    parse_time,
)

text = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(text, st.none() | text))
def test_headers_come_back(headers: dict[str, str | None]) -> None:
    encoded = encode_headers(headers)
    assert encoded.isascii()
    assert decode_headers(encoded).values == headers


@given(st.text(max_size=60))
def test_decoding_never_raises(raw: str) -> None:
    decoded = decode_headers(raw)
    assert all(isinstance(name, str) for name in decoded.values)


@pytest.mark.parametrize(
    ("raw", "values", "problem"),
    [
        ("", {}, None),
        (None, {}, None),
        ('{"a": "\\/b", "a": "\\u00e9"}', {"a": "é"}, None),
        ('{\n  "a" : null }', {"a": None}, None),
        ("null", {}, "the headers are not a JSON object"),
        (" ", {}, "the headers are not JSON"),
        ('{"a": ', {}, "the headers are not JSON"),
        ('{"a": 1, "b": "x"}', {"b": "x"}, "a header's value is not text"),
        ('{"a": 1, "a": "b"}', {"a": "b"}, "a header's value is not text"),
        ("[" * 100_000, {}, "the headers are not JSON"),
    ],
)
def test_what_endpoints_may_have_written(raw: str | None, values: dict[str, str | None], problem: str | None) -> None:
    decoded = decode_headers(raw)
    assert (decoded.values, decoded.problem) == (values, problem)


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, {"a": "\ud83d"}])
def test_headers_that_are_not_text(headers: dict[str, str]) -> None:
    with pytest.raises(MessageError):
        encode_headers(headers)


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(timezone.utc)))  # noqa: DTZ001 - the zone follows
def test_times_come_back(moment: datetime) -> None:
    wire = format_time(moment)
    assert len(wire) == 28
    assert parse_time(wire) == moment


def test_the_wire_form_of_a_time() -> None:
    moment = datetime(2026, 1, 31, 8, 5, 9, 12345, tzinfo=timezone.utc)
    assert format_time(moment) == "2026-01-31 08:05:09:012345 Z"
    assert parse_time("2026-01-31T10:05:09.012345+02:00") == moment
    assert parse_time("2026-13-31 08:05:09:012345 Z") is None
    assert parse_time("yesterday") is None


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(MessageError, match="time zone"):
        format_time(datetime(2026, 1, 31))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("interval", "wire"),
    [
        (timedelta(seconds=5), "00:00:05"),
        (timedelta(days=2, hours=3, microseconds=1500), "2.03:00:00.0015000"),
    ],
)
def test_intervals(interval: timedelta, wire: str) -> None:
    assert format_interval(interval) == wire


def test_the_repr_of_a_message_shows_neither_headers_nor_body() -> None:
    shown = repr(Message({"secret": "s3cret"}, b"s3cret"))
    assert "s3cret" not in shown
