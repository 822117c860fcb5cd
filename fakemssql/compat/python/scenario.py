"""Scenario of a user of queue tables, through a Python driver. ``compat/scenario.py`` describes the variables."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import metadata
from typing import Any

SIZES = (300, 0, 100_000)
Cancel = Callable[[Any, Any], None]
"""Function that cancels the statement of a cursor of a connection."""


def given(name: str) -> str:
    return os.environ[f"COMPAT_{name}"]


def say(step: str, **facts: object) -> None:
    print(json.dumps({"step": step, **facts}), flush=True)  # noqa: T201 - its output is its purpose


class Driver(ABC):
    """Driver: it connects, marks parameters, reports errors and cancels.

    Any exception counts as the error of a statement, because each driver has its own classes.
    """

    mark = "?"
    binary: Callable[[bytes], Any] = bytes

    @abstractmethod
    def connect(self) -> Any: ...

    @abstractmethod
    def version(self) -> str: ...

    def number(self, connection: Any, text: str) -> int:
        """Number of the error that ends a statement; 0 without an error."""
        try:
            run(connection, text)
        except Exception as error:
            # The message of ODBC ends with the number in parentheses: "... (208) (SQLExecDirectW)".
            return int(re.findall(r"\((\d+)\)", str(error))[-1])
        return 0

    def cancelled(self, connection: Any, text: str) -> float | None:
        """Seconds after which a cancelled statement ended with an error; None if it ended without one."""
        cursor = connection.cursor()
        timer = threading.Timer(0.5, self.cancel, (connection, cursor))
        started = time.monotonic()
        timer.start()
        try:
            cursor.execute(text)
        except Exception:
            return time.monotonic() - started
        finally:
            timer.cancel()
        return None

    def cancel(self, connection: Any, cursor: Any) -> None:
        cursor.cancel()


class PyODBC(Driver):
    """Driver pyodbc with Microsoft's driver, or with FreeTDS and a version of TDS."""

    def __init__(self, tds_version: str | None = None) -> None:
        self._tds_version = tds_version

    def connect(self) -> Any:
        import pyodbc

        from fakemssql import odbc

        pyodbc.pooling = False
        driver, mode = odbc.find_driver(), given("MODE")
        keywords = {"Encrypt": {"login": "no", "full": "yes"}.get(mode, mode)}
        if self._tds_version:
            driver = "FreeTDS" if "FreeTDS" in pyodbc.drivers() else given("FREETDS")
            keywords["TDS_Version"] = self._tds_version
            keywords["Encrypt"] = {"plain": "no", "login": "request", "full": "yes"}[mode]
        elif mode == "strict":
            keywords["ServerCertificate"] = given("CERTIFICATE")
        else:
            keywords["TrustServerCertificate"] = "yes"
        assert driver, "there is no driver"
        login = odbc.ServerLogin(given("HOST"), int(given("PORT")), given("USER"), given("PASSWORD"))
        text = odbc.connection_string(driver, login, given("DATABASE"), keywords)
        return pyodbc.connect(text, autocommit=True, timeout=20)

    def version(self) -> str:
        import pyodbc

        with_driver = self.connect()
        try:
            driver = with_driver.getinfo(pyodbc.SQL_DRIVER_VER)
        finally:
            with_driver.close()
        return f"{pyodbc.version}, driver {driver}"


class PyMsSql(Driver):
    """Driver pymssql, which contains FreeTDS."""

    mark = "%s"
    # It writes parameters into the text, and empty bytes as a string.
    binary = bytearray

    def connect(self) -> Any:
        import pymssql

        encryption = {"plain": "off", "login": "request", "full": "require"}[given("MODE")]
        login = given("HOST"), given("USER"), given("PASSWORD"), given("DATABASE")
        return pymssql.connect(
            *login, port=given("PORT"), login_timeout=20, encryption=encryption, autocommit=True, tds_version="7.4"
        )

    def version(self) -> str:
        return metadata.version("pymssql")

    def number(self, connection: Any, text: str) -> int:
        try:
            run(connection, text)
        except Exception as error:
            return int(error.args[0])
        return 0

    def cancel(self, connection: Any, cursor: Any) -> None:
        # The module's only public way is a timeout, after which the connection cannot be used.
        connection._conn.cancel()


class MsSqlPython(Driver):
    """Driver mssql-python of Microsoft."""

    def connect(self) -> Any:
        import mssql_python

        mssql_python.pooling(enabled=False)
        mode = given("MODE")
        trust = f"ServerCertificate={given('CERTIFICATE')}" if mode == "strict" else "TrustServerCertificate=yes"
        encrypt = {"login": "no", "full": "yes", "strict": "strict"}[mode]
        return mssql_python.connect(
            f"SERVER={given('HOST')},{given('PORT')};DATABASE={given('DATABASE')};UID={given('USER')};"
            f"PWD={{{given('PASSWORD')}}};Encrypt={encrypt};{trust}",
            autocommit=True,
        )

    def version(self) -> str:
        return metadata.version("mssql-python")

    def number(self, connection: Any, text: str) -> int:
        # Its exceptions have the text of an error but not the number.
        inner = text.replace("'", "''")
        caught = f"BEGIN TRY EXECUTE (N'{inner}') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
        return int(rows_of(connection.cursor(), caught)[0][0])

    def cancelled(self, connection: Any, text: str) -> float | None:
        # Only a timeout cancels, in whole seconds.
        connection.timeout = 1
        started = time.monotonic()
        try:
            connection.cursor().execute(text)
        except Exception:
            return time.monotonic() - started
        finally:
            connection.timeout = 0
        return None


DRIVERS: dict[str, Driver] = {
    "pyodbc-microsoft": PyODBC(),
    "pyodbc-freetds": PyODBC("7.4"),
    "pyodbc-freetds-7.1": PyODBC("7.1"),
    "pyodbc-freetds-7.2": PyODBC("7.2"),
    "pymssql": PyMsSql(),
    "mssql-python": MsSqlPython(),
}


def rows_of(cursor: Any, text: str) -> list[Any]:
    """Rows of the first result set; all results are read."""
    cursor.execute(text)
    while cursor.description is None:
        if not cursor.nextset():
            return []
    found: list[Any] = cursor.fetchall()
    while cursor.nextset():
        pass
    return found


def run(connection: Any, text: str) -> None:
    cursor = connection.cursor()
    cursor.execute(text)
    while cursor.nextset():
        pass


def value(connection: Any, text: str) -> Any:
    return rows_of(connection.cursor(), text)[0][0]


def set_autocommit(connection: Any, on: bool) -> None:
    switch = connection.autocommit
    if callable(switch):
        switch(on)
    else:
        connection.autocommit = on


def send(connection: Any, driver: Driver, number: int) -> None:
    headers = json.dumps({"Number": str(number), "Greeting": "Grüße Ω 😀"}, ensure_ascii=False, separators=(",", ":"))
    values = {
        "Id": f"00000000-0000-0000-0000-{number:012}",
        "Ttbr": None,
        "Headers": headers,
        "Body": driver.binary(bytes((index * 7 + number) % 256 for index in range(SIZES[number - 1]))),
    }
    names = re.findall(r"@(\w+)", given("SEND"))
    text = re.sub(r"@\w+", driver.mark, given("SEND"))
    connection.cursor().execute(text, tuple(values[name] for name in names))


def received(connection: Any) -> list[str] | None:
    rows = rows_of(connection.cursor(), given("RECEIVE"))
    if not rows:
        return None
    identity, _, headers, body = rows[0]
    return [str(identity).lower(), hashlib.sha256(headers.encode() + body).hexdigest()]


def receive(first: Any, second: Any) -> None:
    set_autocommit(first, False)
    set_autocommit(second, False)
    held = received(first)
    others = [received(second) for _ in range(3)]
    first.rollback()
    again = received(second)
    second.commit()
    set_autocommit(first, True)
    set_autocommit(second, True)
    say("receive", held=held, others=others, again=again, left=value(first, given("COUNT")))


def main(name: str) -> None:
    driver = DRIVERS[name]
    first, second = driver.connect(), driver.connect()
    say("client", version=driver.version())
    say("login", connection=value(first, given("CONNECTION")))
    run(first, given("CREATE"))
    run(first, given("PREPARE"))
    say("create", tables=value(first, given("TABLES")))
    for number in range(1, len(SIZES) + 1):
        send(first, driver, number)
    say("send", count=value(first, given("COUNT")))
    receive(first, second)
    set_autocommit(first, False)
    run(first, given("HOLD"))
    say("errors", numbers=[driver.number(second, text) for text in given("ERRORS").split("\n")])
    run(second, "SET LOCK_TIMEOUT -1")
    waiting, blocked = (driver.cancelled(second, given(name)) for name in ("WAIT", "BLOCKED"))
    say("cancel", waiting=waiting, blocked=blocked, after=value(second, "SELECT 7"))
    first.rollback()
    set_autocommit(first, True)
    run(first, given("DROP"))
    first.close()
    second.close()


if __name__ == "__main__":
    main(sys.argv[1])
