"""The driver's errors become ours, without what they quote."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.errors import (
    ConfigurationError,
    ConnectionLostError,
    DataMovedError,
    DeadlockError,
    DriverNotFoundError,
    LockTimeoutError,
    LoginFailedError,
    PermissionDeniedError,
    QueueNotFoundError,
    RowRefusedError,
    ServerBusyError,
    ServerUnreachableError,
    SqlQueueError,
    StatementError,
    TransactionError,
    TransactionLostError,
    TransientError,
)
from airflow_sqlqueue.server.connection import refusal
from airflow_sqlqueue.server.reconnecting import passes
from airflow_sqlqueue.server.session import Session, retrying
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.translation import safe_cause, translate


@pytest.mark.parametrize("given", [-1, float("nan"), 1e10, "long"])
def test_a_lock_timeout_is_a_number_that_a_server_takes(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"lock_timeout is .*: give a number of seconds, 0 to 2,147,483"):
        Session(ConnectionSettings("nowhere", "shop"), lock_timeout=given)


def driver_error(state: str, number: int | None, text: str = "text") -> Exception:
    tail = f" ({number}) (SQLExecDirectW)" if number is not None else ""
    return Exception(state, f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text}{tail}")


@pytest.mark.parametrize(
    ("state", "number", "kind"),
    [
        ("40001", 1205, DeadlockError),
        ("42000", 1222, LockTimeoutError),
        ("HYT00", 0, LockTimeoutError),
        ("42S02", 208, QueueNotFoundError),
        ("S0001", 40515, QueueNotFoundError),
        ("42000", 229, PermissionDeniedError),
        ("42S02", 3701, PermissionDeniedError),
        *((state, 0, ConnectionLostError) for state in ("08S01", *(f"IMC0{number}" for number in range(1, 7)))),
        *(("HY000", number, ConnectionLostError) for number in (596, 6005)),
        ("42000", 601, DataMovedError),
        *(("42000", number, ServerBusyError) for number in (952, 976, 978, 983, 3906)),
        *(("42000", number, ServerBusyError) for number in (615, 921, 926, 1204, 4221, 17187, 18401, 40143, 40613)),
        # Conversions and lengths, constraints and unique indexes, transactions that a trigger ended, and THROW.
        *(("22003", number, RowRefusedError) for number in (220, 232, 241, 242, 245, 248, 295, 296, 517, 2628)),
        *(("22001", number, RowRefusedError) for number in (8114, 8115, 8152)),
        *(("23000", number, RowRefusedError) for number in (515, 547, 550, 2601, 2627)),
        *(("42000", number, RowRefusedError) for number in (3609, 3616, 50_000)),
        ("42000", 49_999, StatementError),
        ("HY000", None, StatementError),
    ],
)
def test_kinds(state: str, number: int | None, kind: type[SqlQueueError]) -> None:
    error = translate(driver_error(state, number), "send messages to the queue q")
    assert type(error) is kind
    assert str(error).startswith("Could not send messages to the queue q: ")


@pytest.mark.parametrize(
    ("state", "number", "kind"),
    [
        *(("42000", number, LoginFailedError) for number in (4060, 4064, 18456, 18470, 18486, 18487, 18488)),
        ("28000", 18452, LoginFailedError),
        ("28000", None, LoginFailedError),
        *(("42000", number, ServerBusyError) for number in (978, 40613, 18401, 596)),
        ("IM002", None, DriverNotFoundError),
        ("08001", 10061, ServerUnreachableError),
    ],
)
def test_kinds_of_refused_connections(state: str, number: int | None, kind: type[SqlQueueError]) -> None:
    assert type(refusal(ConnectionSettings("db.example", "shop"), driver_error(state, number))) is kind


def test_the_number_of_a_lost_transaction_may_be_that_of_a_trigger() -> None:
    ours, another = driver_error("42000", 50002, "The transaction is gone."), driver_error("42000", 50002, "Sold out.")
    assert type(translate(ours, "send")) is TransactionLostError
    assert isinstance(translate(ours, "send"), TransactionError)
    assert "unless a statement was COMMIT" in str(translate(ours, "send")), "then not all is rolled back"
    assert type(translate(another, "send")) is RowRefusedError


def test_a_table_that_is_missing_may_be_one_that_the_login_must_not_see() -> None:
    assert "does not exist or the login has no permission on it" in str(translate(driver_error("42S02", 208), "peek"))


def test_a_permission_is_read_from_the_first_of_several_errors() -> None:
    first = driver_error("42000", 300, "VIEW SERVER STATE permission was denied on object 'server', database 'master'.")
    rest = "; [42000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]object 'x', database 'y'. (297)"
    error = translate(Exception("42000", first.args[1] + rest), "look")
    assert isinstance(error, PermissionDeniedError)
    assert error.permission == "VIEW SERVER STATE"
    assert "on 'server' (database 'master')" in str(error)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2627, "The duplicate key value is (s3cret)."),
        (51000, "s3cret"),
        (105, "Unclosed quotation mark after the character string 's3cret'."),
        (102, "Incorrect syntax near 's3cret'."),
        (99999, "An error that nobody has heard of: s3cret"),
        (51000, "s3cret (1205) (SQLExecDirectW)"),
        (1205, "s3cret (0) (SQLExecDirectW); [42000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Deadlock"),
    ],
)
def test_the_servers_text_is_kept_only_for_errors_that_quote_no_values(number: int, text: str) -> None:
    noisy = driver_error("42000", number, text)
    ours = translate(noisy, "send")
    ours.__cause__ = safe_cause(noisy)
    assert "s3cret" not in "".join(traceback.format_exception(ours))
    assert "SQLSTATE 42000" in str(ours.__cause__)


def test_the_servers_text_is_kept_where_it_helps() -> None:
    full = driver_error("42000", 9002, "The transaction log for database 'shop' is full due to 'LOG_BACKUP'.")
    assert safe_cause(full) is full
    terminated = (
        full.args[1] + "; [01000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Terminated. (3621) (SQLE)"
    )
    assert "LOG_BACKUP" in str(safe_cause(Exception("42000", terminated)))
    drivers = Exception("08001", "[08001] [Microsoft][ODBC Driver 18 for SQL Server]SSL Provider: expired (-1) (SQLE)")
    assert safe_cause(drivers) is drivers


def numbers_of_the_manual() -> list[int]:
    """Error numbers of the page on transactions that come from the server; the others come from sockets."""
    text = Path("docs/transport/transactions.md").read_text().split("## Transient errors\n\n")[1].split("\n\n")[0]
    return [int(number) for number in re.findall(r"\b\d{3,5}\b", text) if int(number) not in SOCKETS]


SOCKETS = {233, 10053, 10054, 10060}


@pytest.mark.parametrize("number", numbers_of_the_manual())
def test_passing_errors_are_retried(number: int) -> None:
    error = translate(driver_error("42000", number), "look")
    assert isinstance(error, TransientError)
    assert passes(error, known=False)


def test_the_drivers_text_for_an_unrecoverable_connection_is_recognised() -> None:
    """As pyodbc packs it, with number 0."""
    text = (
        "[IMC06] [Microsoft][ODBC Driver 18 for SQL Server]The connection is broken and recovery is not possible. The "
        "connection is marked by the client driver as unrecoverable. No attempt was made to restore the connection. "
        "(0) (SQLExecDirectW)"
    )
    error = translate(Exception("IMC06", text), "take a part")
    assert type(error) is ConnectionLostError
    assert str(error) == "Could not take a part: the connection to the server was lost; run it again."


def test_work_is_run_again_after_a_deadlock_and_only_so_often() -> None:
    calls = []

    def work() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise DeadlockError("again")
        return "done"

    assert retrying(work) == "done"
    calls.clear()
    with pytest.raises(DeadlockError):
        retrying(work, attempts=2)
    assert len(calls) == 2
    with pytest.raises(ConnectionLostError):
        retrying(_lost)


def test_work_that_meets_one_deadlock_after_another_is_run_five_times() -> None:
    calls = []

    def work() -> None:
        calls.append(1)
        raise DeadlockError("again")

    with pytest.raises(DeadlockError):
        retrying(work)
    assert len(calls) == 5


def _lost() -> None:
    raise ConnectionLostError("gone")
