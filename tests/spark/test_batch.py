from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchError, BatchMismatchError
from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import (
    MAX_HEADERS,
    HeaderNames,
    Message,
    decode_headers,
    encode_headers,
    first_type,
    full_name,
)
from airflow_sqlqueue.messages.row import drained_row_schema
from airflow_sqlqueue.spark import raw_schema, read_batch, verify_count
from airflow_sqlqueue.spark.sinks.checks import session_settings
from airflow_sqlqueue.traffic import generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .conftest import MakeBatch

EMPTY = Batch("batch-0", "audit@[dbo]@[shop]", "sealed", (), 0)

HEADER_TEXTS = [
    "", " ", "\n", "null", "true", "3", '"text"', "[]", "[{}]", "{}", " { } ", "\t{\r\n}\n", "\ufeff{}", "\u00a0{}",
    "{}x", "{} {}", "{", "}", '{"a"}', '{"a":}', '{"a":"b"', '{"a":"b",}', '{,"a":"b"}', '{"a":"b" "c":"d"}',
    '{"a":"b","c":"d"}', ' {"a" : "b" ,\n\t"c" : null } ', '{"a":null}', '{"a":Null}', '{"a":nullx}', '{"a":1}',
    '{"a":-1.5e3}', '{"a":true}', '{"a":NaN}', '{"a":Infinity}', '{"a":{}}', '{"a":[]}', '{"a":{"b":"c"}}',
    '{"a":"b","c":1}', "{'a':'b'}", '{a:"b"}', '{"a":"b"}//', '{"a":/**/"b"}', '{"":""}', '{"a":""}',
    '{"a":1,"a":"b"}',
    '{"a":"b","a":"c"}', '{"a":"b","a":null}', '{"a":"b","c":"d","a":"e","c":"f"}', '{"a":"🎁 Łódź"}',
    '{"Łódź":"ö"}',
    '{"a":"\\/\\"\\\\\\b\\f\\n\\r\\t"}', '{"a":"\\u00e9\\u4E2d"}', '{"a":"\\ud83c\\udf81"}', '{"a":"\\x41"}',
    '{"a":"\\u12g4"}', '{"a":"\\u123"}', '{"a":"\\', '{"a":"line\nbreak"}', '{"a":"tab\there"}', '{"a":"\x01"}',
    '{"a":"\x7f"}', '{"a":"\u2028"}', '{"a":"b"}\x00', '{"a":"b"}\n', '{"a":"' + "x" * 100_000 + '"}',
    '{"a":"' + "\\u4e2d" * 30_000 + '"}', '{"a":"' + '\\"' * 30_000, "[" * 5_000, '{"a":' * 500,
    "{" + ",".join(f'"k{i}":"v"' for i in range(3_000)) + "}",
]  # fmt: skip


def damaged(count: int) -> list[str]:
    """Headers as endpoints write them, with a few characters dropped, doubled or replaced."""
    rng = random.Random(11)
    texts = []
    for message in generate(count, seed=11):
        text = message.headers if isinstance(message.headers, str) else encode_headers(message.headers)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text = (
                text[:at]
                + rng.choice(["", text[at] * 2, '"', "\\", "{", "}", ",", ":", "1", " ", "\n", "é"])
                + text[at + 1 :]
            )
        texts.append(text)
    return texts


def test_spark_and_python_agree_on_headers(spark: SparkSession, make_batch: MakeBatch) -> None:
    texts = HEADER_TEXTS + damaged(1_500)
    rows = (
        read_batch(spark, make_batch(texts), headers_map=True)
        .select("RowVersion", "headers", "headers_malformed")
        .collect()
    )
    read = {row["RowVersion"]: row for row in rows}
    malformed = 0
    for number, text in enumerate(texts):
        expected, row = decode_headers(text), read[number]
        assert row["headers_malformed"] == (expected.problem is not None), repr(text[:200])
        assert row["headers"] == (None if expected.problem else expected.values), repr(text[:200])
        malformed += expected.problem is not None
    assert 0.3 < malformed / len(texts) < 0.9  # the damage must leave some of both kinds


def repeated(keys: int) -> str:
    """Headers with a repeated name, whose last value counts."""
    return "{" + ",".join(f'"k{number}":"v"' for number in range(keys)) + ',"k0":"last"}'


def test_repeated_headers_take_linear_time(spark: SparkSession, make_batch: MakeBatch) -> None:
    """Twice as many headers may take twice as long, and not four times: of both, the faster of two tries."""
    seconds = {}
    for keys in (4_500, 9_000):
        text = repeated(keys)
        rows = read_batch(spark, make_batch([text] * 8, batch_id=f"keys-{keys}"), headers_map=True).select("headers")
        seconds[keys] = min(elapsed(rows) for _ in range(2))
    assert all(row["headers"] == decode_headers(text).values for row in rows.collect())
    # A count of rows alone takes some tenths of a second; the quadratic form took 8 messages of 9,000 keys 9 minutes.
    assert seconds[9_000] < max(3 * seconds[4_500], 5)


def elapsed(rows: DataFrame) -> float:
    start = time.monotonic()
    rows.write.format("noop").mode("overwrite").save()
    return time.monotonic() - start


TOO_MUCH = {
    "too many headers": "{" + ",".join(f'"k{number}":""' for number in range(MAX_HEADERS + 1)) + "}",
    "one name too often": "{" + ",".join('"k":""' for _ in range(MAX_HEADERS + 1)) + "}",
    "a name of 60,000 characters": '{"' + "k" * 60_000 + '":"v"}',
    "a value of 21 MB": '{"k":"' + "v" * 21_000_000 + '"}',
}


def test_headers_that_spark_cannot_hold_are_malformed(spark: SparkSession, make_batch: MakeBatch) -> None:
    """As many as are allowed are read, and half a surrogate pair becomes a question mark."""
    others = [repeated(MAX_HEADERS - 1), '{"a":"x\\ud83cy"}', Message({HeaderNames.MESSAGE_INTENT: "Send"})]
    batch = make_batch([*TOO_MUCH.values(), *others])
    columns = ("RowVersion", "headers_malformed", "headers", "intent", "message_id")
    rows = read_batch(spark, batch, headers_map=True).select(*columns).collect()
    *bad, most, half, good = sorted(rows, key=lambda row: row["RowVersion"])
    for name, row in zip(TOO_MUCH, bad, strict=True):
        assert (row["headers_malformed"], row["headers"], row["intent"]) == (True, None, None), name
        assert row["message_id"]  # that of the row
    assert not most["headers_malformed"]
    assert (len(most["headers"]), most["headers"]["k0"]) == (MAX_HEADERS - 1, "last")
    assert (half["headers_malformed"], half["headers"]) == (False, {"a": "x?y"})
    assert (good["headers_malformed"], good["intent"]) == (False, "Send")


def test_the_typed_columns_are_those_of_the_headers(spark: SparkSession, make_batch: MakeBatch) -> None:
    messages = list(generate(3_000, seed=5))
    batch = make_batch(messages)
    assert batch.expired > 0
    instants = {
        "time_sent": "TIME_SENT",
        "processing_started": "PROCESSING_STARTED",
        "processing_ended": "PROCESSING_ENDED",
    }
    texts = {
        "correlation_id": "CORRELATION_ID", "conversation_id": "CONVERSATION_ID", "related_to": "RELATED_TO",
        "intent": "MESSAGE_INTENT", "content_type": "CONTENT_TYPE", "originating_endpoint": "ORIGINATING_ENDPOINT",
        "processing_endpoint": "PROCESSING_ENDPOINT", "failed_queue": "FAILED_Q", "exception_type": "EXCEPTION_TYPE",
    }  # fmt: skip
    from pyspark.sql import functions as sf

    micros = [sf.unix_micros(name).alias(name) for name in instants]
    rows = read_batch(spark, batch).select(
        "Id", "RowVersion", "headers_raw", "Body", "message_id", "message_type", "processing_ms", *texts, *micros
    )
    seen = 0
    for row in rows.collect():
        message = messages[row["RowVersion"]]
        assert bytes(row["Body"]) == message.body
        if isinstance(message.headers, str):
            assert (row["message_id"], row["message_type"], row["headers_raw"]) == (row["Id"], None, message.headers)
            continue
        seen += 1
        assert row["message_id"] == message.header(HeaderNames.MESSAGE_ID)
        assert {name: row[name] for name in texts} == {
            name: message.header(getattr(HeaderNames, header)) for name, header in texts.items()
        }
        for name, header in instants.items():
            assert row[name] == micros_of(message.header(getattr(HeaderNames, header)))
        enclosed = message.header(HeaderNames.ENCLOSED_MESSAGE_TYPES)
        assert row["message_type"] == (enclosed.split(",")[0] if enclosed else None)
        if row["processing_ended"] is None:
            assert row["processing_ms"] is None
        else:
            assert row["processing_ms"] == (row["processing_ended"] - row["processing_started"]) / 1_000
    assert seen == batch.messages - 3


def micros_of(text: str | None) -> int | None:
    moment = parse_time(text)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return None if moment is None else round((moment - epoch).total_seconds() * 1_000_000)


OTHER_TIMES = [
    "", "now", "2026-03-05", "2026-03-05 10:00:00", "2026-02-30 10:00:00:000000 Z", "2026-03-05 25:00:00:000000 Z",
    "2026-03-05 10:00:00:000000 +01", "2026-03-05 10:00:00:00000 Z",
]  # fmt: skip


def test_a_time_in_another_form_is_null(spark: SparkSession, make_batch: MakeBatch) -> None:
    batch = make_batch([Message({HeaderNames.TIME_SENT: text}) for text in OTHER_TIMES])
    rows = read_batch(spark, batch).selectExpr("RowVersion", "CAST(time_sent AS string)").collect()
    assert {OTHER_TIMES[number]: moment for number, moment in rows} == dict.fromkeys(OTHER_TIMES)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("session.timeZone", "UTC"),
        ("session.timeZone", "Asia/Kathmandu"),
        ("session.timeZone", "America/Sao_Paulo"),
        ("timestampType", "TIMESTAMP_NTZ"),
    ],
)
def test_times_do_not_depend_on_the_session(
    spark: SparkSession, make_batch: MakeBatch, setting: str, value: str
) -> None:
    from pyspark.sql import functions as sf

    moment = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=timezone.utc)
    with session_settings(spark, {f"spark.sql.{setting}": value}):
        batch = make_batch([Message({HeaderNames.TIME_SENT: format_time(moment)})])
        row = read_batch(spark, batch).select(sf.unix_micros("time_sent").alias("sent")).first()
    assert row is not None
    assert row["sent"] == micros_of(format_time(moment))


def enclosed_types(count: int) -> list[str | None]:
    """Lists of types, with brackets and separators anywhere, and some too long to be looked at whole."""
    rng = random.Random(7)
    pieces = [
        "A.B", "List`1", "[", "]", "[[", "]]", ",", ", ", ";", " ", "\t", "\u00a0", "\u200b", "\ufeff", "\u2800", "Ł",
        "\\", "Version=1",
    ]  # fmt: skip
    random_ones = ["".join(rng.choices(pieces, k=rng.randrange(1, 14))) for _ in range(count)]
    generic = "Ns.Evt`1[[System.Int32, mscorlib, Version=4.0.0.0]], Shop, Version=1.0.0.0"
    long = ["[" + "," * 70_000 + "]", "A" * 65_530 + "[[x, y]], B", "[" + ",;" * 40_000]
    return [None, "", generic, f"{generic};Ns.Base", f" ;{generic}", *long, *random_ones]


def test_spark_and_python_agree_on_message_types(spark: SparkSession, make_batch: MakeBatch) -> None:
    texts = enclosed_types(3_000)
    batch = make_batch([Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: text}) for text in texts])
    for row in read_batch(spark, batch).select("RowVersion", "message_type", "enclosed_types").collect():
        text = texts[row["RowVersion"]]
        assert row["message_type"] == first_type(text), repr((text or "")[:200])
        names = None if text is None else list(filter(None, map(full_name, text.split(";"))))
        assert row["enclosed_types"] == names, repr((text or "")[:200])


def test_the_last_of_a_known_header_counts(spark: SparkSession, make_batch: MakeBatch) -> None:
    name = HeaderNames.MESSAGE_INTENT
    values = ['"Send"', "null", '"Publish"']
    texts = [f'{{"{name}":{one},"other":"x","{name}":{two}}}' for one in values for two in values]
    rows = read_batch(spark, make_batch(texts), headers_map=True).select("RowVersion", "intent", "headers").collect()
    for row in rows:
        expected = decode_headers(texts[row["RowVersion"]]).values
        assert (row["intent"], row["headers"]) == (expected[name], expected)


def test_the_schema_is_that_of_a_drained_row(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    assert raw_schema() == from_arrow_schema(drained_row_schema())


def test_an_empty_batch_has_the_same_columns(spark: SparkSession, make_batch: MakeBatch) -> None:
    full, empty = read_batch(spark, make_batch(["{}"])), read_batch(spark, EMPTY)
    assert [(field.name, field.dataType) for field in empty.schema] == [
        (field.name, field.dataType) for field in full.schema
    ]
    assert verify_count(empty, EMPTY) == 0
    assert set(read_batch(spark, EMPTY, headers_map=True).columns) - set(empty.columns) == {"headers"}


def test_a_folder_named_like_a_partition_adds_no_column(spark: SparkSession, make_batch: MakeBatch) -> None:
    batch = make_batch(["{}"])
    assert "key=value" in batch.paths[0]
    assert "key" not in read_batch(spark, batch).columns


def test_another_count_than_the_ledgers_is_refused(spark: SparkSession, make_batch: MakeBatch) -> None:
    batch = make_batch(["{}"] * 3)
    rows = read_batch(spark, batch)
    assert verify_count(rows, batch) == 3
    for messages in (2, 4):
        with pytest.raises(BatchMismatchError, match=f"reads 3 messages .* has {messages}"):
            verify_count(rows, replace(batch, messages=messages))


def test_a_file_that_spark_would_skip_in_silence_is_refused(spark: SparkSession, make_batch: MakeBatch) -> None:
    batch = make_batch(["{}"] * 4)
    hidden = Path(batch.paths[1]).rename(Path(batch.paths[1]).with_name("_hidden.parquet"))
    batch = replace(batch, paths=(batch.paths[0], str(hidden)))
    with pytest.raises(BatchMismatchError, match="not one that its drain wrote"):
        read_batch(spark, batch)


def test_a_missing_file_is_refused(spark: SparkSession, make_batch: MakeBatch) -> None:
    """Also one that goes missing after the batch was read."""
    batch = make_batch(["{}"] * 4)
    before = read_batch(spark, batch)
    Path(batch.paths[1]).unlink()
    with pytest.raises(BatchMismatchError, match="missing"):
        verify_count(before, batch)
    with pytest.raises(BatchMismatchError, match="missing"):
        verify_count(read_batch(spark, batch), batch)


@pytest.mark.parametrize("state", ["open", "requeued"])
def test_a_batch_whose_files_do_not_count_is_refused(spark: SparkSession, make_batch: MakeBatch, state: str) -> None:
    with pytest.raises(BatchError, match=state):
        read_batch(spark, make_batch(["{}"], state=state))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("spark", ("airflow", "pyspark", "pandas", "pyarrow")),
        ("spark.executor_tasks, airflow_sqlqueue.drain.stages.table", ("airflow", "pandas", "pyarrow")),
        ("spark.source.staged", ("airflow", "pandas", "pyarrow")),
    ],
    ids=["the package", "a drain into a table", "the plan of a read"],
)
def test_importing_loads_only_needed_modules(module: str, names: tuple[str, ...]) -> None:
    code = f"import sys, json, airflow_sqlqueue.{module}\nprint(json.dumps([n for n in {names} if n in sys.modules]))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded: list[Any] = json.loads(answer.stdout)
    assert loaded == []
