"""Times and intervals of headers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.envelope.times import (
    format_interval,
    format_time,
    moment_of,
    parse_interval,
    parse_time,
    time_before,
)

MOMENT = datetime(2026, 1, 31, 8, 5, 9, 12345, tzinfo=timezone.utc)


@given(st.datetimes(timezones=st.just(timezone.utc)))
@example(datetime.min.replace(tzinfo=timezone.utc))
def test_times_come_back(moment: datetime) -> None:
    wire = format_time(moment)
    assert len(wire) == 28
    assert parse_time(wire) == moment


@pytest.mark.parametrize(
    "written",
    [
        "2026-01-31 08:05:09:012345 Z",
        " 2026-01-31 08:05:09:012345 z\n",
        "2026-01-31T08:05:09.0123459Z",
        "2026-01-31T08:05:09,012345678",
        "2026-01-31T10:05:09.012345+02:00",
        "2026-01-31 02:35:09.012345 -0530",
    ],
)
def test_forms_of_a_time_that_are_read(written: str) -> None:
    parsed = parse_time(written)
    assert parsed == MOMENT
    assert parsed.tzinfo is timezone.utc


def test_a_day_and_a_minute_are_times_too() -> None:
    assert parse_time("2026-01-31") == datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert parse_time("2026-01-31T08:05Z") == datetime(2026, 1, 31, 8, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "written",
    [
        None,
        "",
        "yesterday",
        "2026-13-31 08:05:09:012345 Z",
        "2026-01-31 08:05:09:012345 Z Z",
        "2026-01-31T08:05:09+99:00",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "٢٠٢٦-01-31 08:05:09:012345 Z",
    ],
)
def test_invalid_times(written: str | None) -> None:
    assert parse_time(written) is None


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", fullmatch=True))
def test_reading_never_raises(text: str) -> None:
    moment = parse_time(text)
    assert moment is None or moment.tzinfo is timezone.utc
    parse_interval(text)


class Zoneless(tzinfo):
    """A zone that does not know its offset makes a naive time."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None


@pytest.mark.parametrize("zone", [None, Zoneless()])
def test_a_naive_time_is_refused(zone: tzinfo | None) -> None:
    with pytest.raises(MessageError, match="time zone"):
        format_time(datetime(2026, 1, 31, tzinfo=zone))


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(MessageError, match="years 1 to 9999"):
        format_time(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))


@pytest.mark.parametrize(
    ("interval", "wire"),
    [
        (timedelta(0), "00:00:00"),
        (timedelta(seconds=5), "00:00:05"),
        (timedelta(days=2, hours=3, microseconds=1500), "2.03:00:00.0015000"),
        (timedelta(hours=-26, milliseconds=-1), "-1.02:00:00.0010000"),
    ],
)
def test_intervals(interval: timedelta, wire: str) -> None:
    assert format_interval(interval) == wire
    assert parse_interval(wire) == interval


LONGEST = timedelta(days=10_675_199)
LONGEST_OF_NET = timedelta(days=10_675_199, hours=2, minutes=48, seconds=5, microseconds=477_580)


@given(st.timedeltas(-LONGEST, LONGEST))
def test_intervals_come_back(interval: timedelta) -> None:
    assert parse_interval(format_interval(interval)) == interval


@pytest.mark.parametrize(
    ("written", "interval"),
    [
        ("6", timedelta(days=6)),
        (" 1:2 ", timedelta(hours=1, minutes=2)),
        ("10675199.02:48:05.4775807", LONGEST_OF_NET),
        ("00:00:00.0000019", timedelta(microseconds=1)),
    ],
)
def test_intervals_as_net_reads_them(written: str, interval: timedelta) -> None:
    assert parse_interval(written) == interval


@pytest.mark.parametrize("written", [None, "", "24:00:00", "00:60:00", "00:00:00.", "1.", "PT30S", "--00:00:01"])
def test_invalid_intervals(written: str | None) -> None:
    assert parse_interval(written) is None


def test_an_interval_too_long_for_net_is_refused() -> None:
    with pytest.raises(MessageError, match="shorten"):
        format_interval(LONGEST_OF_NET + timedelta(microseconds=1))
    assert format_interval(LONGEST_OF_NET) == "10675199.02:48:05.4775800"


def test_a_filters_time_is_a_datetime_or_its_text() -> None:
    moment = datetime(2026, 1, 31, 8, tzinfo=timezone.utc)
    naive = datetime(2026, 1, 31, 8)  # noqa: DTZ001 - the filter refuses it, with its own sentence
    assert moment_of("since", "2026-01-31T08:00:00Z") == moment
    assert moment_of("since", moment) is moment
    assert moment_of("since", naive) is naive
    with pytest.raises(ConfigurationError, match="since is not a time"):
        moment_of("since", "yesterday")


@pytest.mark.parametrize("zone", [None, timezone.utc])
def test_an_age_beyond_the_calendar_is_the_earliest_time(zone: tzinfo | None) -> None:
    now = datetime(2026, 1, 31, tzinfo=zone)
    assert time_before(now, timedelta(days=31)) == datetime(2025, 12, 31, tzinfo=zone)
    assert time_before(now, timedelta.max) == datetime.min.replace(tzinfo=zone)
