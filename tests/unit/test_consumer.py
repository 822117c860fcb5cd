"""Times of a consumer's own work, and its end while the server is away."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.endpoint.consumer import Consumer, pause_until_due
from airflow_sqlqueue.endpoint.consumers import Consumers, SharedBudget
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import ConfigurationError, ServerUnreachableError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.session import Session


@pytest.mark.parametrize(
    ("away", "retry_seconds", "pause"),
    [(None, 10, 10), (None, 600, 60), (None, 0, 1), (4, 10, 4), (40, 10, 10), (0.25, 10, 1), (-5, 10, 1)],
)
def test_the_mover_runs_when_a_message_may_be_due(away: float | None, retry_seconds: float, pause: float) -> None:
    until = None if away is None else timedelta(seconds=away)
    assert pause_until_due(until, retry_seconds) == pause


@pytest.mark.parametrize("kind", [Consumer, Consumers])
def test_a_consumer_that_waits_for_its_server_can_be_stopped(kind: type[Consumer | Consumers]) -> None:
    stop = threading.Event()
    tries: list[int] = []

    def connect() -> Session:
        tries.append(len(tries))
        if len(tries) == 2:
            stop.set()
        assert len(tries) < 9, "it goes on"
        raise ServerUnreachableError("No SQL Server answers.")

    options = ConsumeOptions(until_empty=False, wait_for_server=True)
    reached: list[bool] = []
    names = connect, AddressResolver("dbo", "shop"), "orders", print, options
    done = kind(*names, stop=stop, on_contact=reached.append).run()
    assert (done.messages, len(tries), reached) == (0, 2, [False, False])


@pytest.mark.parametrize(("unused", "granted"), [(1, 1), (0, 0)])
def test_a_handler_waits_for_what_those_of_other_queues_may_give_back(unused: int, granted: int) -> None:
    budget = SharedBudget(ConsumeOptions(max_messages=2), threading.Event())
    assert budget.reserve(5) == 2
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(budget.reserve(1)), daemon=True)
    other.start()
    other.join(0.05)
    assert (found, other.is_alive()) == ([], True)
    budget.give_back(unused)
    other.join(30)
    assert found == [granted]


@pytest.mark.parametrize("seconds", [None, 0.05])
def test_a_handler_waits_no_longer_than_the_others_may_go_on(seconds: float | None) -> None:
    stop = threading.Event()
    budget = SharedBudget(ConsumeOptions(max_messages=1, max_seconds=seconds), stop)
    assert budget.reserve(1) == 1
    if seconds is None:
        threading.Timer(0.05, stop.set).start()
    assert budget.reserve(1) == 0


def test_handlers_of_a_budget_without_a_limit_never_wait() -> None:
    budget = SharedBudget(ConsumeOptions(), threading.Event())
    assert (budget.reserve(3), budget.reserve(3)) == (3, 3)


@pytest.mark.parametrize("given", [["KeyError"], "KeyError", KeyError, [KeyError("a")], [int], None])
def test_names_of_exceptions_are_refused_before_a_message_fails(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="unrecoverable is a list of types of exceptions"):
        ConsumeOptions(unrecoverable=given)


@pytest.mark.parametrize("given", [(), [KeyError], {KeyError, OSError}])
def test_exceptions_of_any_collection_are_taken(given: Any) -> None:
    assert ConsumeOptions(unrecoverable=given).unrecoverable == given
