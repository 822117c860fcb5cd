"""What a run says of its tables: fields and reasons with counts, never a value; shares that fail a task."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import ConfigurationError, TooManyRescuedError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark import message_tables_job
from airflow_sqlqueue.spark.message_tables import MessageTypeTable, RescuedField, write_message_tables
from airflow_sqlqueue.spark.message_tables.chunks import REPORT, Packing
from airflow_sqlqueue.spark.message_tables.reports import MOST_FIELDS, Report, check_shares
from tests.spark.test_chunks import LIMIT, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

ORDER, LINES = "Shop.PlaceOrder", {"type": "array", "elementType": struct({"Q": "long"}), "containsNull": True}


def report_of(bodies: list[bytes], **schema: Any) -> Report:
    """The reports of all tasks, here one for each half of the bodies."""
    merged = Report()
    for half in (bodies[::2], bodies[1::2]):
        pack = Packing({ORDER: struct(schema)}, max_bytes=LIMIT)
        for batch in pack(iter([rows_of([(ORDER, None, body) for body in half])])):
            for chunk in batch.to_pylist():
                if chunk["kind"] == REPORT:
                    assert chunk["message_type"] == ORDER
                    merged.merge(json.loads(chunk["content"]))
    return merged


def test_fields_are_counted_by_message_without_positions_in_lists() -> None:
    bodies = [
        b'{"Lines":[{"Q":1},{"Q":"secret"},{"Q":"secret"}]}',
        b'{"Lines":[{"Q":"secret"}],"orderId":"secret"}',
        b'{"orderId":"secret"}',
        b'{"orderId":"secret"}',
        b'{"Lines":[{"Q":1}]}',
    ]
    report = report_of(bodies, Lines=LINES, Id="string")
    assert [(each.field, each.messages) for each in report.rescued_fields] == [("orderId", 3), ("Lines[].Q", 2)]
    assert report.rescued_fields[1].path in ("Lines[0].Q", "Lines[1].Q")
    assert "secret" not in json.dumps(report.to_values())


def test_reasons_are_counted() -> None:
    report = report_of([b"not JSON", b"{", b"[1,2]", b'{"Id":"x"}', b""], Id="string")
    assert report.reasons == {"json": 1, "format": 1, "object": 1, "empty": 1}
    assert report.rescued_fields == ()


def test_brackets_within_a_name_stay() -> None:
    report = Report()
    report.add([json.dumps({'["a[0]"].x': 1, 'Lines[10]["b[2]"][3]': 1, "Name[-2]": 1})])
    assert {each.field for each in report.rescued_fields} == {'["a[0]"].x', 'Lines[]["b[2]"][]', "Name[]"}


def test_numbers_of_any_length_are_passed_by() -> None:
    report = Report()
    digits = "9" * 10_000
    report.add([f'{{"a":{digits},"b":1e999999,"c":-{digits}.5}}'])
    assert [each.field for each in report.rescued_fields] == ["a", "b", "c"]


def test_a_report_is_bounded_and_keeps_what_is_frequent() -> None:
    report, merged = Report(), Report()
    for number in range(5_000):
        report.add([json.dumps({f"{number}" * 1_000: 1, "always": 2})])
    report.add([json.dumps({f"n{number}": 1 for number in range(5_000)})])
    values = json.dumps(report.to_values())
    assert len(values) < 4 * MOST_FIELDS * 350
    for _ in range(3):
        merged.merge(json.loads(values))
    assert merged.rescued_fields[0] == RescuedField("always", 15_000, "always")
    assert len(merged.rescued_fields) == MOST_FIELDS


def table(name: str | None, messages: int, **more: Any) -> MessageTypeTable:
    return MessageTypeTable(name, f"lake/{name}", more.pop("unparsed", False), messages, **more)


TABLES = [
    table("Shop.A", 90, rescued=9, rescued_fields=(RescuedField("L[].q", 9, "L[3].q"),)),
    table("Shop.A", 10, unparsed=True, reasons={"json": 10}),
    table("Shop.B", 1_900, rescued=100),
    table("Other", 100),
    table(None, 100, unparsed=True, reasons={"type": 100}),
]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            {"max_rescued": 0.05},
            r"9 of 100 messages of the type 'Shop.A' have .* at 'L\[3\].q', which is 9.00%.*=0.05, and 1",
        ),
        ({"max_rescued": {"shop.a": "0.08"}}, "9 of 100 .* 'Shop.A'"),
        ({"max_rescued": {"Shop.A": 0.1, "Shop.*": 0.05}}, "100 of 1,900 messages of the type 'Shop.B'"),
        ({"max_rescued": {"Shop.A": 0.1, "Shop.*": 0.06}}, None),
        ({"max_rescued": 0.09, "max_unparsed": 0.1}, None),
        ({"max_unparsed": 0.09}, r"10 of 100 messages of the type 'Shop.A' are not parsed \(json\)"),
        ({"max_unparsed": {"Shop.*": 0.1}}, None),
        ({"max_unparsed": {"Shop.*": 0.1, "*": 0.04}}, r"100 of 2,200 messages without a type or table are not parsed"),
        ({"max_unparsed": {"Shop.*": 0.1, "*": 0.05}}, None),
        ({"max_rescued": 0, "max_unparsed": 1}, "9 of 100"),
        ({"max_rescued": 1, "max_unparsed": 1}, None),
        ({}, None),
    ],
)
def test_shares_are_those_of_each_type(limits: dict[str, Any], said: str | None) -> None:
    shares = (limits.get("max_rescued"), limits.get("max_unparsed"))
    check_shares([], *shares)
    if said is None:
        check_shares(TABLES, *shares)
    else:
        with pytest.raises(TooManyRescuedError, match=said):
            check_shares(TABLES, *shares)


@pytest.mark.parametrize(
    "limit", [-0.1, 1.1, 10**400, "many", "nan", {"Shop.*": 2}, {1: 0.5}, {"Shop.*": None}, "", [0.5]]
)
def test_other_values_are_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_unparsed is a share from 0 to 1"):
        check_shares([], None, limit)


def test_a_line_of_the_log_quotes_what_senders_name() -> None:
    line = str(table("A\n", 7, rescued=1, new_fields=("x\ny",), rescued_fields=(RescuedField("a\rb", 1, "a\rb"),)))
    assert line.isprintable()
    assert "'a\\rb': 1 of 7 rescued, as 'a\\rb'" in line


def test_a_run_that_fails_by_its_shares_has_written_its_tables(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake, schemas = str(tmp_path / "lake"), SchemaFolder(tmp_path / "schemas")
    schemas.put(ORDER, struct({"Id": "string", "Lines": LINES}))
    headers = {"NServiceBus.EnclosedMessageTypes": ORDER, "NServiceBus.ContentType": "application/json"}
    bodies = [b'{"Id":"1"}', b'{"Id":"2","orderId":"secret"}', b'{"Lines":[{"Q":"secret"}]}', b"secret"]
    batch = make_batch([Message(headers, body) for body in bodies])
    options: dict[str, Any] = {"schemas": schemas, "new_fields": False}
    with pytest.raises(ConfigurationError, match="max_rescued is a share"):
        write_message_tables(spark, batch, lake, max_rescued=7, **options)
    assert not Path(lake).exists()
    with caplog.at_level(logging.INFO, logger="airflow_sqlqueue"):
        for _ in range(2):
            with pytest.raises(
                TooManyRescuedError, match=r"2 of 4 messages of the type 'Shop.PlaceOrder' have"
            ) as raised:
                write_message_tables(spark, batch, lake, max_rescued={"Shop.*": 0.4}, max_unparsed=1, **options)
    assert spark.read.parquet(f"{lake}/{ORDER}").count() == 3
    assert "'Lines[].Q': 1 of 3 rescued, as 'Lines[0].Q'" in caplog.text
    assert "has 1 message of the batch; not parsed: 1 json" in caplog.text
    assert "secret" not in caplog.text + str(raised.value)
    result = message_tables_job(spark, batch, lake, max_rescued=0.5, max_unparsed=0.25, **options)
    assert {name: result[name] for name in ("messages", "unparsed", "rescued", "tables")} == {
        "messages": 4, "unparsed": 1, "rescued": 2, "tables": 2,
    }  # fmt: skip
    assert [(each["reasons"], [found["field"] for found in each["rescued_fields"]]) for each in result["worst"]] == [
        ({}, ["Lines[].Q", "orderId"]), ({"json": 1}, []),
    ]  # fmt: skip
    assert "secret" not in json.dumps(result)
