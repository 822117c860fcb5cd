"""Codec of values: Python to PostgreSQL's binary format and back, by SQL Server type."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any

from fakemssql import pgvalues
from fakemssql.text import from_cp1252, to_cp1252, to_pg
from fakemssql.tsql.datatypes.sqltypes import oid, storage
from fakemssql.types import MAX, SqlType

_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - PostgreSQL's timestamp has no zone
_DAY = dt.date(2000, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_PACK = {"int2": struct.Struct("!h"), "int4": struct.Struct("!i"), "int8": struct.Struct("!q")}
_FLOAT8, _FLOAT4 = struct.Struct("!d"), struct.Struct("!f")


def _datetime_ms(value: dt.datetime) -> dt.datetime:
    ticks = round(value.microsecond * 3 / 10000)
    base = value.replace(microsecond=0)
    if ticks == 300:
        return base + dt.timedelta(seconds=1)
    return base.replace(microsecond=(ticks * 10 + 1) // 3 * 1000)


def encode(kind: SqlType, value: Any) -> bytes | None:
    """Encode ``value`` in PostgreSQL's binary format of the storage type of ``kind``."""
    if value is None:
        return None
    pg = storage(kind)
    if pg == "text":
        text = value if isinstance(value, str) else str(value)
        if kind.name in ("char", "varchar", "text") and not text.isascii():
            text = from_cp1252(to_cp1252(text))
        if kind.name in ("char", "nchar") and kind.length:
            text = text.ljust(kind.length)
        return to_pg(text)
    if pg == "bytea":
        data = bytes(value)
        return data.ljust(kind.length, b"\0") if kind.name == "binary" and kind.length not in (None, MAX) else data
    if pg in _PACK:
        return _PACK[pg].pack((1 if value else 0) if kind.name == "bit" else int(value))
    if pg == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else uuid.UUID(str(value)).bytes
    if pg == "numeric":
        return pgvalues.of_decimal(value if isinstance(value, Decimal) else Decimal(str(value)))
    if pg == "float8":
        return _FLOAT8.pack(value)
    if pg == "float4":
        return _FLOAT4.pack(value)
    if pg == "date":
        day = value.date() if isinstance(value, dt.datetime) else value
        return _PACK["int4"].pack((day - _DAY).days)
    if pg == "time":
        clock = value.time() if isinstance(value, dt.datetime) else value
        seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
        return _PACK["int8"].pack(seconds * 1_000_000 + clock.microsecond)
    if pg == "timestamptz":
        if value.tzinfo is not None:
            value = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    elif not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if kind.name == "datetime":
        value = _datetime_ms(value)
    return _PACK["int8"].pack((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)


def decode(kind: SqlType, data: bytes | None) -> Any:
    """Decode a value from PostgreSQL's binary format."""
    if data is None:
        return None
    value = pgvalues.decoder(oid(kind))(data)
    return bool(value) if kind.name == "bit" else value
