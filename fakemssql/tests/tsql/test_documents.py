"""FOR JSON and FOR XML, as queries of tables, of messages and of the catalog use them."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def values(client: Any) -> Any:
    client.ok(
        "CREATE TABLE #j (id int IDENTITY, x nvarchar(20), d datetime, b bit, f float, m decimal(9, 2),"
        " v varbinary(5)); INSERT #j VALUES (N'a/\"☃', '2024-01-02 03:04:05.120', 1, 1.5, 2.5, 0x4142),"
        " (NULL, NULL, NULL, NULL, NULL, NULL), ('<b>&', '20240101', 0, 1e30, -3, 0x)"
    )
    return client


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            "SELECT * FROM #j WHERE id < 3 FOR JSON PATH",
            '[{"id":1,"x":"a\\/\\"☃","d":"2024-01-02T03:04:05.120","b":true,"f":1.500000000000000e+000,"m":2.50,'
            '"v":"QUI="},{"id":2}]',
        ),
        (
            "SELECT id AS [a.i], x AS [a.x], b FROM #j WHERE id = 2 FOR JSON PATH, ROOT('r'), INCLUDE_NULL_VALUES",
            '{"r":[{"a":{"i":2,"x":null},"b":null}]}',
        ),
        (
            "SELECT TOP 1 id, (SELECT x FROM #j k WHERE k.id = #j.id FOR JSON PATH) AS s, JSON_QUERY('[1]') AS q"
            " FROM #j ORDER BY id DESC FOR JSON PATH, WITHOUT_ARRAY_WRAPPER",
            '{"id":3,"s":[{"x":"<b>&"}],"q":[1]}',
        ),
        ("SELECT d FROM #j WHERE id = 3 FOR JSON AUTO", '[{"d":"2024-01-01T00:00:00"}]'),
        ("SELECT STUFF((SELECT ',' + x FROM #j ORDER BY id DESC FOR XML PATH('')), 1, 1, '')", '&lt;b&gt;&amp;,a/"☃'),
        (
            "SELECT STUFF((SELECT ',' + x FROM #j ORDER BY id FOR XML PATH(''), TYPE)"
            ".value('.', 'nvarchar(max)'), 1, 1, '')",
            'a/"☃,<b>&',
        ),
        ("SELECT (SELECT 1 WHERE 1 = 0 FOR XML PATH(''))", None),
        (
            "SELECT id AS [@id], x FROM #j WHERE id > 1 FOR XML PATH('row'), ROOT('rows')",
            '<rows><row id="2"/><row id="3"><x>&lt;b&gt;&amp;</x></row></rows>',
        ),
        ("SELECT id, b FROM #j FOR XML RAW", '<row id="1" b="1"/><row id="2"/><row id="3" b="0"/>'),
    ],
)
def test_documents(values: Any, query: str, text: str | None) -> None:
    assert values.value(query) == text


def test_no_rows_and_refusals(values: Any) -> None:
    assert values.rows("SELECT id FROM #j WHERE 1 = 0 FOR JSON PATH") == []
    assert values.error("SELECT 1 FOR JSON PATH").number == 13605
    assert values.error("SELECT a.id FROM #j a JOIN #j b ON a.id = b.id FOR JSON AUTO").number == 40517
    assert values.error("SELECT 1 AS [a], 2 AS [a.b] FOR JSON PATH").number == 13601


def test_greatest_and_least(client: Any) -> None:
    assert client.rows("SELECT GREATEST(1, 2.5, NULL), LEAST('b', 'A'), LEAST(NULL, NULL, 3)") == [(2.5, "A", 3)]
