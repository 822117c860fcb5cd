"""Application locks: modes, owners, how often, how long, and what is returned.

Source, on learn.microsoft.com: "sp_getapplock (Transact-SQL)"
(/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql), "sp_releaseapplock (Transact-SQL)".
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import pytest

from fakemssql.tsql.engine import Engines
from support.engine_client import Client
from support.waiting import waiting

Connect = Callable[..., Any]


@pytest.fixture
def resource(table: str) -> str:
    return f"lock of {table}"


def get(resource: str, mode: str = "Exclusive", owner: str = "Session", timeout: int | None = 0) -> str:
    """A batch that takes a lock and selects what the procedure returns."""
    wait = "" if timeout is None else f", @LockTimeout = {timeout}"
    return (
        f"DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'{resource}', @LockMode = '{mode}',"
        f" @LockOwner = '{owner}'{wait}; SELECT @r"
    )


def release(resource: str, owner: str = "Session") -> str:
    return f"DECLARE @r int; EXEC @r = sp_releaseapplock @Resource = N'{resource}', @LockOwner = '{owner}'; SELECT @r"


@pytest.mark.parametrize("first", ["Shared", "Exclusive"])
@pytest.mark.parametrize("second", ["Shared", "Exclusive"])
def test_compatible_modes(connect: Connect, resource: str, first: str, second: str) -> None:
    one, two = connect(), connect()
    assert one.value(get(resource, first)) == 0
    together = first == second == "Shared"
    assert two.value(get(resource, second)) == (0 if together else -1)
    assert one.value(release(resource)) == 0
    assert connect().value(get(resource, "Exclusive")) == (-1 if together else 0)


@pytest.mark.parametrize("mode", ["Update", "IntentShared", "IntentExclusive"])
def test_other_modes_are_refused(client: Any, resource: str, mode: str) -> None:
    assert client.error(get(resource, mode)).number == 40517


def test_a_transaction_s_lock_ends_with_it(connect: Connect, resource: str) -> None:
    one, two = connect(), connect()
    for end in ("COMMIT", "ROLLBACK"):
        assert one.value("BEGIN TRAN; " + get(resource, owner="Transaction")) == 0
        assert two.value(get(resource)) == -1
        one.ok(end)
        assert two.value(get(resource)) == 0
        assert two.value(release(resource)) == 0


def test_a_session_s_lock_outlives_transactions_and_ends_with_the_session(
    engines: Engines, client: Any, resource: str
) -> None:
    session = engines.open("shop", "sa", lambda fd: select.select([fd], [], []))
    try:
        Client(session).ok("BEGIN TRAN; " + get(resource) + "; ROLLBACK")
        assert client.value(get(resource)) == -1
    finally:
        session.close()
    assert client.value(get(resource, timeout=10_000)) in (0, 1)


def test_an_application_lock_is_released_as_often_as_it_was_taken(connect: Connect, resource: str) -> None:
    one, two = connect(), connect()
    for _ in range(2):
        assert one.value(get(resource)) == 0
    for expected in (-1, 0):
        assert one.value(release(resource)) == 0
        assert two.value(get(resource)) == expected
    found = one.run(release(resource))
    assert (found.errors, found.results) == ([1223], [[(-999,)]])


def test_session_and_transaction_own_locks_separately(connect: Connect, resource: str) -> None:
    one, two = connect(), connect()
    one.ok("BEGIN TRAN; " + get(resource))
    assert one.value(get(resource, owner="Transaction")) == 0
    assert one.value(release(resource)) == 0
    assert two.value(get(resource)) == -1
    assert one.value(release(resource, "Transaction")) == 0
    assert two.value(get(resource)) == 0


@pytest.mark.parametrize("begin", ["", "BEGIN TRAN; "])
def test_the_return_codes(connect: Connect, client: Any, resource: str, begin: str) -> None:
    """0 at once, 1 after a wait, -1 after the timeout; the timeout is @@LOCK_TIMEOUT unless it is given."""
    one, two = connect(), connect()
    owner = "Transaction" if begin else "Session"
    assert one.value(get(resource)) == 0
    assert two.value(begin + get(resource, owner=owner, timeout=20)) == -1
    assert two.value("SET LOCK_TIMEOUT 20; " + get(resource, owner=owner, timeout=None)) == -1
    assert two.value("SELECT @@TRANCOUNT") == (1 if begin else 0)
    two.ok("SET LOCK_TIMEOUT -1")
    with waiting(client, two, get(resource, owner=owner, timeout=None)) as waiter:
        assert one.value(release(resource)) == 0
    assert waiter.result.results == [[(1,)]]


def test_bad_calls(client: Any, resource: str) -> None:
    """-999, with an error where there is no transaction to own the lock."""
    found = client.run(get(resource, owner="Transaction"))
    assert (found.errors, found.results) == ([50000], [[(-999,)]])
    assert client.value(get(resource, mode="Total")) == -999
    assert client.value(get(resource, owner="Nobody")) == -999
    assert client.value(get(resource, timeout=-2)) == -999


def test_a_deadlock_over_it_leaves_the_transaction(connect: Connect, client: Any, resource: str) -> None:
    """-3, and any rollback is the caller's."""
    one, two = connect(), connect()
    one.ok("BEGIN TRAN; " + get(resource, owner="Transaction"))
    two.ok("BEGIN TRAN; " + get(resource + "2", owner="Transaction"))
    wanted = [
        get(name, owner="Transaction", timeout=None) + ", @@TRANCOUNT; ROLLBACK" for name in (resource, resource + "2")
    ]
    with waiting(client, one, wanted[1]) as waiter:
        second = two.ok(wanted[0])
    assert sorted([waiter.result.results[0][0], second.results[0][0]]) == [(-3, 1), (1, 1)]


def test_a_resource_is_of_a_database(connect: Connect, resource: str) -> None:
    one, two = connect(), connect(database="Other.Catalog")
    assert one.value(get(resource)) == 0
    assert two.value(get(resource)) == 0
    assert two.value(get(resource).replace("sp_getapplock", "shop.sys.sp_getapplock")) == -1


def test_a_name_is_compared_to_the_letter_and_cut(connect: Connect, resource: str) -> None:
    """Names are binary, and of more than 255 characters the first 255 count."""
    one, two = connect(), connect()
    assert one.value(get(resource)) == 0
    assert two.value(get(resource.upper())) == 0
    assert one.value(get(resource + "x" * 300)) == 0
    assert two.value(get(resource + "x" * 400)) == -1
