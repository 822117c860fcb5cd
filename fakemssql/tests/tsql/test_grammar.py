"""Microsoft's grammar and fakemssql's parser judge alike: the transport's statements, and mutants of them.

What the other tests of this folder have fakemssql accept is held against the grammar by a fixture in ``conftest.py``.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

import support.mutants
from support import transport
from support.grammar import MAXDOP, WHY_NOT, refusals
from support.mutants import disagreements, judgement, mutants

needs_grammar = pytest.mark.skipif(MAXDOP is None, reason=WHY_NOT)

STATEMENTS = [
    transport.CREATE.format("[dbo].[q]", "", "q", "[nvarchar](max)", "NONCLUSTERED", "", "WHERE [Expires] IS NOT NULL"),
    transport.SEND.format("[dbo].[q]"),
    transport.SEND_7.format("[dbo].[q]"),
    *(text.format("[dbo].[q]") for text in transport.RECEIVE.values()),
    transport.STORE_DELAYED.format("[dbo].[q.Delayed]"),
    transport.MOVE_DUE.format("[dbo].[q]", "[dbo].[q.Delayed]"),
    transport.SUBSCRIBE.format("[dbo].[s]"),
    transport.SUBSCRIBERS.format("[dbo].[s]"),
    transport.UNSUBSCRIBE.format("[dbo].[s]"),
]
REFUSED = [
    ("DELETE TOP 1 FROM q", 102),
    ("UPDATE TOP 1 q SET a = 1", 102),
    ("INSERT TOP 1 INTO q SELECT 1", 102),
    ("CREATE VIEW v AS SELECT a FROM q ORDER BY a", 1033),
    ("SELECT * FROM (SELECT a FROM q ORDER BY a) AS d", 1033),
    ("WITH c AS (SELECT a FROM q ORDER BY a) SELECT * FROM c", 1033),
    ("SELECT SUM(n) OVER (ROWS UNBOUNDED PRECEDING) FROM q", 10756),
    ("SELECT 1; CREATE SCHEMA s", 111),
    ("SELECT 1; ALTER PROCEDURE p AS SELECT 1", 111),
    ("CREATE TABLE t (a int IDENTITY IDENTITY)", 156),
    ("EXEC p @a = 1,", 102),
    ("EXEC p 1 + 1", 102),
    ("CREATE TRIGGER t ON q AFTER DELETE AS", 102),
    ("SELECT * FROM q (TABLOCK, HOLDLOCK)", 1018),
    ("DELETE FROM q (ROWLOCK)", 40517),
    ("DELETE FROM q WITH (INDEX (1))", 1069),
    ("CREATE INDEX i ON q (a) WITH (FILLFACTOR = ON)", 156),
    ("CREATE INDEX i ON q (a) WITH (ONLINE = PERHAPS)", 102),
    ("CREATE INDEX i ON q (a) WITH (LOB_COMPACTION = ON)", 102),
    ("CREATE INDEX i ON q (a) WHERE a > b", 10735),
    ("DBCC CHECKIDENT ('q', RESEED, 100,)", 102),
    ("DBCC CHECKIDENT (N'q' GROUP RESEED, 100)", 156),
    ("SELECT 1 OFF", 156),
    ("IF 1 = 0 SET NOSUCH ON", 195),
    ("IF 1 = 0 SELECT 1 WHERE 1", 4145),
    ("CREATE PROCEDURE p AS SELECT 1 WHERE 1", 4145),
    ("CREATE PROCEDURE p AS SET NOSUCH ON", 195),
    ("SELECT IIF(a, 1, 2)", 4145),
    ("SELECT (a = b)", 102),
    ("SELECT 1 WHERE a = b = c", 102),
    ("ALTER DATABASE d SET READ_COMMITTED_SNAPSHOT = ON", 102),
    ("GRANT GRANT SELECT TO x", 156),
    ("SELECT a. .x FROM a", 102),
    ("DECLARE @a int, @t TABLE (a int)", 156),
    ("CREATE LOGIN l WITH PASSWORD = 'x', CHECK_POLICY = OFF OFF", 156),
    ("SELECT 1 OPTION (MAXDOP)", 102),
    ("THROW 50000, 'a' + 'b', 1", 102),
]


@pytest.mark.parametrize(("text", "number"), REFUSED)
def test_texts_that_the_grammar_refuses(text: str, number: int) -> None:
    error = judgement(text)
    assert error is not None
    assert error.number == number


@needs_grammar
def test_the_grammar_refuses_that_too() -> None:
    assert len(refusals([text for text, _ in REFUSED])) == len(REFUSED)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 WITH m AS (SELECT 2 AS a) SELECT a FROM m",
        "BEGIN SELECT 1 END WITH m AS (SELECT 2 AS a) SELECT a FROM m",
    ],
)
def test_a_common_table_expression_needs_a_semicolon_before_it(client: Any, text: str) -> None:
    assert client.error(text).number == 319


def test_with_needs_no_semicolon_at_the_start_of_a_block(client: Any) -> None:
    assert client.value("BEGIN WITH m AS (SELECT 2 AS a) SELECT a FROM m END") == 2
    assert client.value("IF 1 = 1 WITH m AS (SELECT 3 AS a) SELECT a FROM m") == 3


@needs_grammar
def test_statements_of_the_transport_and_their_mutants() -> None:
    """More of them where FAKEMSSQL_MUTANTS says how many, and with FAKEMSSQL_MUTANTS_SEED others."""
    assert disagreements(STATEMENTS) == []
    count = int(os.environ.get("FAKEMSSQL_MUTANTS", "300"))
    seed = int(os.environ.get("FAKEMSSQL_MUTANTS_SEED", "16"))
    assert "\n\n".join(disagreements(mutants(STATEMENTS, count, seed))) == ""


@needs_grammar
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert disagreements(["SELECT * FROM t HOLDLOCK", "SELECT 1"]) != []
    monkeypatch.setattr(support.mutants, "judgement", lambda text: None)
    assert disagreements(["SELECT FROM", "SELECT 1"]) != []
