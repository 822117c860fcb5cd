"""A budget of messages and seconds."""

from __future__ import annotations

import threading

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_limits_everything_is_granted() -> None:
    budget = Budget()
    assert (budget.reserve(1000), budget.messages_left, budget.seconds_left, budget.used) == (1000, None, None, False)


def test_messages_that_were_not_needed_can_be_reserved_again() -> None:
    budget = Budget(10)
    assert [budget.reserve(7), budget.reserve(7), budget.reserve(7)] == [7, 3, 0]
    assert budget.used
    budget.give_back(2)
    assert (budget.used, budget.messages_left, budget.reserve(7)) == (False, 2, 2)


def test_a_budget_grants_no_message_once_its_time_is_over() -> None:
    clock = Clock()
    budget = Budget(10, 5.0, clock=clock)
    clock.now += 4.5
    assert (budget.seconds_left, budget.seconds_used, budget.reserve(1)) == (0.5, 4.5, 1)
    clock.now += 1
    assert (budget.seconds_left, budget.used, budget.reserve(1), budget.messages_left) == (0.0, True, 0, 9)


def test_a_share_has_its_own_messages_and_the_same_end() -> None:
    clock = Clock()
    budget = Budget(10, 5.0, clock=clock)
    clock.now += 2
    share = budget.share(3)
    clock.now += 1
    assert (share.reserve(9), share.seconds_left, budget.messages_left) == (3, 2.0, 10)
    assert budget.share(None).messages_left is None


@pytest.mark.parametrize("limits", [(-1, None), (None, -0.1), (None, float("nan"))])
def test_limits_are_not_below_zero(limits: tuple[int | None, float | None]) -> None:
    with pytest.raises(ConfigurationError, match="give 0 or more"):
        Budget(*limits)


@pytest.mark.parametrize("limits", [(0, None), (None, 0)])
def test_a_limit_of_zero_grants_nothing(limits: tuple[int | None, float | None]) -> None:
    budget = Budget(*limits)
    assert (budget.used, budget.reserve(1)) == (True, 0)


def test_threads_never_reserve_more_than_there_is() -> None:
    budget, reserved = Budget(1000), []

    def reserve() -> None:
        while count := budget.reserve(3):
            reserved.append(count)
            if count == 3 and len(reserved) % 5 == 0:
                reserved.append(-1)
                budget.give_back(1)

    threads = [threading.Thread(target=reserve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(reserved), budget.messages_left) == (1000, 0)


def test_bytes_are_spent_afterwards() -> None:
    budget = Budget(10, max_bytes=100)
    assert budget.reserve(4) == 4
    budget.spend(60)
    assert (budget.bytes_left, budget.used, budget.share(3, 40).bytes_left) == (40, False, 40)
    budget.spend(60)
    assert (budget.bytes_left, budget.used, budget.reserve(1)) == (0, True, 0)
