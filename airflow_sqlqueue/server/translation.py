"""Translation of the driver's errors to the exceptions of this package.

The driver's exceptions contain SQLSTATE, text and SQL Server's number; callers need a class.
"""

from __future__ import annotations

import re

from airflow_sqlqueue import errors
from airflow_sqlqueue.server.permissions import permission_denied

_LOST_STATES = {"08S01", "08003", "08007", "01002", "IMC01", "IMC02", "IMC03", "IMC04", "IMC05", "IMC06"}
"""SQLSTATEs of a broken connection. The last six mean that Microsoft's driver cannot restore an idle connection."""

LOST = {596, 6005}
"""Errors of a session that was ended, by KILL or by a shutdown of the server; the SQLSTATE varies."""

BUSY = {
    *(615, 921, 926, 1204, 4221, 10928, 10929, 17142, 17187, 18401),
    *(40143, 40197, 40501, 40540, 40613, 49918, 49919, 49920),
}
"""Errors of a server that starts, fails over or is overloaded (docs/transport/transactions.md, "Transient errors"); a
later try may succeed."""

REPLICA = {952, 976, 978, 983, 3906}
"""Errors of a database that is not, or not yet, a primary replica: after a failover another server has the primary."""

LOGIN = {4060, 4064, 18452, 18456, 18470, 18486, 18487, 18488}
"""Errors of a refused login, or of a database that it cannot open."""

_SERVER_STATE = {701, 802, 911, 942, 945, 1101, 1105, 6002, 8645, 8651, 9002}
_PLAIN = (
    BUSY
    | REPLICA
    | LOST
    | LOGIN
    | _SERVER_STATE
    | {229, 230, 262, 297, 300, 601, 916, 1205, 1222, 1934, 3621, 3902, 3903, 15247}
)
"""Errors about locks, space, permissions and logins, whose texts contain names but no value of a row.

Errors of triggers and constraints are not among them. Neither are errors that quote a part of a statement, because
dynamic SQL may have built the statement from a body.
"""


_OF_A_ROW = frozenset(
    {
        *(220, 232, 241, 242, 245, 248, 295, 296, 517, 8114, 8115, 8152, 2628),  # conversions and lengths
        *(515, 547, 550, 2601, 2627),  # constraints, views and unique indexes
        *(3609, 3616),  # a transaction that a trigger ended
    }
)
"""Errors that the values of one row cause."""

_FIRST_OF_USERS = 50_000
"""The first error number of THROW and RAISERROR, which triggers use."""

_GONE = 50002
_GONE_TEXT = "The transaction is gone."
"""The error of session.in_transaction. A user's trigger may have the same number, but not the same text."""

_LEFT_OPEN = 50003
_LEFT_OPEN_TEXT = "A transaction was left open."
"""The error of session.commit."""


_BY_NUMBER = {
    208: (
        errors.QueueNotFoundError,
        "the table does not exist or the login has no permission on it; create it, check the address, or have the "
        "permission granted.",
    ),
    1205: (errors.DeadlockError, "the server chose it to break a deadlock; run it again."),
    1222: (errors.LockTimeoutError, "others hold the locks for too long; try again later."),
    40515: (
        errors.QueueNotFoundError,
        "the table is in another database, and Azure SQL Database reaches no other from a connection; connect to that "
        "database.",
    ),
}
"""Classes and advice for single error numbers."""


def transaction_lost(error: Exception, purpose: str) -> errors.TransactionLostError | None:
    """Return our error if the check before a statement found no transaction, else None."""
    if state_and_number(error)[1] != _GONE or _GONE_TEXT not in _text(error):
        return None
    return errors.TransactionLostError(
        f"Could not {purpose}: the transaction is gone, because a statement before ended it, or because None was given "
        "for a parameter whose type the server cannot deduce; write CAST(? AS ...) there. Run it again, unless a "
        "statement was COMMIT, which keeps everything before it; otherwise everything in it is rolled back."
    )


def translate(error: Exception, purpose: str, own: str = "") -> errors.SqlQueueError:
    """Return our error for an error of the driver; ``purpose`` completes "Could not ...", ``own`` is our table."""
    if isinstance(error, errors.SqlQueueError):
        return error
    if isinstance(error, UnicodeError):
        return errors.MessageError(
            f"Could not {purpose}: a text holds half a surrogate pair, which is not text: remove it."
        )
    if isinstance(error, OverflowError):
        return errors.ConfigurationError(f"Could not {purpose}: a number is larger than any on the server: check it.")
    state, number = state_and_number(error)
    if lost := transaction_lost(error, purpose):
        return lost
    if number == _LEFT_OPEN and _LEFT_OPEN_TEXT in _text(error):
        return errors.TransactionError(
            f"Could not {purpose}: a statement in it began another transaction and left that open, so everything is "
            "rolled back; end what a statement begins by COMMIT TRANSACTION."
        )
    if number in _BY_NUMBER:
        kind, text = _BY_NUMBER[number]
        return kind(f"Could not {purpose}: {text}")
    if number in LOST or state in _LOST_STATES:
        return errors.ConnectionLostError(f"Could not {purpose}: the connection to the server was lost; run it again.")
    if number in BUSY:
        return errors.ServerBusyError(
            f"Could not {purpose}: the server starts, fails over or is overloaded (error {number}); try again later."
        )
    if number in REPLICA:
        return errors.ServerBusyError(
            f"Could not {purpose}: the database cannot be read or written on this server (error {number}), as while it "
            "fails over; try again later, or connect to its primary replica."
        )
    if number == 601:
        return errors.DataMovedError(f"Could not {purpose}: rows were moved while it read them; run it again.")
    if denied := permission_denied(purpose, number, _text(error)):
        return denied
    if state in {"HYT00", "HYT01"}:
        return errors.LockTimeoutError(f"Could not {purpose}: the statement ran into its timeout; try again later.")
    if number is not None:
        is_of_a_row = number in _OF_A_ROW or number >= _FIRST_OF_USERS
        meaning = f" ({_MEANINGS[number]})" if number in _MEANINGS else ""
        if number == 207 and own:
            meaning = f": {own} lacks a column, as an older version made it; run 'sqlqueue create <queue> --ledger'"
        text = f"Could not {purpose}: SQL Server answered with error {number}{meaning}."
        return (errors.RowRefusedError if is_of_a_row else errors.StatementError)(text, number)
    if state is None or not _STATE.fullmatch(state):
        # pyodbc itself refused the statement or its values; its texts quote neither.
        return errors.StatementError(f"Could not {purpose}: the driver refused it: {(state or 'unknown').rstrip('.')}.")
    meaning = f" ({_STATES[state]})" if state in _STATES else ""
    return errors.StatementError(f"Could not {purpose}: the driver failed with state {state}{meaning}.")


_STATE = re.compile("[0-9A-Z]{5}")
_STATES = {
    "07002": "the statement takes more values than it was given",
    "HY090": "the statement is empty",
}
"""Texts for the SQLSTATEs of a caller's own statements that do not reach the server."""


_MEANINGS = {
    102: "the syntax is wrong",
    156: "the syntax is wrong near a keyword",
    201: "a procedure needs further parameters",
    207: "there is no such column",
    213: "the numbers of values and columns differ",
    220: "a number is too large for its type",
    241: "a text is not a date or time",
    245: "a value cannot be converted to the type of another",
    515: "NULL for a column that takes none",
    544: "a value for an identity column",
    547: "a foreign key or a CHECK constraint does not allow it",
    2601: "a unique index has that key already",
    2627: "a primary key or UNIQUE constraint has that key already",
    2628: "a value is too long for its column",
    2812: "there is no such procedure",
    8114: "a value cannot be converted to the type that is wanted",
    8115: "a value is too large for its type",
    8134: "a division by zero",
    8152: "a value is too long for its column",
}
"""Texts for the usual errors of a caller's own statements. They quote nothing; the server's texts quote keys and values
("Database Engine events and errors")."""


_NUMBER = re.compile(r"\((\d+)\) \(SQL\w+\)")


def state_and_number(error: Exception) -> tuple[str | None, int | None]:
    """Return the SQLSTATE and SQL Server's error number from the two arguments of pyodbc's exception."""
    state = str(error.args[0]) if error.args else None
    numbers = [int(found) for found in _NUMBER.findall(str(error.args[1]))] if len(error.args) > 1 else []
    return state, next((number for number in numbers if number), None)


def _text(error: Exception) -> str:
    """Return the server's text of the first error in pyodbc's exception."""
    return re.split(r" \(\d+\) \(SQL\w+\)", str(error.args[1]))[0] if len(error.args) > 1 else ""


def safe_cause(error: Exception) -> BaseException:
    """Return the cause to keep: the driver's own text, or the server's text if it cannot contain a value of a row.

    Other texts are reduced to number and SQLSTATE. A value in the text may look like a number, so every number in the
    text, the true one included, must be in :data:`_PLAIN`.
    """
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    numbers = {int(found) for found in _NUMBER.findall(text)}
    if "[SQL Server]" not in text or (numbers and numbers <= _PLAIN):
        return error
    state, number = state_and_number(error)
    return RuntimeError(f"SQL Server error {number}, SQLSTATE {state}; its text is left out, as it may quote values.")
