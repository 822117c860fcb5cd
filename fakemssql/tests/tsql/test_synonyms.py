"""Synonyms: whatever reads or writes rows goes through them; definitions do not."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("base", ["{0}", "dbo.{0}", "[shop].[dbo].{0}", "shop..{0}"])
def test_rows_through_a_synonym(client: Any, table: str, base: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int INDEX i); CREATE SYNONYM dbo.s_{table} FOR {base.format(table)}")
    synonym = f"shop.dbo.s_{table}"
    assert client.rows(f"INSERT INTO {synonym} (a, b) OUTPUT inserted.a VALUES (1, 2), (3, 4)") == [(1,), (3,)]
    assert client.rows(f"SELECT a FROM {synonym} WITH (NOLOCK, INDEX(i)) WHERE b = 4") == [(3,)]
    assert client.rows(f"UPDATE {synonym} WITH (ROWLOCK) SET a = 5 OUTPUT deleted.a, inserted.a WHERE b = 2") == [
        (1, 5)
    ]
    assert client.rows(
        f"WITH m AS (SELECT TOP (1) * FROM {synonym} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY b)"
        " DELETE FROM m OUTPUT deleted.a"
    ) == [(5,)]
    assert client.rows(f"DELETE TOP (1) FROM {synonym} WITH (READPAST) OUTPUT deleted.b") == [(4,)]


def test_rows_of_the_catalog(client: Any, table: str) -> None:
    client.ok(f"CREATE SYNONYM s_{table} FOR nowhere.dbo.[no]]thing]; CREATE SYNONYM s2_{table} FOR shop..x")
    shown = "base_object_name, type"
    text = f"SELECT {shown} FROM sys.synonyms WHERE name = '{{0}}{table}'"
    assert client.rows(text.format("s_")) == [("[nowhere].[dbo].[no]]thing]", "SN")]
    assert client.rows(text.format("s2_")) == [("[shop]..[x]", "SN")]
    assert client.value(f"SELECT OBJECT_ID('s_{table}', 'SN') - OBJECT_ID('s_{table}')") == 0
    client.ok(f"DROP SYNONYM s2_{table}; DROP SYNONYM IF EXISTS s_{table}, s2_{table}")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT * FROM {0}", 5313),
        ("DELETE {0}", 5313),
        ("INSERT {0} VALUES (1)", 5313),
        ("SELECT * FROM c_{0}", 470),
        ("CREATE TABLE {0} (a int)", 2714),
        ("CREATE SYNONYM {0} FOR x", 2714),
        ("DROP TABLE {0}", 3705),
        ("ALTER TABLE t_{0} ADD a int", 4909),
        ("TRUNCATE TABLE t_{0}", 4708),
        ("CREATE INDEX i ON t_{0} (a)", 1914),
        ("DROP SYNONYM nope", 3701),
    ],
)
def test_errors(client: Any, table: str, text: str, number: int) -> None:
    client.ok(f"CREATE SYNONYM {table} FOR nowhere.dbo.thing; CREATE SYNONYM c_{table} FOR {table}")
    client.ok(f"CREATE TABLE b_{table} (a int); CREATE SYNONYM t_{table} FOR b_{table}")
    assert client.error(text.format(table)).number == number
