"""Savepoints and XACT_ABORT: what an error or a rollback undoes, and which locks are left.

Sources, on learn.microsoft.com: "SAVE TRANSACTION", "ROLLBACK TRANSACTION", "SET XACT_ABORT", "XACT_STATE",
"TRY...CATCH" (all under /sql/t-sql/, each with "(Transact-SQL)").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Connect = Callable[..., Any]


def test_a_rollback_to_a_savepoint_frees_the_locks_taken_after_it(connect: Connect, numbers: str) -> None:
    """And keeps those taken before it; the transaction stays open."""
    one, two = connect(), connect()
    one.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 1 WHERE k = 1; SAVE TRAN s; UPDATE {numbers} SET v = 1 WHERE k = 2")
    two.ok("SET LOCK_TIMEOUT 0")
    one.ok("ROLLBACK TRAN s")
    assert one.value("SELECT @@TRANCOUNT") == 1
    assert two.ok(f"UPDATE {numbers} SET v = 2 WHERE k = 2").counts == [1]
    assert two.error(f"UPDATE {numbers} SET v = 2 WHERE k = 1").number == 1222
    one.ok("COMMIT")
    assert two.rows(f"SELECT v FROM {numbers} ORDER BY k") == [(1,), (2,), (0,)]


def test_a_name_that_is_used_again_is_the_last_savepoint(client: Any, numbers: str) -> None:
    client.ok(f"BEGIN TRAN; SAVE TRAN s; UPDATE {numbers} SET v = 1; SAVE TRAN s; UPDATE {numbers} SET v = 2")
    assert client.value(f"ROLLBACK TRAN s; SELECT MAX(v) FROM {numbers}") == 1
    assert client.value(f"ROLLBACK TRAN s; ROLLBACK TRAN s; SELECT MAX(v) FROM {numbers}") == 1
    assert client.error("ROLLBACK TRAN nowhere").number == 6401
    assert client.value(f"ROLLBACK; SELECT MAX(v) FROM {numbers}") == 0


def test_savepoints_end_with_their_transaction(client: Any) -> None:
    client.ok("BEGIN TRAN; SAVE TRAN s; COMMIT; BEGIN TRAN")
    assert client.error("ROLLBACK TRAN s").number == 6401
    client.ok("ROLLBACK")


def test_a_rollback_to_a_savepoint_in_a_nested_transaction(client: Any, numbers: str) -> None:
    """It leaves @@TRANCOUNT alone; ROLLBACK without a name ends all levels."""
    client.ok(f"BEGIN TRAN a; BEGIN TRAN b; SAVE TRAN s; UPDATE {numbers} SET v = 1; ROLLBACK TRAN s")
    assert client.value("SELECT @@TRANCOUNT") == 2
    assert client.error("ROLLBACK TRAN b").number == 6401
    assert client.value(f"ROLLBACK TRAN a; SELECT @@TRANCOUNT + MAX(v) FROM {numbers}") == 0


_ERRORS = {
    "a duplicate key": ("INSERT {} VALUES (1, 1)", 2627),
    "a division": ("SELECT 1 / 0", 8134),
    "an overflow": ("INSERT {} VALUES (8, 2147483647 + 1)", 8115),
    "a timeout": ("SET LOCK_TIMEOUT 0; UPDATE {} SET v = 1", 1222),
    "THROW": ("THROW 50001, N'x', 1", 50001),
}


@pytest.mark.parametrize("error", _ERRORS)
@pytest.mark.parametrize("abort", ["OFF", "ON"])
def test_xact_abort_ends_transactions_and_batches(connect: Connect, numbers: str, error: str, abort: str) -> None:
    """OFF: the statement alone is undone, as a rule. ON: the transaction is rolled back, and the locks are gone."""
    one, two = connect(), connect()
    text, number = _ERRORS[error]
    two.ok(f"BEGIN TRAN; UPDATE {numbers} SET v = 9 WHERE k = 2")
    one.ok(f"SET XACT_ABORT {abort}; BEGIN TRAN; INSERT {numbers} VALUES (9, 9)")
    found = one.run(f"{text.format(numbers)}; SELECT 1")
    assert found.errors == [number]
    assert bool(found.results) == (abort == "OFF" and error != "THROW")
    assert one.value("SELECT @@TRANCOUNT") == (0 if abort == "ON" else 1)
    left = two.run(f"SET LOCK_TIMEOUT 0; UPDATE {numbers} SET v = 1 WHERE k = 9; INSERT {numbers} VALUES (9, 0)")
    assert left.errors == ([] if abort == "ON" else [1222])
    one.run("IF @@TRANCOUNT > 0 ROLLBACK")
    two.ok("ROLLBACK")


def test_raiserror_ignores_xact_abort(client: Any, numbers: str) -> None:
    found = client.run(
        f"SET XACT_ABORT ON; BEGIN TRAN; UPDATE {numbers} SET v = 1; RAISERROR('x', 16, 1); SELECT @@TRANCOUNT"
    )
    assert (found.errors, found.results) == ([50000], [[(1,)]])
    client.ok("COMMIT")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT {} VALUES (8, 8)", 3930),
        ("UPDATE {} SET v = 1 WHERE k = 2", 3930),
        ("DELETE {}", 3930),
        ("COMMIT", 3930),
        ("SAVE TRAN t", 3931),
        ("ROLLBACK TRAN s", 3931),
        ("TRUNCATE TABLE {}", 3930),
        ("CREATE TABLE {}x (a int)", 3930),
    ],
)
def test_an_uncommittable_transaction_can_only_be_rolled_back(
    client: Any, numbers: str, text: str, number: int
) -> None:
    """XACT_STATE() is -1: it can read, but not write, commit, or go back to a savepoint."""
    client.ok("SET XACT_ABORT ON; BEGIN TRAN; SAVE TRAN s")
    handler = (
        f"SELECT XACT_STATE(), @@TRANCOUNT, COUNT(*) FROM {numbers}; BEGIN TRY {text.format(numbers)} END TRY"
        " BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE() END CATCH; ROLLBACK; SELECT @@TRANCOUNT"
    )
    found = client.run(f"BEGIN TRY INSERT {numbers} VALUES (1, 1) END TRY BEGIN CATCH {handler} END CATCH")
    assert (found.errors, found.results) == ([], [[(-1, 1, 3)], [(number, -1)], [(0,)]])
    assert client.value(f"SELECT COUNT(*) FROM {numbers}") == 3


def test_without_xact_abort_a_caught_error_leaves_the_transaction(client: Any, numbers: str) -> None:
    tried = f"BEGIN TRY INSERT {numbers} VALUES (8, 8); INSERT {numbers} VALUES (1, 1) END TRY"
    found = client.ok(f"BEGIN TRAN; {tried} BEGIN CATCH SELECT XACT_STATE(); COMMIT END CATCH")
    assert found.results == [[(1,)]]
    assert client.value(f"SELECT COUNT(*) FROM {numbers}") == 4
