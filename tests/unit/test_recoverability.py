"""Recoverability without a server: decisions about failed messages, and the number of remembered failures."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import ModuleType

import pytest

from airflow_sqlqueue.endpoint.recoverability import FailureStorage, RecoverabilityAction, RecoverabilityOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.queue.errors.failure_headers import Failure

DEFAULTS = RecoverabilityOptions()


def message(rounds: str | None, ago: timedelta = timedelta(minutes=1)) -> Envelope:
    moment = format_time(datetime.now(timezone.utc) - ago)
    headers = {HeaderNames.DELAYED_RETRIES: rounds, HeaderNames.DELAYED_RETRIES_TIMESTAMP: moment}
    return Envelope(headers if rounds else {})


@pytest.mark.parametrize(
    ("attempts", "envelope", "action"),
    [
        (1, message(None), RecoverabilityAction.RETRY),
        (5, message(None), RecoverabilityAction.RETRY),
        (6, message(None), RecoverabilityAction.DELAY),
        (5, message("2"), RecoverabilityAction.RETRY),
        (6, message("2"), RecoverabilityAction.DELAY),
        (6, message("3"), RecoverabilityAction.GIVE_UP),
        (6, message("1", timedelta(hours=23)), RecoverabilityAction.DELAY),
        (6, message("1", timedelta(hours=25)), RecoverabilityAction.GIVE_UP),
        (6, message("not a number"), RecoverabilityAction.DELAY),
        (6, message("-5"), RecoverabilityAction.DELAY),
    ],
)
def test_retries_at_once_then_rounds_then_the_error_queue(
    attempts: int, envelope: Envelope, action: RecoverabilityAction
) -> None:
    assert DEFAULTS.action(attempts, envelope, can_delay=True) is action
    without_table = RecoverabilityAction.RETRY if action is RecoverabilityAction.RETRY else RecoverabilityAction.GIVE_UP
    assert DEFAULTS.action(attempts, envelope, can_delay=False) is without_table


@pytest.mark.parametrize(("rounds", "seconds"), [(None, 10), ("1", 20), ("2", 30), ("-5", 10)])
def test_each_round_waits_longer(rounds: str | None, seconds: int) -> None:
    assert DEFAULTS.delay(message(rounds)) == timedelta(seconds=seconds)


def test_no_more_failures_are_remembered_than_there_is_room_for() -> None:
    failures = FailureStorage(most=2)
    for row_version in (1, 2, 1, 3):
        failures.record(row_version, ValueError())
    assert failures.find(2) is None
    found = failures.find(1)
    assert found is not None
    assert found.attempts == 2
    failures.forget(1)
    assert failures.find(1) is None
    failures.single_out([5, 6, 7])
    assert [failures.is_alone(row_version) for row_version in (5, 6, 7)] == [False, True, True]


def test_the_inner_exception_is_the_one_that_a_traceback_would_show() -> None:
    def raised(suppress: bool) -> Exception:
        try:
            try:
                raise KeyError("inner")
            except KeyError:
                if suppress:
                    raise ValueError("outer") from None
                raise ValueError("outer")  # noqa: B904 - what happens where nobody thought of it
        except ValueError as error:
            return error

    inner = HeaderNames.INNER_EXCEPTION_TYPE
    assert Failure.of(raised(suppress=False)).headers[inner] == "KeyError"
    assert inner not in Failure.of(raised(suppress=True)).headers
    assert Failure.of(raised(suppress=False)).headers[HeaderNames.EXCEPTION_SOURCE] == __name__


def test_a_failure_in_a_dag_file_names_the_file_without_the_hash_of_its_path() -> None:
    """By Airflow's own name for it one failure would be in another group on each machine and in each version."""
    file = pytest.importorskip("airflow.utils.file", reason="Airflow is not installed")
    sources = []
    for path in ("/opt/airflow/dags/new-orders.py", "/tmp/bundles/7/new-orders.py"):
        module = ModuleType(file.get_unique_dag_module_name(path))
        exec("class Refused(Exception): pass\ndef handle(): raise Refused", module.__dict__)
        with pytest.raises(module.Refused) as failure:
            module.handle()
        headers = Failure.of(failure.value).headers
        sources.append((headers[HeaderNames.EXCEPTION_SOURCE], headers[HeaderNames.EXCEPTION_TYPE]))
    assert sources == [("new_orders", "new_orders.Refused")] * 2
