"""sp_describe_undeclared_parameters: the types that it deduces, where it fails, and what a failure takes along.

The cases are those of its page, "sp_describe_undeclared_parameters (Transact-SQL)", as far as a queue table has them.
"""

from __future__ import annotations

from typing import Any

import pytest

DEDUCED = [
    ("INSERT INTO {0} (Id, Headers, Body) VALUES (@P1, @P2, @P3)",
     ["uniqueidentifier", "nvarchar(max)", "varbinary(max)"]),
    ("UPDATE {0} SET Headers = @P1, Expires = @P2 WHERE RowVersion = @P3", ["nvarchar(max)", "datetime", "bigint"]),
    ("SELECT TOP (@P1) Id FROM {0} WHERE RowVersion > @P2 AND Id IN (@P3, @P4)",
     ["bigint", "bigint", "uniqueidentifier", "uniqueidentifier"]),
    ("SELECT Id FROM {0} WHERE RowVersion BETWEEN @P1 AND @P2 + 1", ["bigint", "int"]),
    ("DELETE FROM {0} WHERE Recoverable = @P1 OR ReplyToAddress LIKE @P2", ["bit", "varchar(255)"]),
    ("DECLARE @a uniqueidentifier = @P1, @b int; SET @b = @P2; SELECT @a, @b", ["uniqueidentifier", "int"]),
    ("SELECT CAST(@P1 AS date), CONVERT(datetime2, NULLIF(@P2, ''), 126)", ["date", "varchar(1)"]),
    ("SELECT NULLIF(@P1, N''), @P2 + 2 FROM {0}", ["nvarchar(1)", "int"]),
    ("SELECT CASE WHEN Id = @P1 THEN @P2 ELSE RowVersion END FROM {0}", ["uniqueidentifier", "bigint"]),
    ("SELECT Id FROM {0} WHERE Expires < DATEADD(second, @P1, GETUTCDATE())", ["int"]),
    ("EXEC sp_getapplock @Resource = @P1", ["nvarchar(4000)"]),
    ("MERGE {0} AS t USING {0} AS s ON t.Id = s.Id AND s.RowVersion = @P1 WHEN MATCHED THEN UPDATE SET Body = @P2;",
     ["bigint", "varbinary(max)"]),
    ("IF EXISTS (SELECT * FROM {0} WHERE Id = @P1) SELECT 1", ["uniqueidentifier"]),
    ("SELECT @@ROWCOUNT", []),
]  # fmt: skip

REFUSED = [
    ("SELECT @P1", 11506),
    ("SELECT @P1 FROM {0}", 11506),
    ("INSERT INTO {0} (Id, Headers) SELECT @P1, @P2", 11506),
    ("INSERT INTO {0} (Id) SELECT m.Id FROM (VALUES (0, @P1)) AS m (Position, Id)", 11506),
    ("SELECT Id FROM {0} WHERE @P1 IS NULL", 11506),
    ("MERGE {0} AS t USING (SELECT @P1 AS Id) AS s ON t.Id = s.Id WHEN MATCHED THEN DELETE;", 11506),
    ("SELECT Id FROM {0} WHERE @P1 = @P2", 11503),
    ("SELECT Id FROM {0} WHERE RowVersion = @P1 + @P2", 11503),
    ("SELECT Id FROM {0} WHERE @P1 = SUBSTRING(@P2, 2, 3)", 11503),
    ("SELECT SUBSTRING(Body, @P1, @P2) FROM {0}", 11503),
    ("SELECT COALESCE(@P1, @P2)", 11503),
    ("SELECT Id FROM {0} WHERE Id = @P1 OR Id = @P1", 11508),
]


@pytest.mark.parametrize(("text", "types"), DEDUCED)
def test_types_are_deduced_from_what_a_parameter_meets(client: Any, queue: str, text: str, types: list[str]) -> None:
    status, recorder = client.call("sp_describe_undeclared_parameters", tsql=text.format(queue))
    assert recorder.errors == []
    assert status == 0
    assert [row[1:4:2] for row in recorder.results[0]] == [(f"@P{n}", kind) for n, kind in enumerate(types, 1)]


@pytest.mark.parametrize(("text", "number"), REFUSED)
def test_types_that_cannot_be_deduced(client: Any, queue: str, text: str, number: int) -> None:
    client.ok("BEGIN TRANSACTION")
    status, recorder = client.call("sp_describe_undeclared_parameters", tsql=text.format(queue))
    assert recorder.errors == [number]
    assert status != 0
    assert client.value("SELECT @@TRANCOUNT") == 1, "without XACT_ABORT the transaction stays"


@pytest.mark.parametrize("as_call", [True, False])
def test_under_xact_abort_a_failure_takes_the_transaction_along(client: Any, queue: str, as_call: bool) -> None:
    client.ok(
        f"SET XACT_ABORT ON; BEGIN TRANSACTION; INSERT INTO {queue} (Id, Recoverable, Headers) VALUES (NEWID(), 1, '')"
    )
    if as_call:
        _, recorder = client.call("sp_describe_undeclared_parameters", tsql="SELECT @P1")
    else:
        recorder = client.run("EXEC sp_describe_undeclared_parameters N'SELECT @P1'")
    assert recorder.errors == [11506]
    assert [event for event, _ in recorder.events] == ["rollback"]
    assert client.value("SELECT @@TRANCOUNT") == 0
    assert client.value(f"SELECT COUNT(*) FROM {queue}") == 0
