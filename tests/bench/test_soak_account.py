"""The soak's account and its slopes: what is lost, doubled or torn is found, and so is what grows."""

from __future__ import annotations

from uuid import uuid4

import pytest
from soak_account import Account, Verdict
from soak_report import quantile
from soak_roles import REFUSED, SENT, UNKNOWN
from soak_samples import Samples, fitted_ends, private_memory, ratio
from soak_setting import KINDS, body_of, message_id

KIND = {kind.name: number for number, kind in enumerate(KINDS)}


def settled(outcome: str, kind: str, bodies: list[bytes], *more: bytes) -> Verdict:
    """The account of a send of three messages, of which these bodies are found in a batch, and more in a queue."""
    account = Account()
    assert account.add("in batches, files", bodies) == len(bodies)
    account.add("in a queue", more)
    return account.settle([(0, KIND[kind], 0, 3, outcome)])


def made(count: int) -> list[bytes]:
    return [body_of(message_id(0, number)) for number in range(count)]


def test_messages_that_are_all_there_once_are_in_order() -> None:
    assert settled(SENT, "audit", made(2), made(3)[2]) == Verdict(sent=3)


def test_a_message_that_is_missing_is_lost_unless_it_was_to_expire() -> None:
    assert settled(SENT, "orders", made(2)).lost == 1
    expired = settled(SENT, "audit, expiring", made(2))
    assert (expired.lost, expired.expired) == (0, {"audit": 1})


def test_a_message_in_two_places_or_twice_in_one_is_doubled() -> None:
    assert settled(SENT, "audit", made(3), made(1)[0]).doubled == 1
    assert settled(SENT, "audit", [*made(3), *made(1)]).doubled == 1


def test_a_send_whose_answer_was_lost_is_there_as_a_whole_or_not_at_all() -> None:
    assert settled(UNKNOWN, "audit", made(3)) == Verdict(unknown_there=3)
    assert settled(UNKNOWN, "audit", []) == Verdict(unknown_absent=3)
    assert settled(UNKNOWN, "audit", made(1)).torn == 1
    expiring = settled(UNKNOWN, "notes, expiring", made(1))
    assert (expiring.torn, expiring.perhaps_expired) == (0, {"notes": 2})


def test_messages_that_were_never_sent_are_made_up() -> None:
    assert settled(SENT, "audit", made(3), body_of(uuid4())).made_up == 1
    assert settled(REFUSED, "audit", made(1)).made_up == 1


def test_a_body_that_differs_is_changed() -> None:
    first, *others = made(3)
    assert settled(SENT, "audit", others, first + b"!").changed == 1


@pytest.mark.parametrize(("grows", "expected"), [(0.0, 1.0), (1.0, 1.19)])
def test_the_slope_of_what_grows_is_seen_through_noise(grows: float, expected: float) -> None:
    """A level of 100 with a noise of 5, and 20 more at the end, or nothing."""
    times = [float(number) for number in range(200)]
    values = [100 + grows * number / 10 + 5 * (-1) ** number for number in range(200)]
    assert ratio(fitted_ends(times, values)) == pytest.approx(expected, abs=0.02)


def test_only_processes_that_live_for_the_whole_time_have_a_growth() -> None:
    samples = Samples(dict, 1)
    for name, first in (("old", 0), ("young", 60)):
        series = samples.series(name, 1)
        for number in range(first, 100):
            series.add(float(number), 50.0 + number, 10.0)
    (growth,) = samples.growth(50.0, 99.0)
    assert (growth.name, growth.descriptors_ratio) == ("old", 1.0)
    assert growth.memory_ratio == pytest.approx(149 / 100)


def test_the_memory_of_a_process_that_has_ended_is_not_read() -> None:
    with pytest.raises(OSError, match="2147480000"):
        private_memory(2147480000)


def test_quantiles_are_in_milliseconds() -> None:
    seconds = [number / 1_000 for number in range(1, 101)]
    assert (quantile(seconds, 0.5), quantile(seconds, 0.99), quantile([], 0.5)) == (51, 100, 0)
