"""Times of a consumer's own work."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_sqlqueue.consuming.consumer import pause_until_due


@pytest.mark.parametrize(
    ("away", "retry_seconds", "pause"),
    [
        (None, 10, 10),
        (None, 600, 60),
        (None, 0, 1),
        (4, 10, 4),
        (40, 10, 10),
        (0.25, 10, 1),
        (-5, 10, 1),
    ],
)
def test_the_mover_runs_when_a_message_may_be_due(away: float | None, retry_seconds: float, pause: float) -> None:
    until = None if away is None else timedelta(seconds=away)
    assert pause_until_due(until, retry_seconds) == pause
