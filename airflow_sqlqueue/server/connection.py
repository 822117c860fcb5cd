"""Opening a connection with the ODBC driver, and the check of the server's version."""

from __future__ import annotations

import re
import socket
import threading
from codecs import utf_16_le_decode
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from airflow_sqlqueue import errors
from airflow_sqlqueue.extras import with_extra
from airflow_sqlqueue.server.browser import unknown_host
from airflow_sqlqueue.server.libraries import missing_for_driver
from airflow_sqlqueue.server.settings import ConnectionSettings, load_pyodbc
from airflow_sqlqueue.server.sql import query
from airflow_sqlqueue.server.translation import BUSY, LOGIN, LOST, REPLICA, safe_cause, state_and_number
from airflow_sqlqueue.threads import run_in_thread
from airflow_sqlqueue.untrusted import is_text

if TYPE_CHECKING:
    import pyodbc

_PROBE_SECONDS = 2.0
_CUT = ("eof", "syscall", "reset", "closed", "broken pipe", "error code 0x", "timeout")
"""Words for a connection that broke during the encryption handshake, for example because the server stopped."""

_INVALID = re.compile(r"Invalid value specified for connection string attribute '(\w+)'")
"""Text of Microsoft's driver, whose SQLSTATE is that of a server that does not answer."""

_WAREHOUSES = {
    6: "a dedicated SQL pool of Azure Synapse Analytics",
    11: "a warehouse or SQL analytics endpoint of Microsoft Fabric, or a serverless pool of Azure Synapse Analytics",
}
_WITH_VERSIONS = {1, 2, 3, 4}
"""Editions of SQL Server itself. Azure SQL Database reports version 12 but is newer than all of them."""

_OLDEST = 13
"""SQL Server 2016: the first with temporal tables and encrypted columns in the catalog; reading a layout needs both."""

_INSTEAD = "use SQL Server 2016 or later, Azure SQL Database, Azure SQL Managed Instance or SQL database in Fabric"


def open_connection(settings: ConnectionSettings, *, autocommit: bool = True) -> pyodbc.Connection:
    """Open a connection of the driver; raises the errors of :class:`.Session`."""
    pyodbc = load_pyodbc()
    settings = settings.located()
    text = settings.odbc_connection_string()
    _probe_port(settings)
    if not is_text(text):
        # The driver's own error has the whole text.
        raise errors.ConfigurationError(
            "The user, the password or an ODBC keyword of the connection holds half a surrogate pair, which is not "
            "text: correct it."
        )
    try:
        connection = _interruptible(lambda: _connect(text, settings))
        if not autocommit:
            connection.autocommit = False
    except pyodbc.Error as error:
        raise refusal(settings, error) from safe_cause(error)
    # Encoding of the driver's error texts and column names. The default, "utf-16le", is decoded by a function of the
    # standard library. A signal's handler can run inside that function, and the driver drops the handler's exception
    # (Ctrl-C, the end of a task). Python decodes "utf-16" without Python code. It takes a byte order mark at the start
    # as one: error texts start with the driver's name, and this package names the columns that it reads.
    connection.setdecoding(pyodbc.SQL_WMETADATA, encoding="utf-16")
    _accept_any_text(connection)
    return connection


def _interruptible(connect: Callable[[], pyodbc.Connection]) -> pyodbc.Connection:
    """Connect in a thread of its own if this is the main thread, in which Python runs the handlers of signals.

    A handler's exception (Ctrl-C, a task's time limit) inside pyodbc's connect would be dropped, or become a
    SystemError, and the driver takes the signal for a server that does not answer. A connection that is made after such
    an exception is closed.
    """
    if threading.current_thread() is not threading.main_thread():
        return connect()
    outcome = run_in_thread(connect, "connecting")
    try:
        return outcome.result()
    finally:
        if not outcome.done():
            outcome.add_done_callback(_close)


def _close(outcome: Future[pyodbc.Connection]) -> None:
    if outcome.exception() is None:
        outcome.result().close()


def _connect(text: str, settings: ConnectionSettings) -> pyodbc.Connection:
    """Connect with what pyodbc knows of the driver.

    pyodbc asks the driver once in a process for each connection string. Where that fails, as on a connection that is
    cut at once, it says nothing and takes defaults from then on, which cut the fractions of seconds off parameters
    (source: CnxnInfo_New in its cnxninfo.cpp). Another spelling of the string makes it ask again.
    """
    pyodbc, key, without = load_pyodbc(), sha256(text.encode("utf-8")).digest(), False
    while True:
        spelled = _spelling(text, _spellings.get(key, 0))
        connection = pyodbc.connect(
            spelled, autocommit=True, timeout=settings.login_timeout, attrs_before=settings.attributes()
        )
        if key in _known:
            return connection
        kept = _keeps_fractions(connection, settings.login_timeout)
        # A driver that has been asked and keeps none has none.
        if kept or (without and kept is False):
            _known.add(key)
            return connection
        _spellings[key] = _spellings.get(key, 0) + 1
        if kept is None:
            return connection
        connection.close()
        without = True


_known: set[bytes] = set()
"""Hashes of the connection strings whose driver pyodbc knows."""
_spellings: dict[bytes, int] = {}
"""Numbers of the spellings of connection strings, by their hashes."""


def _spelling(text: str, number: int) -> str:
    """Return the connection string with its first keyword in one of its 64 spellings: case does not matter in it."""
    word, rest = text[:6], text[6:]
    return "".join(each.lower() if number >> bit & 1 else each for bit, each in enumerate(word)) + rest


def _keeps_fractions(connection: pyodbc.Connection, seconds: int) -> bool | None:
    """Return whether a parameter keeps its fraction of a second; None without an answer.

    Without one the connection is lost, or the product is refused by a later statement.
    """
    moment = datetime(2000, 1, 1, microsecond=123456)  # noqa: DTZ001 - the server's type has no zone
    connection.timeout = seconds
    try:
        with closing(connection.cursor()) as cursor:
            found = cursor.execute(query("session.moment").text, moment).fetchval()
        connection.timeout = 0
    except load_pyodbc().Error:
        return None
    return bool(found == moment)


def refusal(settings: ConnectionSettings, error: Exception) -> errors.SqlQueueError:
    """Return our error for a failed connection."""
    state, number = state_and_number(error)
    text, where = str(error).lower(), settings.server
    if number in REPLICA:
        return errors.ServerBusyError(
            f"The database {settings.database!r} cannot be entered on the server at {where} (error {number}), as while "
            "it fails over: try again later, or connect to its primary replica."
        )
    if number in BUSY | LOST:
        return errors.ServerBusyError(f"The server at {where} starts, fails over or is overloaded: try again later.")
    if number in LOGIN or state == "28000":
        return _refused(settings)
    if found := _INVALID.search(str(error)):
        return errors.ConfigurationError(
            f"The driver does not take the value of the ODBC keyword {found[1]!r}: correct it, or leave it out."
        )
    if state in {"01000", "IM002", "IM003", "IM004"}:
        install = f"name an installed one, or run \"pip install '{with_extra('driver')}'\"."
        return errors.DriverNotFoundError(
            f"The ODBC driver {settings.driver or 'for SQL Server'!r} cannot be loaded: "
            f"{missing_for_driver(str(error)) or install}"
        )
    if "certificate" in text or ("ssl" in text and not any(word in text for word in _CUT)):
        return errors.UntrustedServerError(
            f"No trusted encrypted connection to {where}: install the server's certificate, or, if you may, switch "
            "on 'Trust server certificate' in the Airflow connection (TrustServerCertificate=yes elsewhere)."
        )
    return _unreachable(settings)


def _refused(settings: ConnectionSettings) -> errors.LoginFailedError:
    what, check = f"the login {settings.user!r}", "the login, the password and that the database exists"
    if settings.by_token:
        what, check = "the access token", "that its identity is a user of the database, and that it has not expired"
    elif settings.user is None:
        what, check = "a login without a name", "that Login and Password are given, or another way to log in"
    if settings.conn_id is not None:
        what += f" of the connection {settings.conn_id!r}"
    return errors.LoginFailedError(
        f"The server at {settings.server} refused {what} for the database {settings.database!r}: check {check}."
    )


def _accept_any_text(connection: pyodbc.Connection) -> None:
    """Make the connection read ``nvarchar`` with half a surrogate pair, which SQL Server stores and pyodbc cannot read.

    A deleted row that cannot be read would be lost.
    """
    pyodbc = load_pyodbc()
    for kind in (pyodbc.SQL_WCHAR, pyodbc.SQL_WVARCHAR, pyodbc.SQL_WLONGVARCHAR):
        connection.add_output_converter(kind, _any_text)


def _any_text(value: bytes) -> str:
    # bytes.decode, which uses the registry of codecs, takes twice as long; a drain runs this for every row.
    return utf_16_le_decode(value, "surrogatepass", True)[0]


def _probe_port(settings: ConnectionSettings) -> None:
    """Check that the port is open: after a refused connection the driver retries until its login timeout."""
    try:
        socket.create_connection((settings.host, settings.port), timeout=_PROBE_SECONDS).close()
    except ConnectionRefusedError as error:
        raise _unreachable(settings) from error
    except (socket.gaierror, UnicodeError) as error:
        raise unknown_host(error, settings.host) from error
    except OSError:
        pass  # The server is slow, or one of several addresses is down: the driver handles both.


def _unreachable(settings: ConnectionSettings) -> errors.ServerUnreachableError:
    return errors.ServerUnreachableError(
        f"No SQL Server answers at {settings.server}: check the host, the port and that the server runs."
    )


def check_product(edition: int, version: str, where: str) -> None:
    """Raise :class:`UnsupportedServerError` for a server that cannot have queue tables.

    ``edition`` and ``version`` are its properties EngineEdition and ProductVersion. Source: "SERVERPROPERTY
    (Transact-SQL)"; docs/concepts/connections.md, "SQL Server versions".
    """
    if edition in _WAREHOUSES:
        raise errors.UnsupportedServerError(
            f"The server at {where} is {_WAREHOUSES[edition]}, which has no queue tables: {_INSTEAD}."
        )
    major = version.partition(".")[0]
    if edition in _WITH_VERSIONS and major.isdecimal() and int(major) < _OLDEST:
        raise errors.UnsupportedServerError(
            f"The server at {where} has version {version}, before SQL Server 2016: {_INSTEAD}."
        )
