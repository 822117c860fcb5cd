"""None as a parameter whose type the server cannot deduce.

The driver asks the server to describe the statement first. That fails without a word, and under XACT_ABORT ON it takes
the transaction along ("sp_describe_undeclared_parameters (Transact-SQL)", "SET XACT_ABORT (Transact-SQL)").
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.errors import BatchError, StatementError, TransactionError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.conftest import Server
from tests.contract.conftest import run_sql
from tests.drains import bodies


def test_a_part_without_a_file_shares_the_fate_of_its_rows(queue: QueueTable) -> None:
    """Such parts are all of the stage ``table``, and parts of files without a row to write."""
    session = queue.session
    queue.send([Message(body=b"a"), Message(body=b"b")])
    ledger, batch_id = Ledger(session, queue.address.catalog), uuid.uuid4()
    ledger.create()
    ledger.open(batch_id, queue.address.canonical, 2)
    session.begin()
    queue.receive(1)
    ledger.commit_part(
        batch_id, Part(uuid.uuid4(), None, messages=1, bytes=2, min_row_version=1, max_row_version=1), "worker"
    )
    session.committed()
    assert [part.path for part in ledger.parts(batch_id)] == [None]
    assert bodies(queue) == [b"b"]


def test_a_batch_of_an_empty_queue_is_opened(queue: QueueTable) -> None:
    ledger, batch_id = Ledger(queue.session, queue.address.catalog), uuid.uuid4()
    ledger.create()
    assert ledger.open(batch_id, queue.address.canonical, None).up_to is None
    assert ledger.open(batch_id, queue.address.canonical, 7).up_to is None


def by_cursor(session: Session, table: str) -> None:
    session.enlisted_connection().execute(f"INSERT INTO {table} (n) SELECT ?", None)


def by_cursor_in_a_list(session: Session, table: str) -> None:
    session.enlisted_connection().cursor().execute(f"INSERT INTO {table} (n) SELECT ? WHERE 1 = ?", [None, 1])


def by_executemany(session: Session, table: str) -> None:
    session.enlisted_connection().cursor().executemany(f"INSERT INTO {table} (n) SELECT ?", [(1,), (None,)])


def by_session(session: Session, table: str) -> None:
    session.run(Query("own", "run the statement", f"INSERT INTO {table} (n) SELECT ?"), None)


def described(handle: Callable[[], None]) -> bool:
    try:
        handle()
    except TransactionError:
        return False
    return True


@pytest.mark.parametrize("insert", [by_cursor, by_cursor_in_a_list, by_executemany, by_session])
def test_a_statement_that_loses_the_transaction_is_not_committed_on_its_own(
    server: Server, queue: QueueTable, insert: Callable[[Session, str], None]
) -> None:
    """A failed description ends the transaction, as the documentation suggests, or all statements are done."""
    session, table = queue.session, f"[n_{uuid.uuid4().hex[:12]}]"
    run_sql(session, f"CREATE TABLE {table} (n int NULL)")
    queue.send([Message(body=b"a")])

    def handle() -> None:
        with session.transaction():
            queue.receive(1)
            insert(session, table)
            queue.send([Message(body=b"b")])

    try:
        if not isinstance(server, FakeServer) and described(handle):
            assert bodies(queue) == [b"b"]
            assert None in [n for (n,) in run_sql(session, f"SELECT n FROM {table}")]
            return
        with pytest.raises(TransactionError, match="is gone"):
            handle()
        assert bodies(queue) == [b"a"]
        assert run_sql(session, f"SELECT n FROM {table}") == []
        with session.transaction():
            connection = session.enlisted_connection()
            connection.execute(f"INSERT INTO {table} (n) VALUES (?)", None)
            assert connection.execute("SELECT CAST(? AS int), 7", None).fetchone()[1] == 7
        assert [n for (n,) in run_sql(session, f"SELECT n FROM {table}")] == [None], "VALUES tell the type"
    finally:
        run_sql(session, f"DROP TABLE {table}")


@pytest.mark.parametrize("text", ["ROLLBACK TRANSACTION", "COMMIT TRANSACTION"])
def test_a_statement_that_ends_the_transaction_is_found_out(queue: QueueTable, text: str) -> None:
    session = queue.session
    queue.send([Message(body=b"a")])

    def handle(go_on: bool) -> None:
        with session.transaction():
            session.enlisted_connection().execute(text)
            if go_on:
                queue.send([Message(body=b"b")])

    for go_on in (True, False):
        with pytest.raises(TransactionError, match="is gone"):
            handle(go_on)
    assert bodies(queue) == [b"a"]


def test_an_error_after_the_commit_that_counts_transactions_is_no_failure(queue: QueueTable) -> None:
    """Error 266 is of the number of open transactions, after the statement; another error is raised."""
    numbers: list[int] = []

    class Counting(Session):
        def results(self, statement: Query, *values: Any, **options: Any) -> Any:
            found = super().results(statement, *values, **options)
            if numbers and statement.name == "ledger.commit_part":
                raise StatementError("refused", numbers.pop())
            return found

    batch_id = uuid.uuid4()
    Ledger(queue.session, queue.address.catalog).create()
    Ledger(queue.session, queue.address.catalog).open(batch_id, queue.address.canonical, 2)
    with Counting(queue.session.settings) as session:
        ledger = Ledger(session, queue.address.catalog)
        for number, raised in ((266, nullcontext()), (8115, pytest.raises(StatementError))):
            numbers.append(number)
            part = Part(uuid.uuid4(), "x", messages=1, min_row_version=1, max_row_version=1)
            session.begin()
            with raised:
                ledger.commit_part(batch_id, part, "worker")
            session.committed()
        assert numbers == []
        assert len(ledger.parts(batch_id)) == 2


def test_error_266_after_the_commit_of_a_part_counts_as_done(queue: QueueTable) -> None:
    """As where XACT_ABORT does not silence it: a COMMIT in a statement with parameters changes the count."""
    session, batch_id = queue.session, uuid.uuid4()
    queue.send([Message(body=b"a"), Message(body=b"b")])
    ledger = Ledger(session, queue.address.catalog)
    ledger.create()
    ledger.open(batch_id, queue.address.canonical, 2)
    run_sql(session, "SET XACT_ABORT OFF")
    session.begin()
    queue.receive(1)
    ledger.commit_part(batch_id, Part(uuid.uuid4(), "x", messages=1, min_row_version=1, max_row_version=1), "worker")
    session.committed()
    assert len(ledger.parts(batch_id)) == 1
    session.begin()
    queue.receive(1)
    with pytest.raises(BatchError, match="was sealed meanwhile"):
        ledger.commit_part(
            uuid.uuid4(), Part(uuid.uuid4(), "x", messages=1, min_row_version=1, max_row_version=1), "worker"
        )
    session.roll_back()
    assert bodies(queue) == [b"b"]
