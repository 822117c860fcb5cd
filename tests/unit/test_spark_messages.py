"""Rows of a DataFrame as messages."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers
from airflow_sqlqueue.spark.source.messages import MessageColumns, message_row

if TYPE_CHECKING:
    from pyspark.sql import types
else:
    types = pytest.importorskip("pyspark.sql.types", reason="PySpark is not installed")

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 600_700, timezone(timedelta(hours=2)))
WIRE = "2026-01-02 01:04:05:600700 Z"


def headers(**values: Any) -> dict[str, str | None]:
    found: dict[str, str | None] = json.loads(message_row(values).headers)
    return found


def test_typed_columns_become_headers() -> None:
    found = headers(
        message_id="m",
        message_type="A.B",
        correlation_id="c",
        conversation_id="v",
        intent="Send",
        content_type="application/json",
        originating_endpoint="o",
        processing_endpoint="p",
        failed_queue="f",
        exception_type="e",
        time_sent=MOMENT,
        processing_started=None,
        headers=[("own", "☃"), ("none", None)],
    )
    assert found == {
        "own": "☃",
        "none": None,
        HeaderNames.MESSAGE_ID: "m",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "A.B",
        HeaderNames.CORRELATION_ID: "c",
        HeaderNames.CONVERSATION_ID: "v",
        HeaderNames.MESSAGE_INTENT: "Send",
        HeaderNames.CONTENT_TYPE: "application/json",
        HeaderNames.ORIGINATING_ENDPOINT: "o",
        HeaderNames.PROCESSING_ENDPOINT: "p",
        HeaderNames.FAILED_Q: "f",
        HeaderNames.EXCEPTION_TYPE: "e",
        HeaderNames.TIME_SENT: WIRE,
    }


def test_a_column_that_says_the_same_leaves_the_header() -> None:
    types = "A.B`1[[C, D]], E, Version=1.0.0.0; F, G"
    given = [(HeaderNames.ENCLOSED_MESSAGE_TYPES, types), (HeaderNames.TIME_SENT, "2026-01-02T01:04:05.6007Z")]
    row_id = str(uuid.uuid4())
    same = headers(Id=row_id, message_id=row_id, headers=given, message_type="A.B`1[[C, D]]", time_sent=MOMENT)
    assert same == dict(given)
    other = headers(headers=given, message_type="A.B", time_sent=MOMENT + timedelta(seconds=1), message_id=row_id)
    assert other == {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "A.B",
        HeaderNames.TIME_SENT: "2026-01-02 01:04:06:600700 Z",
        HeaderNames.MESSAGE_ID: row_id,
    }


@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo", "Asia/Tokyo"])
def test_instants_in_the_zone_of_the_session(zone: str) -> None:
    """The first and the last instant of .NET are sent from each zone; none beyond them is."""
    columns = MessageColumns.of(types.StructType([types.StructField("Expires", types.TimestampType())]))

    def sent(*micros: int) -> list[str]:
        batch = pa.record_batch([pa.array(micros, pa.timestamp("us", zone))], ["Expires"])
        return [str(row.expires) for row in columns.rows(batch)]

    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    assert sent(first, last) == ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]
    for beyond in (first - 1, last + 1):
        with pytest.raises(MessageError, match="A time of Expires is not in the years 1 to 9999"):
            sent(beyond)


def test_a_text_that_is_not_in_utf_8() -> None:
    """Spark makes a text of a body of any bytes."""
    columns = MessageColumns.of(types.StructType([types.StructField("Body", types.StringType())]))
    batch = pa.record_batch([pa.array([b"kitten-9\xff"]).view("string")], ["Body"])
    with pytest.raises(MessageError, match=r"A text of Body is not UTF-8") as caught:
        list(columns.rows(batch))
    assert "kitten" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_unchanged_headers_keep_their_text() -> None:
    raw = f'{{ "{HeaderNames.CORRELATION_ID}" : "c", "ü": "1" }}'
    assert message_row({"headers_raw": raw}).headers == raw.replace("ü", "\\u00fc")
    assert message_row({"headers_raw": raw, "correlation_id": "c"}).headers == raw.replace("ü", "\\u00fc")
    assert headers(headers_raw=raw, intent="Send") == {
        HeaderNames.CORRELATION_ID: "c",
        "ü": "1",
        HeaderNames.MESSAGE_INTENT: "Send",
    }
    assert message_row({"headers_raw": "no JSON", "headers": None}).headers == "no JSON"
    with pytest.raises(MessageError, match="the headers are not JSON"):
        message_row({"headers_raw": "no JSON", "intent": "Send"})


def test_the_row() -> None:
    row_id = uuid.uuid4()
    row = message_row({"Id": str(row_id).upper(), "Body": "☃", "Expires": MOMENT})
    assert (row.id, row.body, row.expires) == (
        row_id,
        "☃".encode(),
        MOMENT.astimezone(timezone.utc).replace(tzinfo=None),
    )
    assert (row.headers, row.correlation_id, row.reply_to_address, row.recoverable) == ("{}", None, None, None)
    assert message_row({"Body": b"b"}).id != message_row({"Body": b"b"}).id
    assert (message_row({}).body, message_row({"Body": b""}).body) == (None, b"")
    reply = message_row({"headers": [(HeaderNames.REPLY_TO_ADDRESS, "r"), (HeaderNames.CORRELATION_ID, "ü")]})
    assert (reply.reply_to_address, reply.correlation_id) == ("r", None)
    assert message_row({"CorrelationId": "own", "correlation_id": "c"}).correlation_id == "own"


@pytest.mark.parametrize(
    ("values", "said"),
    [({"Id": "kitten"}, "An Id is not a UUID"), ({"BodyFile": "file:///kitten"}, "send what read_bodies returns")],
)
def test_rows_that_cannot_be_messages(values: dict[str, Any], said: str) -> None:
    with pytest.raises(MessageError, match=said) as raised:
        message_row(values)
    assert "kitten" not in str(raised.value)


def schema(**kinds: str) -> types.StructType:
    return types.StructType([types.StructField(name, KINDS[kind]) for name, kind in kinds.items()])


KINDS: dict[str, types.DataType] = {
    "binary": types.BinaryType(),
    "boolean": types.BooleanType(),
    "bigint": types.LongType(),
    "string": types.StringType(),
    "map": types.MapType(types.StringType(), types.LongType()),
}


def test_columns() -> None:
    columns = MessageColumns.of(schema(BODY="binary", rowversion="bigint", Intent="string", Expired="boolean"))
    assert columns.places == {"Body": 0, "intent": 2}
    for given, said in (
        (schema(Body="bigint"), "The column Body must be of type binary or string"),
        (schema(headers="map"), "The column headers must be of type map<string,string>"),
        (schema(time_sent="string"), "The column time_sent must be of type timestamp, not string"),
        (schema(colour="string"), "A message has no column 'colour'"),
        (schema(RowVersion="bigint"), "No column of the DataFrame is one of a message"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            MessageColumns.of(given)


def test_a_row_without_a_time_gets_that_of_the_send() -> None:
    """A DataFrame's own time stays, and so do headers that are given as text."""
    now, own = "2026-01-02 00:00:00:000000 Z", "2026-01-01 12:00:00:000000 Z"
    name = HeaderNames.TIME_SENT

    def time_of(**values: Any) -> str | None:
        return decode_headers(message_row(values, now).headers).values.get(name)

    assert (time_of(Body=b""), time_of(headers={"n": "1"}), time_of(intent="Send")) == (now, now, now)
    assert (time_of(headers={name: own}), time_of(time_sent=own), time_of(headers={name: None})) == (own, own, None)
    assert (time_of(headers_raw="{}"), time_of(headers_raw="{}", intent="Send")) == (None, None)
