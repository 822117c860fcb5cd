"""Errors of a caller's own statements: the number, what it means, and no value."""

from __future__ import annotations

import sys
import traceback
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from airflow_sqlqueue.errors import RowRefusedError, StatementError, UnsupportedServerError
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.server.translation import state_and_number
from tests.contract.conftest import Recorder, run_sql

SECRET = "s3cret"


@pytest.fixture(scope="module")
def session(settings: object) -> Iterator[Session]:
    with Session(settings) as session:  # type: ignore[arg-type]
        yield session


def test_a_session_that_cannot_be_prepared_leaves_no_connection(
    settings: ConnectionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def refuse(session: Session) -> int:
        opened.append(session._connection)
        raise UnsupportedServerError("too old")

    monkeypatch.setattr(Session, "_prepare", refuse)
    with pytest.raises(UnsupportedServerError):
        Session(settings)
    assert [connection.closed for connection in opened] == [True]


def test_the_driver_calls_no_python_code_to_make_an_error(settings: ConnectionSettings) -> None:
    """A signal's handler could run in such a call, and the driver would drop its exception."""
    called = []
    with closing(open_connection(settings)) as connection, closing(connection.cursor()) as cursor:
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            cursor.execute("SELECT 1 / 0").fetchall()
        except Exception as error:
            raised = error
        finally:
            sys.setprofile(None)
    assert state_and_number(raised)[1] == 8134
    assert called == []


@pytest.fixture(scope="module")
def table(session: Session) -> Iterator[str]:
    name = f"[dbo].[test.{uuid.uuid4().hex[:12]}]"
    run_sql(
        session,
        f"CREATE TABLE {name} ([Id] int NOT NULL PRIMARY KEY, [Code] nvarchar(4) NOT NULL, [Small] tinyint NULL, "
        f"[Date] datetime NULL, CHECK ([Id] < 100)); INSERT INTO {name} ([Id], [Code]) VALUES (1, N'a'); "
        f"CREATE UNIQUE INDEX [one] ON {name} ([Code])",
    )
    yield name
    run_sql(session, f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("INSERT INTO {0} ([Id], [Code]) VALUES (2, NULL)", "515 (NULL for a column that takes none)"),
        ("INSERT INTO {0} ([Id], [Code]) VALUES (1, N's3c')", "2627 (a primary key or UNIQUE constraint has that key"),
        ("INSERT INTO {0} ([Id], [Code]) VALUES (3, N'a')", "2601 (a unique index has that key already)"),
        ("INSERT INTO {0} ([Id], [Code]) VALUES (100, N'b')", "547 (a foreign key or a CHECK constraint does not"),
        ("INSERT INTO {0} ([Id], [Code]) VALUES (4, N's3cret')", "(a value is too long for its column)"),
        ("INSERT INTO {0} ([Id], [Code]) VALUES (N's3cret', N'c')", "245 (a value cannot be converted to the type of"),
        ("INSERT INTO {0} ([Id], [Code], [Small]) VALUES (5, N'd', 300)", "220 (a number is too large for its type)"),
        ("INSERT INTO {0} ([Id], [Code], [Date]) VALUES (6, N'e', N's3cret')", "241 (a text is not a date or time)"),
        ("SELECT 1 / ([Id] - 1) FROM {0}", "8134 (a division by zero)"),
        ("SELECT [s3cret] FROM {0}", "207 (there is no such column)"),
        ("SELECT FROM WHERE", "(the syntax is wrong"),
        ("EXEC [dbo].[s3cret]", "2812 (there is no such procedure)"),
    ],
)
def test_an_error_of_the_callers_own_statement_says_what_its_number_means(
    session: Session, table: str, sent_texts: Recorder, text: str, meaning: str
) -> None:
    with pytest.raises(StatementError) as failure:
        session.run(Query("mine", "run the statement", text.format(table)))
    assert str(failure.value).startswith("Could not run the statement: SQL Server answered with error ")
    assert meaning in str(failure.value)
    assert SECRET not in "".join(traceback.format_exception(failure.value))
    assert str(failure.value.number) in str(failure.value)
    sent_texts.take()


@pytest.mark.parametrize(
    ("text", "values", "says"),
    [
        ("SELECT ?", (), "failed with state 07002 (the statement takes more values than it was given)."),
        ("", (), "failed with state HY090 (the statement is empty)."),
        ("SELECT 1", (SECRET,), "refused it: The SQL contains 0 parameter markers, but 1 parameters were supplied."),
        ("SELECT ?", ({SECRET},), "refused it: Invalid parameter type.  param-index=0 param-type=set."),
    ],
)
def test_the_driver_refuses_a_statement_and_says_why(
    session: Session, sent_texts: Recorder, text: str, values: tuple[object, ...], says: str
) -> None:
    with pytest.raises(StatementError) as failure:
        session.run(Query("mine", "run the statement", text), *values)
    assert str(failure.value) == f"Could not run the statement: the driver {says}"
    assert SECRET not in "".join(traceback.format_exception(failure.value))
    sent_texts.take()


def test_a_session_goes_on_after_an_error_before_results(session: Session) -> None:
    """The error is held while the next statement runs: it keeps the cursor alive, whose results nobody reads."""
    many = "SELECT a.[name], b.[name] FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b WHERE a.[column_id] > ?"
    with pytest.raises(RowRefusedError) as failure:
        session.run(Query("mine", "run the statement", f"RAISERROR(N'no', 16, 1); {many}"), 0)
    assert session.value(Query("next", "run the next statement", "SELECT 2")) == 2
    assert failure.value.__traceback__ is not None
