"""TDS before 7.3: narrower tokens, no headers of requests, values of types that came later as what they were."""

# ruff: noqa: DTZ001 - SQL Server's datetimes are naive

from __future__ import annotations

import datetime as dt
import struct

import pytest

from fakemssql.contract import Parameter, ResponseWriter, ResultColumn, SqlError
from fakemssql.tds import tokens, values, versions
from fakemssql.tds.encode import RowEncoder, column_metadata
from fakemssql.tds.tokens import COLLATION, utf16
from fakemssql.tds.versions import TDS_7_1, TDS_7_2, TDS_7_4
from fakemssql.types import MAX, SqlType
from support.scripted import COUNT, ERROR, INT, MORE, Open, Rows, Scripted
from support.tds_client import Client, login7, rpc_by_name


def logged_in(open_client: Open, version: int, script: object = None) -> tuple[Client, bytes]:
    client = open_client(script, login=False)  # type: ignore[arg-type]
    client.send(0x10, login7("sa", "geheim", "db", version=version))
    return client, client.receive()


@pytest.mark.parametrize(
    ("asked", "acknowledged"),
    [
        (0x71000000, 0x07010000),
        (0x71000001, 0x71000001),
        (0x72090002, 0x72090002),
        (0x730B0003, 0x730A0003),
        (0x74000004, 0x74000004),
        (0x08000000, 0x08000000),
    ],
)
def test_the_version_is_acknowledged(open_client: Open, asked: int, acknowledged: int) -> None:
    _, answer = logged_in(open_client, asked)
    head = answer.index(utf16("Microsoft SQL Server")) - 1
    assert answer[head - 4 : head] == struct.pack(">I", acknowledged)


@pytest.mark.parametrize("asked", [0x70000000, 0x05000000, 0x75000000, 0])
def test_other_versions_are_refused_with_an_error(open_client: Open, asked: int) -> None:
    client, answer = logged_in(open_client, asked)
    assert utf16("fakemssql speaks TDS 7.1, 7.2, 7.3, 7.4 and 8.0.") in answer
    assert client.sock.recv(1) == b""


def test_a_batch_before_7_2(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        assert text == "x"
        output.columns(INT)
        output.rows(Rows(7))
        output.done(1)
        output.transaction("begin", 5)
        output.message(SqlError(208, "no", line=3))
        output.done(None)

    client, answer = logged_in(open_client, 0x71000001, script)
    assert answer.endswith(struct.pack("<BHHI", 0xFD, 0, 0, 0))
    client.send(1, utf16("x"))
    metadata = struct.pack("<BHHHBB", 0x81, 1, 0, 9, 0x26, 4) + b"\x01a\0"
    row = b"\xd1\x04" + struct.pack("<i", 7)
    error = struct.pack("<iBB", 208, 1, 16) + tokens.us_varchar("no") + tokens.b_varchar("fakemssql") + b"\0\x03\0"
    assert client.receive() == b"".join(
        (
            metadata,
            row,
            struct.pack("<BHHI", 0xFD, COUNT | MORE, 0xC1, 1),
            struct.pack("<BH", 0xAA, len(error)) + error,
            struct.pack("<BHHI", 0xFD, ERROR, 0, 0),
        )
    )


def test_a_call_before_7_2(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.return_value(Parameter("@a", SqlType("int"), 4, True))

    client, _ = logged_in(open_client, 0x71000001, script)
    text = b"\0\0" + struct.pack("<BH", 0xE7, 8000) + COLLATION + b"\x02\0x\0"
    client.send(3, rpc_by_name("sp_executesql", text))
    value = struct.pack("<BH", 0xAC, 0) + tokens.b_varchar("@a") + b"\x01" + struct.pack("<HHBBBi", 0, 1, 0x26, 4, 4, 4)
    assert client.receive() == struct.pack("<Bi", 0x79, 0) + value + struct.pack("<BHHI", 0xFE, 0, 0, 0)


def test_a_transaction_request_before_7_2_is_no_request(open_client: Open) -> None:
    client, _ = logged_in(open_client, 0x71000001, lambda engine, text, output: output.done(1))
    client.send(14, struct.pack("<HBB", 5, 2, 0))
    assert struct.pack("<i", 8009) in client.receive()
    client.send(1, utf16("x"))
    assert client.receive() == struct.pack("<BHHI", 0xFD, COUNT, 0xC5, 1)


class Stored:
    """One row, in PostgreSQL's binary format."""

    ntuples = 1

    def __init__(self, *row: bytes | None) -> None:
        self._row = row

    def get_value(self, row_number: int, column_number: int) -> bytes | None:
        return self._row[column_number]


def test_types_without_a_limit_before_7_2() -> None:
    columns = [
        ResultColumn("n", SqlType("nvarchar", MAX), 25),
        ResultColumn("v", SqlType("varchar", MAX), 25),
        ResultColumn("b", SqlType("varbinary", MAX), 17),
        ResultColumn("x", SqlType("xml"), 25),
    ]
    unnamed = b"\0\0"
    head = struct.pack("<HH", 0, 9)
    assert column_metadata(columns, TDS_7_1) == struct.pack("<BH", 0x81, 4) + b"".join(
        (
            head + struct.pack("<BI", 0x63, 0x7FFFFFFE) + COLLATION + unnamed + tokens.b_varchar("n"),
            head + struct.pack("<BI", 0x23, 0x7FFFFFFF) + COLLATION + unnamed + tokens.b_varchar("v"),
            head + struct.pack("<BI", 0x22, 0x7FFFFFFF) + unnamed + tokens.b_varchar("b"),
            head + struct.pack("<BI", 0x63, 0x7FFFFFFE) + COLLATION + unnamed + tokens.b_varchar("x"),
        )
    )
    pointer = b"\x10" + bytes(24)
    row = Stored("Ω".encode(), "é".encode(), b"", None)
    assert b"".join(RowEncoder(columns, TDS_7_1).encode(row)) == b"".join(
        (b"\xd1", pointer, b"\x02\0\0\0", utf16("Ω"), pointer, b"\x01\0\0\0", b"\xe9", pointer, bytes(4), b"\0")
    )
    output = values.encoder_of(SqlType("nvarchar", MAX), TDS_7_1)
    assert output("Ω") == pointer + b"\x02\0\0\0" + utf16("Ω")


@pytest.mark.parametrize("version", [TDS_7_1, TDS_7_2], ids=["7.1", "7.2"])
@pytest.mark.parametrize(
    ("declared", "value", "text"),
    [
        (SqlType("date"), dt.date(2024, 2, 29), "2024-02-29"),
        (SqlType("time", scale=3), dt.time(7, 8, 9, 123500), "07:08:09.124"),
        (SqlType("time", scale=0), dt.time(23, 59, 59, 600000), "00:00:00"),
        (SqlType("datetime2"), dt.datetime(2024, 5, 6, 7, 8, 9, 123456), "2024-05-06 07:08:09.1234560"),
        (SqlType("datetime2", scale=0), dt.datetime(2024, 12, 31, 23, 59, 59, 500000), "2025-01-01 00:00:00"),
        (
            SqlType("datetimeoffset", scale=2),
            dt.datetime(2024, 5, 6, 23, 8, 9, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30))),
            "2024-05-06 23:08:09.00 -05:30",
        ),
    ],
    ids=str,
)
def test_dates_before_7_3_are_texts(version: versions.Version, declared: SqlType, value: object, text: str) -> None:
    """Of the lengths that "Backward Compatibility for Down-level Clients" gives for each type."""
    column = ResultColumn("a", declared, 25)
    size = struct.pack("<BH", 0xE7, 2 * len(text))
    assert size + COLLATION in column_metadata([column], version)
    assert values.encoder_of(declared, version)(value) == struct.pack("<H", 2 * len(text)) + utf16(text)
    assert size not in column_metadata([column], TDS_7_4)
