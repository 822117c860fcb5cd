"""Error 266: a text with parameters, or a procedure, that ends with another @@TRANCOUNT than it began with."""

from __future__ import annotations

from typing import Any

import pytest

from fakemssql.tsql.datatypes.sqltypes import INT

NUMBER = {"n": (INT, 1)}


@pytest.mark.parametrize("statement", ["COMMIT TRANSACTION", "ROLLBACK TRANSACTION", "BEGIN TRANSACTION"])
def test_a_prepared_text_that_changes_the_count_gets_an_error(client: Any, statement: str) -> None:
    client.ok("BEGIN TRANSACTION")
    error = client.error(f"SELECT @n; {statement}", **NUMBER)
    assert error.number == 266
    after = 2 if statement.startswith("BEGIN") else 0
    assert error.message.endswith(f"Previous count = 1, current count = {after}.")
    assert client.value("SELECT @@TRANCOUNT") == after, "what the statement did stays done"


@pytest.mark.parametrize("statement", ["COMMIT TRANSACTION", "ROLLBACK TRANSACTION", "BEGIN TRANSACTION"])
def test_no_mismatch_error_under_xact_abort(client: Any, statement: str) -> None:
    client.ok("SET XACT_ABORT ON; BEGIN TRANSACTION")
    client.ok(f"SELECT @n; {statement}", **NUMBER)
    client.ok(f"WHILE @@TRANCOUNT > 0 ROLLBACK; BEGIN TRANSACTION; EXEC sp_executesql N'{statement}'")


def test_a_batch_without_parameters_may_change_the_count(client: Any) -> None:
    client.ok("BEGIN TRANSACTION")
    client.ok("COMMIT TRANSACTION")


def test_a_text_that_executes_such_a_text_gets_one_error(client: Any) -> None:
    client.ok("BEGIN TRANSACTION")
    assert client.run("EXEC sp_executesql N'COMMIT TRANSACTION'").errors == [266]


def test_an_implicit_transaction_is_no_mismatch(client: Any, queue: str) -> None:
    client.ok("SET IMPLICIT_TRANSACTIONS ON")
    client.ok(f"DELETE FROM {queue} WHERE RowVersion = @n", **NUMBER)
    assert client.value("SELECT @@TRANCOUNT") == 1


def test_an_error_before_the_end_stands_alone(client: Any) -> None:
    client.ok("BEGIN TRANSACTION")
    assert client.run("ROLLBACK TRANSACTION; THROW 50001, N'Not open.', @n;", **NUMBER).errors == [50001]
