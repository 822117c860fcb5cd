"""Values on the wire: what goes through an encoder comes out of the decoder."""

# ruff: noqa: DTZ001 - SQL Server's datetimes are naive

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import psycopg.types.numeric
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer

from fakemssql import pgvalues, text
from fakemssql.contract import ResultColumn, SqlError
from fakemssql.tds import typeinfo, values
from fakemssql.tds.decode import read_parameter_value
from fakemssql.tds.encode import RowEncoder, column_encoder, column_metadata
from fakemssql.tds.reader import Reader
from fakemssql.tds.versions import TDS_7_4
from fakemssql.types import MAX, SqlType

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]), max_size=200).filter(
    lambda found: not any(ord(char) >= 0x10F7FF for char in found)
)
"""Lone surrogates and NUL included; the private code points that stand for them are not."""

DATETIMES = st.datetimes(dt.datetime(1753, 1, 1), dt.datetime(9999, 12, 30))
INT8 = st.integers(-(2**63), 2**63 - 1)


def postgres_binary(value: Any) -> tuple[bytes, int]:
    dumper = Transformer().get_dumper(value, PyFormat.BINARY)
    dumped = dumper.dump(value)
    assert dumped is not None
    return bytes(dumped), dumper.oid


def decoded(declared: SqlType, encoded: bytes) -> Any:
    """The value of a column as a client reads it: a parameter's TYPE_INFO and value have the same form."""
    reader = Reader(typeinfo.type_info(typeinfo.wire_type(declared, TDS_7_4)) + encoded)
    _, value = read_parameter_value(reader)
    assert reader.left == 0
    return value


def through(declared: SqlType, value: Any, oid: int | None = None) -> Any:
    """``value`` from PostgreSQL to a client, by the column encoder; the encoder of Python values must agree."""
    data, dumped_oid = postgres_binary(value)
    encoded = column_encoder(declared, oid or dumped_oid, TDS_7_4)(data)
    return decoded(declared, encoded)


def utf16(value: str) -> str:
    """Joins pairs of surrogates, as every UTF-16 reader does."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@given(ANY_TEXT)
def test_any_text_survives_postgres(value: str) -> None:
    stored = text.to_pg(value)
    assert b"\0" not in stored
    stored.decode()
    assert text.from_pg(stored) == utf16(value)
    assert text.utf16_from_pg(stored) == value.encode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize("declared", [SqlType("nvarchar", MAX), SqlType("nvarchar", 4000), SqlType("xml")], ids=str)
@given(value=ANY_TEXT)
def test_unicode_columns(declared: SqlType, value: str) -> None:
    encoded = column_encoder(declared, pgvalues.TEXT, TDS_7_4)(text.to_pg(value))
    found = decoded(declared, encoded)
    assert found == (utf16(value).lstrip("\ufeff") if declared.name == "xml" else utf16(value))
    assert values.encoder(typeinfo.wire_type(declared, TDS_7_4))(utf16(value)) == encoded


@given(st.text(st.characters(codec="cp1252"), max_size=100))
def test_varchar_columns_hold_their_code_page(value: str) -> None:
    assert (
        decoded(SqlType("varchar", 100), column_encoder(SqlType("varchar", 100), 25, TDS_7_4)(text.to_pg(value)))
        == value
    )


def test_varchar_shows_a_question_mark_for_each_unit_that_does_not_fit() -> None:
    assert text.to_cp1252("a€Ω😀\x81") == b"a\x80???\x81"
    assert text.from_cp1252(b"\x80\x81") == "€\x81"
    assert text.cp1252_from_pg(text.to_pg("é\0")) == b"\xe9\0"


@given(st.binary(max_size=300))
def test_binary_columns(value: bytes) -> None:
    for declared in (SqlType("varbinary", MAX), SqlType("varbinary", 300)):
        assert through(declared, value) == value
    assert through(SqlType("binary", 300), value) == value.ljust(300, b"\0")


def test_values_are_cut_or_padded_to_the_declared_length() -> None:
    assert decoded(SqlType("nvarchar", 3), column_encoder(SqlType("nvarchar", 3), 25, TDS_7_4)(b"abcdef")) == "abc"
    assert decoded(SqlType("nchar", 4), column_encoder(SqlType("nchar", 4), 25, TDS_7_4)(b"ab")) == "ab  "
    assert decoded(SqlType("char", 4), column_encoder(SqlType("char", 4), 25, TDS_7_4)(b"abcdef")) == "abcd"


@given(INT8)
def test_integers(value: int) -> None:
    assert through(SqlType("bigint"), psycopg.types.numeric.Int8(value)) == value
    small = value % 2**15
    assert through(SqlType("smallint"), psycopg.types.numeric.Int2(small)) == small
    assert through(SqlType("int"), psycopg.types.numeric.Int4(-small)) == -small
    assert through(SqlType("int"), psycopg.types.numeric.Int8(-small)) == -small
    assert through(SqlType("bigint"), psycopg.types.numeric.Int4(small)) == small
    assert through(SqlType("tinyint"), psycopg.types.numeric.Int2(value % 256)) == value % 256


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (SqlType("int"), psycopg.types.numeric.Int8(2**31)),
        (SqlType("tinyint"), psycopg.types.numeric.Int2(256)),
        (SqlType("tinyint"), psycopg.types.numeric.Int2(-1)),
        (SqlType("decimal", None, 5, 2), Decimal("1000")),
        (SqlType("smalldatetime"), dt.datetime(2079, 6, 7)),
    ],
    ids=str,
)
def test_a_value_outside_of_its_type_is_error_8115(declared: SqlType, value: Any) -> None:
    data, oid = postgres_binary(value)
    encoder = RowEncoder([ResultColumn("a", declared, oid)], TDS_7_4)
    with pytest.raises(SqlError) as caught:
        list(encoder.encode(FakeRows([[data]])))
    assert caught.value.number == 8115


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats(value: float) -> None:
    assert through(SqlType("float"), psycopg.types.numeric.Float8(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_reals(value: float) -> None:
    assert through(SqlType("real"), psycopg.types.numeric.Float4(value)) == value


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals(number: int, scale: int) -> None:
    value = Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    assert through(SqlType("decimal", None, 38, scale), value) == value


def test_decimals_round_half_away_from_zero() -> None:
    assert through(SqlType("decimal", None, 9, 1), Decimal("0.25")) == Decimal("0.3")
    assert through(SqlType("numeric", None, 9, 1), Decimal("-0.25")) == Decimal("-0.3")


@given(st.integers(-(2**63), 2**63 - 1))
def test_money(number: int) -> None:
    value = Decimal(number).scaleb(-4)
    assert through(SqlType("money"), value) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_smallmoney(number: int) -> None:
    value = Decimal(number).scaleb(-4)
    assert through(SqlType("smallmoney"), value) == value


@given(st.uuids())
def test_uuids(value: uuid.UUID) -> None:
    assert through(SqlType("uniqueidentifier"), value) == value


@given(st.booleans())
def test_bits(value: bool) -> None:
    assert through(SqlType("bit"), value) is value


@given(st.datetimes())
def test_datetime2_keeps_microseconds(value: dt.datetime) -> None:
    assert through(SqlType("datetime2", scale=7), value) == value
    assert through(SqlType("datetime2", scale=6), value) == value


@given(DATETIMES)
def test_datetime_rounds_to_a_300th_of_a_second(value: dt.datetime) -> None:
    found = through(SqlType("datetime"), value)
    assert abs(found - value) <= dt.timedelta(microseconds=2000)
    assert found.microsecond // 1000 % 10 in (0, 3, 7)
    assert through(SqlType("datetime"), found) == found


@pytest.mark.parametrize(("milliseconds", "shown"), [(1, 0), (2, 3), (4, 3), (5, 7), (6, 7), (8, 7), (9, 10)])
def test_datetime_rounds_as_documented(milliseconds: int, shown: int) -> None:
    start = dt.datetime(2024, 5, 6, 7, 8, 9)
    found = through(SqlType("datetime"), start + dt.timedelta(milliseconds=milliseconds))
    assert found == start + dt.timedelta(milliseconds=shown)


def test_the_last_moment_of_a_day_rounds_into_the_next() -> None:
    last = dt.datetime(2024, 12, 31, 23, 59, 59, 999_999)
    assert through(SqlType("datetime"), last) == dt.datetime(2025, 1, 1)
    assert through(SqlType("smalldatetime"), last) == dt.datetime(2025, 1, 1)
    assert through(SqlType("datetime2", scale=0), last) == dt.datetime(2025, 1, 1)


@given(st.dates())
def test_dates(value: dt.date) -> None:
    assert through(SqlType("date"), value) == value


@given(st.times())
def test_times(value: dt.time) -> None:
    assert through(SqlType("time", scale=7), value) == value


@given(st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1)), st.integers(-840, 840))
def test_datetimeoffsets(value: dt.datetime, minutes: int) -> None:
    zoned = value.replace(tzinfo=dt.timezone(dt.timedelta(minutes=minutes)))
    assert through(SqlType("datetimeoffset", scale=7), zoned) == zoned
    declared = SqlType("datetimeoffset", scale=7)
    found = decoded(declared, values.encoder(declared)(zoned))
    assert (found, found.utcoffset()) == (zoned, zoned.utcoffset())


@pytest.mark.parametrize(
    "declared",
    [
        *map(SqlType, ("bit", "tinyint", "smallint", "int", "bigint", "real", "float", "money", "smallmoney", "date")),
        *map(SqlType, ("uniqueidentifier", "xml", "datetime", "smalldatetime", "text", "ntext", "image", "sysname")),
        *map(SqlType, ("timestamp", "sql_variant")),
        SqlType("decimal", None, 20, 3),
        SqlType("time", scale=3),
        SqlType("datetime2", scale=0),
        SqlType("datetimeoffset", scale=7),
        *(SqlType(name, 5) for name in ("char", "varchar", "nchar", "nvarchar", "binary", "varbinary")),
        *(SqlType(name, MAX) for name in ("varchar", "nvarchar", "varbinary")),
    ],
    ids=str,
)
def test_null_of_every_type(declared: SqlType) -> None:
    assert decoded(declared, column_encoder(declared, pgvalues.TEXT, TDS_7_4)(None)) is None


def test_a_value_in_parts_of_unknown_length() -> None:
    body = struct.pack("<Q", 0xFFFFFFFFFFFFFFFE)
    body += b"".join(struct.pack("<I", 3) + part for part in (b"abc", b"def")) + b"\0" * 4
    _, value = read_parameter_value(Reader(b"\xa5\xff\xff" + body))
    assert value == b"abcdef"


@pytest.mark.parametrize(
    ("data", "declared", "value"),
    [
        (b"\x38\x05\0\0\0", SqlType("int"), 5),
        (b"\x1f", SqlType("nvarchar", 1), None),
        (b"\x63\x06\0\0\0" + bytes(5) + b"\x04\0\0\0h\0i\0", SqlType("nvarchar", MAX), "hi"),
        (b"\x23\x06\0\0\0" + bytes(5) + b"\xff\xff\xff\xff", SqlType("varchar", MAX), None),
        (b"\x22\x06\0\0\0" + b"\x02\0\0\0\x01\x02", SqlType("varbinary", MAX), b"\x01\x02"),
        (b"\x26\x04\x00", SqlType("int"), None),
        (b"\x68\x01\x01\x01", SqlType("bit"), True),
        (b"\x6f\x08\x00", SqlType("datetime"), None),
    ],
)
def test_other_forms_of_parameters(data: bytes, declared: SqlType, value: Any) -> None:
    reader = Reader(data)
    assert read_parameter_value(reader) == (declared, value)
    assert reader.left == 0


@pytest.mark.parametrize(
    "data", [b"\xf3\x00", b"\x62\x10\x00\0\0\x06\0\0\0\x38\x00\x07\0\0\0"], ids=["table", "sql_variant"]
)
def test_a_type_that_is_not_taken_is_an_error(data: bytes) -> None:
    with pytest.raises(SqlError) as caught:
        read_parameter_value(Reader(data))
    assert caught.value.number == 8016


class FakeRows:
    def __init__(self, rows: list[list[bytes | None]]) -> None:
        self._rows = rows
        self.ntuples = len(rows)

    def get_value(self, row_number: int, column_number: int) -> bytes | None:
        return self._rows[row_number][column_number]


@given(st.lists(st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), st.none() | st.binary()), max_size=50))
def test_rows_in_order(rows: list[tuple[int | None, bytes | None]]) -> None:
    columns = [
        ResultColumn("a", SqlType("int"), pgvalues.INT4),
        ResultColumn("b", SqlType("varbinary", MAX), pgvalues.BYTEA),
    ]
    stored = [[None if a is None else struct.pack(">i", a), b] for a, b in rows]
    data = b"".join(RowEncoder(columns, TDS_7_4).encode(FakeRows(stored)))
    reader, found = Reader(data), []
    while reader.left:
        assert reader.byte() == 0xD1
        number = reader.take(reader.byte())
        body = reader.plp()
        found.append(
            (int.from_bytes(number, "little", signed=True) if number else None, None if body is None else bytes(body))
        )
    assert found == rows


def test_metadata_names_the_columns() -> None:
    data = column_metadata([ResultColumn("Ω", SqlType("int"), 23, nullable=False, identity=True)], TDS_7_4)
    assert data == b"\x81\x01\x00" + b"\0\0\0\0" + b"\x18\0" + b"\x26\x04" + b"\x01" + "Ω".encode("utf-16-le")


def test_not_a_number_is_refused() -> None:
    with pytest.raises(SqlError):
        values.encoder(SqlType("decimal", None, 18, 2))(math.nan)
