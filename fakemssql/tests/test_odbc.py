"""Which ODBC driver is found, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyodbc
import pytest

from fakemssql import FakeServer, FakeServerError, odbc

LOGIN = odbc.ServerLogin("localhost", 14330, "sa", "a}b")


@pytest.mark.parametrize(
    ("installed", "packaged", "found"),
    [
        (["FreeTDS", "ODBC Driver 17 for SQL Server", "ODBC Driver 18 for SQL Server"], "lib", "18"),
        (["FreeTDS", "ODBC Driver 17 for SQL Server"], "lib", "17"),
        (["FreeTDS"], "libmsodbcsql", "libmsodbcsql"),
        (["FreeTDS"], None, "FreeTDS"),
    ],
)
def test_microsofts_drivers_come_first(
    monkeypatch: pytest.MonkeyPatch, installed: Sequence[str], packaged: str | None, found: str
) -> None:
    monkeypatch.setattr(pyodbc, "drivers", lambda: installed)
    monkeypatch.setattr(odbc, "_packaged", lambda: packaged and Path(packaged))
    assert found in str(odbc.find_driver())


def test_a_missing_driver_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyodbc, "drivers", list)
    monkeypatch.setattr(odbc, "_packaged", lambda: None)
    with pytest.raises(FakeServerError, match=r"pip install 'fakemssql\[odbc\]'"):
        FakeServer(port=1).odbc_connection_string()


def test_the_packaged_driver_is_a_library() -> None:
    pytest.importorskip("mssql_python_odbc")
    library = odbc._packaged()
    assert library is not None
    assert library.is_file()


@pytest.mark.parametrize(("encrypt", "word"), [("no", "off"), ("yes", "require"), ("strict", "strict")])
def test_freetds_has_its_own_words(encrypt: str, word: str) -> None:
    keywords = {"Encrypt": encrypt, "TrustServerCertificate": "yes"}
    text = odbc.connection_string("/lib/libtdsodbc.so", LOGIN, "d", keywords)
    assert "SERVER={localhost};DATABASE={d};PORT={14330};" in text
    assert f"Encryption={{{word}}};" in text
    assert "PWD={a}b};" in text
    assert "Trust" not in text
