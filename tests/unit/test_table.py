"""Repetitions after a failed statement of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_sqlqueue.errors import (
    ConnectionLostError,
    DataMovedError,
    DeadlockError,
    LockTimeoutError,
    ServerBusyError,
    StatementError,
)
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.table_access import TableAccess
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.server.sql import Query

TABLE = ResolvedAddress("audit", "dbo", "nsb")


class Session:
    def __init__(self, in_transaction: bool) -> None:
        self.in_transaction = in_transaction


@pytest.fixture
def failing() -> Callable[..., Any]:
    """A table whose statement fails with the errors given, one a time, and then answers; and how often it was run."""

    def make(in_transaction: bool, *errors: Exception) -> tuple[Callable[[], Any], list[Layout]]:
        table = TableAccess(Session(in_transaction), TABLE)  # type: ignore[arg-type]
        table._layout = Layout(TABLE, "table", {})
        runs: list[Layout] = []

        def statement(layout: Layout) -> str:
            runs.append(layout)
            if len(runs) <= len(errors):
                raise errors[len(runs) - 1]
            return "answer"

        return lambda: table.run_for_layout(statement), runs

    return make


@pytest.mark.parametrize("error", [DeadlockError("1205"), LockTimeoutError("1222"), ServerBusyError("40501")])
def test_a_statement_on_its_own_is_repeated(failing: Any, error: Exception) -> None:
    run, runs = failing(False, error)
    assert run() == "answer"
    assert len(runs) == 2


def test_it_is_not_repeated_for_ever(failing: Any) -> None:
    run, runs = failing(False, *[DeadlockError("1205")] * 9)
    with pytest.raises(DeadlockError):
        run()
    assert len(runs) == 3


@pytest.mark.parametrize("error", [DeadlockError("1205"), LockTimeoutError("1222"), ServerBusyError("40501")])
def test_statements_are_not_repeated_inside_a_transaction(failing: Any, error: Exception) -> None:
    run, runs = failing(True, error)
    with pytest.raises(type(error)):
        run()
    assert len(runs) == 1


def test_a_read_without_locks_is_repeated_where_a_statement_that_waits_is_not() -> None:
    runs = []

    class Moving(Session):
        def run(self, statement: Query, *values: Any) -> list[Any]:
            runs.append(statement.name)
            if len(runs) < 3:
                raise DataMovedError("601")
            if len(runs) == 4:
                raise LockTimeoutError("1222")
            return [(7,)]

    table = TableAccess(Moving(in_transaction=False), TABLE)  # type: ignore[arg-type]
    table._layout = Layout(TABLE, "table", {})
    assert table.value("queue.window_end", 1, 0, 9) == 7
    with pytest.raises(LockTimeoutError):
        table.value("queue.window_end", 1, 0, 9)
    assert len(runs) == 4


def test_a_lost_connection_is_never_repeated(failing: Any) -> None:
    """Whether the statement took effect is not known: a receive would lose messages, a send would double them."""
    run, runs = failing(False, ConnectionLostError("08S01"))
    with pytest.raises(ConnectionLostError):
        run()
    assert len(runs) == 1


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_failure_of_the_driver_is_not_taken_for_an_altered_table(failing: Any, in_transaction: bool) -> None:
    run, runs = failing(in_transaction, StatementError("the driver failed with state 22018"))
    with pytest.raises(StatementError, match="22018"):
        run()
    assert len(runs) == 1
