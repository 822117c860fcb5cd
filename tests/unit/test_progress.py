"""Progress of a drain: what earlier tries have taken, the share and the rate."""

from __future__ import annotations

import uuid

import pytest

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.progress import Progress, ProgressCounter
from airflow_sqlqueue.options.budget import count_of, size_of


def test_progress_counts_what_earlier_tries_have_taken() -> None:
    seen: list[Progress] = []

    def part(messages: int, last: int) -> Part:
        return Part(uuid.uuid4(), "x", messages=messages, min_row_version=1, max_row_version=last)

    fresh, resumed = ProgressCounter(seen.append), ProgressCounter(seen.append)
    fresh.begin(1, 10)
    fresh.add(part(4, 5))
    resumed.begin(1, 10)
    resumed.resume([part(4, 5)])
    resumed.add(part(3, 10))
    assert [(each.earlier, each.messages, each.share) for each in seen] == [(0, 4, 0.5), (4, 4, 0.5), (4, 7, 1.0)]


@pytest.mark.parametrize(("seconds", "rate"), [(0.5, 6.0), (2.0, 1.5), (0.0, 0.0)])
def test_the_rate_is_of_this_try(seconds: float, rate: float) -> None:
    progress = Progress(seconds, None, 2, messages=4, expired=1, quarantined=0, bytes=0)
    assert progress.rate == rate


def test_numbers_of_logs_have_one_form() -> None:
    assert (count_of(1, "message"), count_of(0, "part"), count_of(3_131, "message")) == (
        "1 message",
        "0 parts",
        "3,131 messages",
    )
    assert (count_of(1, "batch"), count_of(2, "batch"), size_of(337_842_612)) == ("1 batch", "2 batches", "322.2 MiB")
    started = Progress(0.0, None, 2, messages=2, expired=0, quarantined=0, bytes=0)
    assert str(started) == "2 messages, 0.0 MiB, 0 expired, 0 in quarantine"
