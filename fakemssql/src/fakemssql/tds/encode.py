"""Encoding of result sets: COLMETADATA and rows from PostgreSQL's binary format (MS-TDS 2.2.7.4, 2.2.7.19 ROW).

Each column gets one encoder when its result set starts. Encoders for the types of queue tables convert bytes to bytes;
all others convert through Python values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat

from fakemssql import pgvalues, text
from fakemssql.contract import ResultColumn, Rows, SqlError
from fakemssql.tds import temporal, typeinfo, values
from fakemssql.tds.tokens import b_varchar, us_varchar
from fakemssql.tds.versions import Version
from fakemssql.types import SqlType

Encoder = Callable[["bytes | None"], bytes]

_ROW = b"\xd1"
_TARGET = 1 << 18
"""Number of bytes of rows that are encoded at once."""

_NULLABLE, _UPDATABLE_UNKNOWN, _IDENTITY = 0x01, 0x08, 0x10
_USER_TYPE_TIMESTAMP = 80

_INTEGER_OID = {"smallint": pgvalues.INT2, "int": pgvalues.INT4, "bigint": pgvalues.INT8}
_FLOAT_OID = {"real": pgvalues.FLOAT4, "float": pgvalues.FLOAT8}


def column_metadata(columns: Sequence[ResultColumn], version: Version) -> bytes:
    """COLMETADATA token of a result set."""
    parts = [struct.pack("<BH", 0x81, len(columns))]
    for column in columns:
        flags = _UPDATABLE_UNKNOWN | (_NULLABLE if column.nullable else 0) | (_IDENTITY if column.identity else 0)
        user_type = _USER_TYPE_TIMESTAMP if column.type.name == "timestamp" else 0
        parts.append(struct.pack("<IH" if version.wide else "<HH", user_type, flags))
        wire = typeinfo.wire_type(column.type, version)
        parts.append(typeinfo.type_info(wire))
        if wire.name in typeinfo.LONG:
            # TableName, which no client uses: "" (2.2.7.4; before 7.2 it has one part).
            parts.append(us_varchar(""))
        parts.append(b_varchar(column.name))
    return b"".join(parts)


class RowEncoder:
    """Encodes the rows of one result set as ROW tokens."""

    def __init__(self, columns: Sequence[ResultColumn], version: Version) -> None:
        self._encoders = [column_encoder(column.type, column.pg_oid, version) for column in columns]

    def encode(self, rows: Rows) -> Iterator[bytes]:
        """Whole ROW tokens, about 256 KB at a time. Raises :class:`SqlError` 8115 for a value out of range."""
        start, total, step = 0, rows.ntuples, 1
        while start < total:
            stop = min(total, start + step)
            try:
                data = self._some(rows, start, stop)
            except (OverflowError, struct.error) as error:
                raise SqlError(8115, "Arithmetic overflow error converting expression.", state=2) from error
            yield data
            step = max(1, min(1024, _TARGET * (stop - start) // max(1, len(data))))
            start = stop

    def _some(self, rows: Rows, start: int, stop: int) -> bytes:
        get = rows.get_value
        # For speed, map and zip run the loop over rows and columns; only the encoders are Python code.
        cells = [
            map(encode, map(get, range(start, stop), repeat(index))) for index, encode in enumerate(self._encoders)
        ]
        return b"".join(chain.from_iterable(zip(repeat(_ROW, stop - start), *cells, strict=True)))


def column_encoder(declared: SqlType, oid: int, version: Version) -> Encoder:
    """Return the encoder of values of the PostgreSQL type ``oid`` as ``declared``; None is NULL."""
    wire = typeinfo.wire_type(declared, version)
    null = typeinfo.null(wire)
    direct = _direct(wire, oid, null)
    if direct is not None:
        return direct
    decode, convert = pgvalues.decoder(oid), values.encoder_of(declared, version)
    return lambda data: null if data is None else convert(decode(data))


def _direct(wire: SqlType, oid: int, null: bytes) -> Encoder | None:
    """Return the encoder from bytes to bytes, NULL included, so that a value costs one call; None if there is no such
    encoder.
    """
    name = wire.name
    if oid == _INTEGER_OID.get(name) or oid == _FLOAT_OID.get(name):
        prefix = bytes((typeinfo.INTEGER_SIZES.get(name) or typeinfo.FLOAT_SIZES[name],))
        return lambda data: null if data is None else prefix + data[::-1]
    if name == "tinyint" and oid == pgvalues.INT2:
        return lambda data: null if data is None else _tinyint(data)
    if name == "bit" and oid == pgvalues.BOOL:
        return lambda data: null if data is None else b"\x01" + data
    if name == "uniqueidentifier" and oid == pgvalues.UUID:
        return lambda data: null if data is None else b"\x10" + data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]
    if ("binary" in name or name == "image") and oid in {pgvalues.BYTEA, pgvalues.INT8}:
        # A rowversion may be stored as bigint: its big-endian bytes are those of the rowversion.
        return _plp_bytes if typeinfo.is_plp(wire) else _sized(wire, bytes, null)
    if oid in pgvalues.TEXTUAL and name in {"nvarchar", "nchar", "xml", "ntext"}:
        return _plp_utf16 if typeinfo.is_plp(wire) else _sized(wire, text.utf16_from_pg, null)
    if oid in pgvalues.TEXTUAL and name in {"varchar", "char", "text"}:
        return _sized(wire, text.cp1252_from_pg, null)
    if oid in {pgvalues.TIMESTAMP, pgvalues.TIMESTAMPTZ} and name in {"datetime", "smalldatetime", "datetime2"}:
        return _timestamp(wire, null)
    if oid == pgvalues.TIMESTAMPTZ and name == "datetimeoffset":
        encode = temporal.datetimeoffset_value(wire.scale or 0)
        return lambda data: null if data is None else encode(*_days(data), 0)
    if oid == pgvalues.DATE and name == "date":
        return lambda data: (
            null
            if data is None
            else b"\x03" + (int.from_bytes(data, "big", signed=True) + pgvalues.DAYS_TO_2000).to_bytes(3, "little")
        )
    if oid == pgvalues.TIME and name == "time":
        clock = temporal.time_value(wire.scale or 0)
        return lambda data: null if data is None else clock(int.from_bytes(data, "big"))
    return None


def _plp_bytes(data: bytes | None) -> bytes:
    return typeinfo.PLP_NULL if data is None else values.plp(data)


def _plp_utf16(data: bytes | None) -> bytes:
    return _plp_bytes(None if data is None else text.utf16_from_pg(data))


def _sized(wire: SqlType, convert: Callable[[bytes], bytes], null: bytes) -> Encoder:
    encode = values.sized(wire, convert)
    return lambda data: null if data is None else encode(data)


def _tinyint(data: bytes) -> bytes:
    if data[0]:
        raise OverflowError
    return b"\x01" + data[1:]


def _timestamp(wire: SqlType, null: bytes) -> Encoder:
    if wire.name == "datetime2":
        encode = temporal.datetime2_value(wire.scale or 0)
    else:
        encode = temporal.datetime_value if wire.name == "datetime" else temporal.smalldatetime_value
    return lambda data: null if data is None else encode(*_days(data))


def _days(data: bytes) -> tuple[int, int]:
    """Days since 0001-01-01, and microseconds of the day, of a timestamp."""
    days, microseconds = divmod(int.from_bytes(data, "big", signed=True), temporal.DAY_US)
    return days + pgvalues.DAYS_TO_2000, microseconds
