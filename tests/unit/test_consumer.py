"""Times of a consumer's own work, and its end while the server is away."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from airflow_sqlqueue.endpoint.consumer import Consumer, pause_until_due
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import ServerUnreachableError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.session import Session


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


def test_a_consumer_that_waits_for_its_server_can_be_stopped() -> None:
    stop = threading.Event()
    tries: list[int] = []

    def connect() -> Session:
        tries.append(len(tries))
        if len(tries) == 2:
            stop.set()
        assert len(tries) < 9, "it goes on"
        raise ServerUnreachableError("No SQL Server answers.")

    options = ConsumeOptions(until_empty=False, wait_for_server=True)
    done = Consumer(connect, AddressResolver("dbo", "shop"), "orders", print, options, stop=stop).run()
    assert (done.messages, len(tries)) == (0, 2)
