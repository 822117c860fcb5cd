"""How a wait for a lock ends: by the lock, by LOCK_TIMEOUT, by a deadlock, by the client; and what it undoes.

Sources, on learn.microsoft.com: "SET LOCK_TIMEOUT (Transact-SQL)", "SET XACT_ABORT (Transact-SQL)", "TRY...CATCH
(Transact-SQL)" (all under /sql/t-sql/), "Deadlocks guide" (/sql/relational-databases/sql-server-deadlocks-guide).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakemssql.contract import Attention
from fakemssql.tsql.engine import Engines
from support.engine_client import Client, Recorder
from support.waiting import Cancel, waiting

Connect = Callable[..., Any]

CAUGHT = "BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), @@TRANCOUNT; IF XACT_STATE() <> 0 ROLLBACK END CATCH"


@pytest.fixture
def holder(connect: Connect, numbers: str) -> Any:
    """A connection that holds row 1."""
    found = connect()
    found.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    return found


def test_without_a_timeout_a_statement_waits_for_the_lock(
    connect: Connect, client: Any, numbers: str, holder: Any
) -> None:
    other = connect()
    assert other.value("SELECT @@LOCK_TIMEOUT") == -1
    with waiting(client, other, f"UPDATE {numbers} SET v = v + 10 WHERE k = 1") as writer:
        holder.ok("COMMIT")
    assert (writer.result.errors, client.value(f"SELECT v FROM {numbers} WHERE k = 1")) == ([], 11)


def test_a_timeout_undoes_the_statement_alone(connect: Connect, numbers: str, holder: Any) -> None:
    """The transaction stays, and the batch goes on: it is for the application to handle error 1222."""
    other = connect()
    other.ok(f"SET LOCK_TIMEOUT 0; BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    found = other.run(f"UPDATE {numbers} SET v = 3; SELECT @@ERROR, @@TRANCOUNT, XACT_STATE()")
    assert (found.errors, found.results) == ([1222], [[(1222, 1, 1)]])
    holder.ok("ROLLBACK")
    assert other.rows(f"COMMIT; SELECT v FROM {numbers} ORDER BY k") == [(0,), (2,), (0,)]


def test_a_timeout_that_is_caught(connect: Connect, numbers: str, holder: Any) -> None:
    other = connect()
    other.ok("SET LOCK_TIMEOUT 0")
    tried = f"BEGIN TRAN; BEGIN TRY DELETE {numbers} END TRY {CAUGHT}"
    assert other.rows(tried) == [(1222, 1, 1)]
    assert other.rows(f"SET XACT_ABORT ON; {tried}") == [(1222, -1, 1)]


def test_under_xact_abort_a_timeout_ends_the_transaction(connect: Connect, numbers: str, holder: Any) -> None:
    other = connect()
    other.ok(f"SET XACT_ABORT ON; SET LOCK_TIMEOUT 0; BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    found = other.run(f"DELETE {numbers}; SELECT 1")
    assert (found.errors, found.results, found.events[0][0]) == ([1222], [], "rollback")
    holder.ok(f"SELECT 1; UPDATE {numbers} SET v = 4 WHERE k = 2; COMMIT")


def test_a_timeout_in_milliseconds_is_waited_for(connect: Connect, numbers: str, holder: Any) -> None:
    other = connect()
    other.ok("SET LOCK_TIMEOUT 300")
    start = time.monotonic()
    assert other.error(f"DELETE {numbers}").number == 1222
    assert time.monotonic() - start >= 0.3
    assert other.value("SELECT @@LOCK_TIMEOUT") == 300
    assert other.error(f"DELETE {numbers} WITH (NOWAIT)").number == 1222


def _deadlock(watcher: Any, one: Any, two: Any, numbers: str, last: str) -> tuple[Any, Any]:
    """Both hold a row and want the other's. What each got; ``last`` follows in the same batch."""
    one.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    two.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    with waiting(watcher, one, f"UPDATE {numbers} SET v = 1 WHERE k = 2; {last}") as waiter:
        second = two.run(f"UPDATE {numbers} SET v = 2 WHERE k = 1; {last}")
    return waiter.result, second


@pytest.mark.parametrize("abort", ["OFF", "ON"])
def test_a_deadlock_ends_one_transaction_and_lets_the_other_go_on(
    connect: Connect, client: Any, numbers: str, abort: str
) -> None:
    one, two = connect(), connect()
    for each in (one, two):
        each.ok(f"SET XACT_ABORT {abort}")
    found = _deadlock(client, one, two, numbers, "SELECT @@TRANCOUNT")
    (victim,) = [index for index in (0, 1) if found[index].errors]
    assert found[victim].errors == [1205]
    assert (found[victim].messages[0].severity, found[victim].messages[0].state) == (13, 51)
    assert (found[victim].results, found[victim].events[0][0]) == ([], "rollback")
    assert found[1 - victim].results == [[(1,)]]
    winner, loser = (two, one) if victim == 0 else (one, two)
    assert loser.value("SELECT @@TRANCOUNT") == 0
    winner.ok("COMMIT")
    value = 2 if victim == 0 else 1
    assert client.rows(f"SELECT v FROM {numbers} ORDER BY k") == [(value,), (value,), (0,)]


def test_a_deadlock_that_is_caught_leaves_nothing_to_commit(connect: Connect, client: Any, numbers: str) -> None:
    """The locks go at once, so the other goes on while the victim is still in its CATCH."""
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1")
    two.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    tried = f"BEGIN TRY UPDATE {numbers} SET v = v + 1 WHERE k = {{}} END TRY {CAUGHT}"
    with waiting(client, one, tried.format(2)) as waiter:
        second = two.run(tried.format(1))
    (caught,) = [result for found in (waiter.result, second) for result in found.results]
    assert caught == [(1205, -1, 1)]
    assert sorted((one.value("SELECT @@TRANCOUNT"), two.value("SELECT @@TRANCOUNT"))) == [0, 1]


@pytest.mark.parametrize(
    ("level", "change"),
    [
        ("REPEATABLE READ", "UPDATE {} SET v = v + 1 WHERE k = 1"),
        ("REPEATABLE READ", "DELETE {} WHERE k = 1"),
        ("SERIALIZABLE", "INSERT {} VALUES (9, 9)"),
        ("SERIALIZABLE", "UPDATE {} SET v = v + 1 WHERE k = 1"),
    ],
)
def test_two_that_read_and_then_write_deadlock(
    connect: Connect, client: Any, numbers: str, level: str, change: str
) -> None:
    """Shared locks that both hold become exclusive ones of neither: what UPDLOCK is for."""
    one, two = connect(), connect()
    for each in (one, two):
        each.ok(f"SET TRANSACTION ISOLATION LEVEL {level}; BEGIN TRAN; SELECT * FROM {numbers}")
    with waiting(client, one, change.format(numbers)) as waiter:
        second = two.run(change.format(numbers))
    assert sorted([waiter.result.errors, second.errors]) == [[], [1205]]


@pytest.fixture
def cancel() -> Iterator[Cancel]:
    found = Cancel()
    yield found
    found.close()


@pytest.fixture
def impatient(engines: Engines, cancel: Cancel) -> Iterator[Client]:
    """A connection whose client can cancel what it runs."""
    session = engines.open("shop", "sa", cancel.wait)
    yield Client(session)
    session.close()


@pytest.mark.parametrize("wanted", ["UPDATE {} SET v = 5", "DELETE {}", "ALTER TABLE {} ADD w int"])
def test_a_cancel_undoes_the_statement_and_leaves_the_transaction(
    client: Any, impatient: Client, cancel: Cancel, numbers: str, holder: Any, wanted: str
) -> None:
    impatient.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    with waiting(client, impatient, wanted.format(numbers)) as waiter:
        cancel.request()
    assert waiter.cancelled
    assert impatient.value("SELECT @@TRANCOUNT") == 1
    holder.ok("ROLLBACK")
    assert impatient.rows(f"SELECT v FROM {numbers} ORDER BY k; COMMIT") == [(0,), (2,), (0,)]


def test_under_xact_abort_a_cancel_ends_the_transaction(
    client: Any, impatient: Client, cancel: Cancel, numbers: str, holder: Any
) -> None:
    impatient.ok(f"SET XACT_ABORT ON; BEGIN TRAN; UPDATE {numbers} SET v = 2 WHERE k = 2")
    with waiting(client, impatient, f"DELETE {numbers}") as waiter:
        cancel.request()
    assert waiter.cancelled
    assert impatient.value("SELECT @@TRANCOUNT") == 0
    holder.ok(f"UPDATE {numbers} SET v = 3 WHERE k = 2; COMMIT")


class _Bored(Recorder):
    """A client that cancels when it has seen the first rows."""

    def rows(self, rows: Any) -> None:
        raise Attention


@pytest.mark.parametrize("begin", ["", "BEGIN TRAN"])
def test_a_change_that_is_cancelled_among_its_results_is_undone(client: Any, numbers: str, begin: str) -> None:
    """It has not ended yet, because its results are more than the network takes at once."""
    client.ok(f"CREATE TABLE {numbers}_big (a varchar(max)); {begin}")
    text = "REPLICATE(CAST('x' AS varchar(max)), 1000000)"
    client.ok(f"INSERT {numbers}_big SELECT {text} FROM {numbers} a CROSS JOIN {numbers} b CROSS JOIN {numbers} c")
    with pytest.raises(Attention):
        client.engine.batch(f"DELETE {numbers}_big OUTPUT deleted.a", _Bored())
    assert client.rows(f"SELECT COUNT(*), @@TRANCOUNT FROM {numbers}_big") == [(27, 1 if begin else 0)]


@pytest.mark.parametrize("begin", ["", "BEGIN TRAN; SELECT 1; "])
def test_a_cancelled_wait_for_an_application_lock(
    connect: Connect, client: Any, impatient: Client, cancel: Cancel, begin: str
) -> None:
    resource, owner = f"r{id(cancel)}", "Transaction" if begin else "Session"
    take = f"EXEC sp_getapplock '{resource}', 'Exclusive', 'Session'"
    holder = connect()
    holder.ok(take)
    impatient.ok(f"{begin}SELECT 2")
    with waiting(client, impatient, take.replace("'Session'", f"'{owner}'")) as waiter:
        cancel.request()
    assert waiter.cancelled
    assert impatient.value("SELECT @@TRANCOUNT") == (1 if begin else 0)
    assert holder.value(f"DECLARE @r int; EXEC @r = sp_releaseapplock '{resource}', 'Session'; SELECT @r") == 0
    assert connect().value(f"DECLARE @r int; {take.replace('EXEC', 'EXEC @r =')}; SELECT @r") == 0
