"""The parts of the protocol that need no server: framing, prelogin, login, requests, declarations."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat.relay import obscure
from fakemssql.contract import Parameter, SqlError
from fakemssql.tds import declarations, login, prelogin, requests
from fakemssql.tds.packets import EOM, HEADER, Framer
from fakemssql.tds.reader import Truncated
from fakemssql.tds.versions import TDS_7_1, TDS_7_4
from fakemssql.types import MAX, SqlType
from support.tds_client import all_headers, login7, parameter_int, rpc_by_id


@given(st.binary(max_size=5000), st.integers(512, 1024))
def test_packets_hold_the_message(data: bytes, size: int) -> None:
    framer = Framer(spid=70000)
    framer.size = size
    packets, taken = framer.cut(data, last=False)
    assert taken <= max(0, len(data) - 1)
    rest, taken_last = framer.cut(data[taken:], last=True)
    assert taken + taken_last == len(data)
    stream, found, number = packets + rest, b"", 0
    while stream:
        kind, status, length, spid, packet_id, _ = HEADER.unpack_from(stream)
        number += 1
        assert (kind, spid, packet_id) == (4, 70000 & 0xFFFF, number & 0xFF)
        assert length <= size
        found, stream = found + stream[HEADER.size : length], stream[length:]
        assert status == (0 if stream else EOM)
    assert found == data


@given(st.dictionaries(st.integers(0, 8), st.binary(max_size=40)))
def test_prelogin_options(options: dict[int, bytes]) -> None:
    assert prelogin.parse(prelogin.build(options)) == options


@given(st.binary(max_size=60))
def test_prelogin_survives_anything(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        prelogin.parse(data)


@pytest.mark.parametrize(("asked", "answer"), [(0, 0), (1, 1), (2, 2), (3, 1)])
def test_encryption_is_what_the_client_asks_for(asked: int, answer: int) -> None:
    assert prelogin.negotiate(asked) == answer


@given(st.text(max_size=40))
def test_passwords_are_obscured_and_revealed(password: str) -> None:
    assert login.reveal(obscure(password)) == password


def test_an_obscured_password_as_documented() -> None:
    # MS-TDS 2.2.6.4: swap the nibbles, then XOR with 0xA5. "a" is 0x61 0x00.
    assert obscure("a") == bytes((0x16 ^ 0xA5, 0xA5))


def test_login_fields() -> None:
    found = login.parse(login7("sa", "geheim;}", "orders", features={0x0A: b"\x01"}))
    assert (found.user, found.password, found.database) == ("sa", "geheim;}", "orders")
    assert found.tds_version == TDS_7_4.acknowledged
    assert found.features == {0x0A: b"\x01"}
    assert "geheim" not in repr(found)


@given(st.integers(0, 200), st.binary(max_size=8))
def test_a_broken_login_is_a_value_error(cut: int, noise: bytes) -> None:
    data = login7("sa", "pw", "db")[:cut] + noise
    with contextlib.suppress(ValueError):
        login.parse(data)


@pytest.mark.parametrize(
    ("user", "password", "administrator"),
    [("sa", "pw", True), ("SA", "pw", True), ("sa", "PW", None), ("sb", "pw", False), ("sa", "", None)],
)
def test_credentials(user: str, password: str, administrator: bool | None) -> None:
    """Other logins than the administrator's are for the engine to check."""
    credentials = login.Credentials("sa", "pw")
    asked = login.parse(login7(user, password, ""))
    if administrator is not None:
        assert credentials.check(asked) is administrator
        return
    with pytest.raises(SqlError) as caught:
        credentials.check(asked)
    assert caught.value.number == 18456


def test_several_calls_in_one_message() -> None:
    data = all_headers() + b"\xff".join(rpc_by_id(12, parameter_int("", n)) for n in (1, 2, 3))
    found = list(requests.calls(data, TDS_7_4))
    assert [(call.procedure, call.parameters[0].value, call.last) for call in found] == [
        ("sp_execute", 1, False),
        ("sp_execute", 2, False),
        ("sp_execute", 3, True),
    ]


def test_flags_of_parameters() -> None:
    call = next(
        requests.calls(all_headers() + rpc_by_id(10, parameter_int("@a", 5, 1) + parameter_int("@b", 6, 2)), TDS_7_4)
    )
    assert call.parameters == (Parameter("@a", SqlType("int"), 5, True),)


@given(st.integers(0, 60))
def test_a_cut_request_is_truncated(cut: int) -> None:
    data = all_headers() + rpc_by_id(10, parameter_int("@a", 5) + parameter_int("@b", 6))
    if cut >= len(data):
        return
    with contextlib.suppress(Truncated):
        list(requests.calls(data[:cut], TDS_7_4))


@given(st.binary(max_size=200))
def test_requests_survive_anything(noise: bytes) -> None:
    with contextlib.suppress(
        Truncated, SqlError, ValueError, KeyError, OverflowError, struct.error, UnicodeDecodeError
    ):
        list(requests.calls(all_headers() + noise, TDS_7_4))


def test_transaction_requests() -> None:
    begin = all_headers() + struct.pack("<HB", 5, 2) + b"\0"
    assert requests.transaction_request(begin, TDS_7_4) == requests.TransactionRequest("begin", 2)
    commit = all_headers() + struct.pack("<HBBBB", 7, 0, 1, 4, 0)
    assert requests.transaction_request(commit, TDS_7_4) == requests.TransactionRequest("commit", 0, "", 4)
    with pytest.raises(SqlError):
        requests.transaction_request(all_headers() + struct.pack("<H", 0), TDS_7_4)


def test_before_7_2_requests_have_no_headers() -> None:
    assert requests.batch_text("SELECT 1".encode("utf-16-le"), TDS_7_1) == "SELECT 1"
    found = list(requests.calls(b"\x80".join(rpc_by_id(12, parameter_int("", n)) for n in (1, 2)), TDS_7_1))
    assert [(call.parameters[0].value, call.last) for call in found] == [(1, False), (2, True)]
    with pytest.raises(Truncated):
        requests.transaction_request(struct.pack("<HB", 5, 2) + b"\0", TDS_7_1)


def test_declarations() -> None:
    text = "@P1 int,@P2 nvarchar(40), @p3 decimal(18, 4) OUTPUT, @d datetime2 , @m varbinary(MAX) out,@f float(24)"
    assert declarations.parse(text) == (
        Parameter("@P1", SqlType("int"), None),
        Parameter("@P2", SqlType("nvarchar", 40), None),
        Parameter("@p3", SqlType("decimal", None, 18, 4), None, True),
        Parameter("@d", SqlType("datetime2", scale=7), None),
        Parameter("@m", SqlType("varbinary", MAX), None, True),
        Parameter("@f", SqlType("real"), None),
    )
    assert declarations.parse("  ") == ()
    with pytest.raises(SqlError):
        declarations.parse("int @a")


def test_values_meet_their_declarations() -> None:
    declared = declarations.parse("@a int, @b nvarchar(10), @c datetime")
    given_values = [
        Parameter("", SqlType("bigint"), 1),
        Parameter("@C", SqlType("nvarchar", 30), "2024-01-01"),
        Parameter("@B", SqlType("nvarchar", 2), None),
    ]
    bound = declarations.bind(declared, given_values, "select 1")
    assert bound == [
        Parameter("@a", SqlType("int"), 1),
        Parameter("@b", SqlType("nvarchar", 10), None),
        # Text for a datetime is the engine's to convert.
        Parameter("@c", SqlType("nvarchar", 30), "2024-01-01"),
    ]
    with pytest.raises(SqlError) as caught:
        declarations.bind(declared, given_values[:1], "select 1")
    assert caught.value.number == 8178
