"""Logins with access tokens: by Microsoft's driver, and what the protocol says of the messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing

import pyodbc
import pytest

from fakemssql import FakeServer, odbc
from fakemssql.contract import SqlError
from fakemssql.tds import access_tokens, login, prelogin, tokens
from fakemssql.tds.versions import TDS_7_4

ATTRIBUTE = 1256  # SQL_COPT_SS_ACCESS_TOKEN

pyodbc.pooling = False


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


def connect(server: FakeServer, token: str, encrypt: str = "no") -> pyodbc.Connection:
    driver = odbc.find_driver() or ""
    if "freetds" in driver.lower():
        pytest.skip("FreeTDS takes no access tokens")
    keywords = f"Encrypt={encrypt};TrustServerCertificate=yes"
    text = f"DRIVER={{{driver}}};SERVER={server.host},{server.port};DATABASE=test;{keywords}"
    data = token.encode("utf-16-le")
    return pyodbc.connect(text, attrs_before={ATTRIBUTE: struct.pack("<I", len(data)) + data}, timeout=20)


@pytest.mark.parametrize("encrypt", ["no", "yes"])
def test_microsofts_driver_logs_in_with_a_token(fake: FakeServer, encrypt: str) -> None:
    with closing(connect(fake, fake.access_token(), encrypt)) as connection:
        assert connection.execute("SELECT SUSER_SNAME()").fetchval() == fake.user


def test_tokens_that_are_refused(fake: FakeServer) -> None:
    signed, _, signature = fake.access_token().rpartition(".")
    forged = access_tokens.issue("sa", "another secret", 60)
    for token in (fake.access_token(lifetime=-1), forged, f"{signed}.{signature[::-1]}", "x" * 64):
        with pytest.raises(pyodbc.Error, match="18456"):
            connect(fake, token)


def test_a_token_is_for_one_login_and_ends() -> None:
    token = access_tokens.issue("sa", "pw", 60)
    assert access_tokens.login_of(token, "pw") == "sa"
    assert access_tokens.login_of(token, "PW") is None
    assert access_tokens.login_of(access_tokens.issue("sa", "pw", -1), "pw") is None


@pytest.mark.parametrize("feature", [b"", b"\x02\x08\0\0\0a\0", b"\x02\x02\0\0\0a\0nonce", b"\x04\x02\0\0\0a\0"])
def test_requests_that_cannot_be_read_are_logins_that_fail(feature: bytes) -> None:
    asked = login.Login(TDS_7_4.acknowledged, 4096, "", "", "", "", "", False, {access_tokens.FEDAUTH: feature})
    with pytest.raises(SqlError) as raised:
        login.Credentials("sa", "pw").admit(asked)
    assert raised.value.number == 18456


def test_nonce_and_prelogin_option_are_echoed_only_on_request() -> None:
    token, nonce = access_tokens.issue("sa", "pw", 60).encode("utf-16-le"), bytes(range(32))
    feature = b"\x02" + struct.pack("<I", len(token)) + token + nonce
    asked = login.Login(TDS_7_4.acknowledged, 4096, "", "", "", "", "", False, {access_tokens.FEDAUTH: feature})
    assert login.Credentials("sa", "pw").admit(asked) == login.Account("sa", None, nonce)
    assert tokens.feature_ack({2: nonce}) == b"\xae\x02" + struct.pack("<I", 32) + nonce + b"\xff"
    for options in ({}, {prelogin.FEDAUTH_REQUIRED: b"\x01"}):
        answer = prelogin.parse(prelogin.response(options, prelogin.Encryption.OFF))
        assert answer.get(prelogin.FEDAUTH_REQUIRED) == options.get(prelogin.FEDAUTH_REQUIRED)
