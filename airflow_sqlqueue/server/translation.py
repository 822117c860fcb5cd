"""Our errors for the driver's.

The driver packs SQLSTATE, text and SQL Server's number into its exceptions; what callers need of them is the class.
"""

from __future__ import annotations

import re

from airflow_sqlqueue.errors import (
    ConnectionLostError,
    DataMovedError,
    DeadlockError,
    LockTimeoutError,
    QueueNotFoundError,
    ServerBusyError,
    SqlQueueError,
    StatementError,
    TransactionLostError,
)
from airflow_sqlqueue.server.permissions import permission_denied

_LOST = {"08S01", "08003", "08007", "01002"}
BUSY = {10928, 10929, 40197, 40501, 40540, 40613, 49918, 49919, 49920}
"""A server that fails over or is asked for too much (docs/transport/transactions.md, "Transient errors"): later it may
do."""

REPLICA = {976, 978, 983, 3906}
"""A database that is no primary replica, or not yet one again: after a failover another server is."""

_LOGIN = {4060, 4064, 15247, 18452, 18456, 18470, 18486, 18487, 18488}
_SERVER_STATE = {
    596,
    701,
    802,
    911,
    942,
    945,
    952,
    1101,
    1105,
    6002,
    6005,
    8645,
    8651,
    9002,
}
_PLAIN = (
    BUSY
    | REPLICA
    | _LOGIN
    | _SERVER_STATE
    | {229, 230, 262, 297, 300, 601, 916, 1204, 1205, 1222, 1934, 3621, 3902, 3903}
)
"""Errors whose texts quote no value of a row: of locks, space, permissions and logins; names are all that is in them.

What a trigger or a constraint says is not among them, nor what quotes a piece of a statement, which dynamic SQL may
have put together from a body.
"""


_GONE = 50002
_GONE_TEXT = "The transaction is gone."
"""Of session.in_transaction. The number alone may be that of somebody's trigger."""


def transaction_lost(error: Exception, purpose: str) -> TransactionLostError | None:
    """Our error where a statement began by finding its transaction gone, else None."""
    if state_and_number(error)[1] != _GONE or _GONE_TEXT not in _text(error):
        return None
    return TransactionLostError(
        f"Could not {purpose}: the transaction is gone and everything in it is rolled back, because a statement before "
        "ended it, or because None was given for a parameter whose type the server cannot deduce; write CAST(? AS ...) "
        "there, and run it again."
    )


def translate(error: Exception, purpose: str) -> SqlQueueError:
    """Our error for one of the driver's; ``purpose`` completes "Could not ..."."""
    if isinstance(error, SqlQueueError):
        return error
    state, number = state_and_number(error)
    if lost := transaction_lost(error, purpose):
        return lost
    if number == 1205:
        return DeadlockError(f"Could not {purpose}: the server chose it to break a deadlock; run it again.")
    if number == 1222:
        return LockTimeoutError(f"Could not {purpose}: others hold the locks for too long; try again later.")
    if number == 208:
        return QueueNotFoundError(
            f"Could not {purpose}: the table does not exist or the login has no permission on it; create it, check the "
            "address, or have the permission granted."
        )
    if number == 40515:
        return QueueNotFoundError(
            f"Could not {purpose}: the table is in another database, and Azure SQL Database reaches no other from a "
            "connection; connect to that database."
        )
    if number in BUSY:
        return ServerBusyError(f"Could not {purpose}: the server is failing over or overloaded; try again later.")
    if number in REPLICA:
        return ServerBusyError(
            f"Could not {purpose}: the database cannot be read or written on this server (error {number}), as while it "
            "fails over; try again later, or connect to its primary replica."
        )
    if number == 601:
        return DataMovedError(f"Could not {purpose}: rows were moved while it read them; run it again.")
    if denied := permission_denied(purpose, number, _text(error)):
        return denied
    if state in {"HYT00", "HYT01"}:
        return LockTimeoutError(f"Could not {purpose}: the statement ran into its timeout; try again later.")
    if state in _LOST:
        return ConnectionLostError(f"Could not {purpose}: the connection to the server was lost; run it again.")
    if number is not None:
        return StatementError(f"Could not {purpose}: SQL Server answered with error {number}.", number)
    return StatementError(f"Could not {purpose}: the driver failed with state {state or 'unknown'}.")


_NUMBER = re.compile(r"\((\d+)\) \(SQL\w+\)")


def state_and_number(error: Exception) -> tuple[str | None, int | None]:
    """The SQLSTATE and SQL Server's error number, as pyodbc packs them into its two arguments."""
    state = str(error.args[0]) if error.args else None
    numbers = [int(found) for found in _NUMBER.findall(str(error.args[1]))] if len(error.args) > 1 else []
    return state, next((number for number in numbers if number), None)


def _text(error: Exception) -> str:
    """What the server says in the first of the errors that pyodbc packs into one."""
    return re.split(r" \(\d+\) \(SQL\w+\)", str(error.args[1]))[0] if len(error.args) > 1 else ""


def quiet(error: Exception) -> BaseException:
    """The cause to keep: the driver's own words, and the server's where no value of a row can be in them.

    All else is reduced to number and SQLSTATE. A text may pretend to hold a number, so every number in it must be one
    of a plain error; the true one is among them.
    """
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    numbers = {int(found) for found in _NUMBER.findall(text)}
    if "[SQL Server]" not in text or (numbers and numbers <= _PLAIN):
        return error
    state, number = state_and_number(error)
    return RuntimeError(f"SQL Server error {number}, SQLSTATE {state}; its text is left out, as it may quote values.")
