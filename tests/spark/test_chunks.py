"""Packing of messages by type: every message is in one chunk, whatever its body and type are."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies import arrow_parser
from airflow_sqlqueue.bodies.extension import extended
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, array, fields_of, map_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.spark import bodies as spark_bodies
from airflow_sqlqueue.spark.bodies import IF_UNPARSED
from airflow_sqlqueue.spark.message_tables import chunks as parsed
from airflow_sqlqueue.spark.message_tables import samples
from airflow_sqlqueue.spark.message_tables.chunks import (
    COLUMNS,
    PARSED,
    REPORT,
    SEEN,
    UNPARSED_KIND,
    WAITING,
    Packing,
    Unpacking,
)

LIMIT = 100_000
ONE = struct({"a": "long", "b": "string"})

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
bodies = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.dictionaries(st.sampled_from(["a", "A", "b", "batch_id", "RowVersion", "", "x.y"]), json_values, max_size=5).map(
        lambda value: json.dumps(value).encode()
    ),
)
messages = st.tuples(st.sampled_from(["Shop.A", "Shop.B", None]), st.sampled_from(["application/json", None]), bodies)


def rows_of(given: list[tuple[str | None, str | None, bytes | None]]) -> pa.RecordBatch:
    columns: dict[str, Any] = dict.fromkeys((*COLUMNS, *IF_UNPARSED), pa.nulls(len(given), pa.string()))
    columns |= {
        "message_type": pa.array([each[0] for each in given], pa.string()),
        "message_id": pa.array([f"id {number}" for number in range(len(given))], pa.string()),
        "content_type": pa.array([each[1] for each in given], pa.string()),
        "RowVersion": pa.array(range(len(given)), pa.int64()),
        "Body": pa.array([each[2] for each in given], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def packed(schemas: dict[str, Struct], rows: list[pa.RecordBatch], *, new: bool) -> list[dict[str, Any]]:
    pack = Packing(schemas, max_bytes=LIMIT, new_types=new, new_fields=new)
    return [row for batch in pack(iter(rows)) for row in batch.to_pylist()]


def unpacked(chunks: list[dict[str, Any]], columns: list[str], fields: dict[str, Any] | None = None) -> pa.Table:
    content = pa.RecordBatch.from_pydict({"content": pa.array([each["content"] for each in chunks], pa.binary())})
    return pa.Table.from_batches(list(Unpacking(columns, fields or {})(iter([content]))))


def in_two_rounds(given: list[tuple[str | None, str | None, bytes | None]]) -> tuple[list[dict[str, Any]], Any]:
    """The chunks of both rounds, and the schemas between them: what the driver does."""
    first = packed({"Shop.A": struct({"a": "long"})}, [rows_of(given)], new=True)
    schemas = {"Shop.A": struct({"a": "long"})}
    for chunk in first:
        if chunk["kind"] == SEEN:
            seen = Statistics()
            seen.merge(json.loads(chunk["content"]))
            known = schemas.get(chunk["message_type"], struct({}))
            schemas[chunk["message_type"]] = extended(known, struct_of(seen))
    waiting = [chunk for chunk in first if chunk["kind"] == WAITING]
    rest = unpacked(waiting, [*COLUMNS, *IF_UNPARSED]).to_batches() if waiting else []
    second = packed(schemas, rest, new=False)
    return [chunk for chunk in first + second if chunk["kind"] not in (WAITING, SEEN, REPORT)], schemas


@given(st.lists(messages, min_size=1, max_size=30))
def test_every_message_is_in_one_chunk(given: list[tuple[str | None, str | None, bytes | None]]) -> None:
    chunks, schemas = in_two_rounds(given)
    found: Counter[int] = Counter()
    for chunk in chunks:
        versions = unpacked([chunk], ["RowVersion"])["RowVersion"].to_pylist()
        assert len(versions) == chunk["messages"]
        assert chunk["message_type"] is None or all(given[each][0] == chunk["message_type"] for each in versions)
        found.update(versions)
        if chunk["kind"] != PARSED:
            kept = unpacked([chunk], ["RowVersion", "Body", "_unparsed"]).to_pylist()
            assert all(row["Body"] == given[row["RowVersion"]][2] and row["_unparsed"] for row in kept)
    assert found == Counter(range(len(given)))
    assert all(read_schema(schema) == schema for schema in schemas.values() if schema["fields"])


@pytest.mark.parametrize("form", ["text", "variant"])
@pytest.mark.parametrize("charset", ["", "; charset=utf-16", "; charset=gbk"])
def test_an_event_is_kept_whatever_charset_its_content_type_names(charset: str, form: str) -> None:
    event, kind = '{"id": "1", "data": {"a": 5, "b": "é"}}', f"application/cloudevents+json{charset}"
    rows = rows_of([("Shop.A", kind, event.encode()), ("Shop.A", None, b'{"a": 6}')])
    (chunk,) = (row for batch in Packing({"Shop.A": ONE}, body=form)(iter([rows])) for row in batch.to_pylist())
    found = unpacked([chunk], ["a", f"body_{form}"])
    assert [list(row.values()) for row in found.to_pylist()] == [[5, event], [6, '{"a": 6}']]


@pytest.mark.parametrize(
    "number", ["9" * 39, "1e400", "1E-400", "-1.00000000000000000001e5", f"0.{'0' * 30}{'12' * 10}"]
)
def test_a_body_whose_number_a_variant_would_change_has_none(number: str) -> None:
    kept = ["9" * 38, f"-0.{'1' * 37}", "1E+2", "1e-7", "-0", f"1{'0' * 60}", f'":{number}"', "0.1"]
    texts = [f'{{"a":[{each} ]}}' for each in (number, *kept)]
    rows = rows_of([("Shop.A", None, text.encode()) for text in texts])
    (chunk,) = (
        row
        for batch in Packing({"Shop.A": ONE}, body="variant")(iter([rows]))
        for row in batch.to_pylist()
        if row["kind"] == PARSED
    )
    assert unpacked([chunk], ["body_variant"])["body_variant"].to_pylist() == [None, *texts[1:]]


def test_messages_whose_new_fields_are_empty_do_not_wait() -> None:
    empty = [b'{"a":1,"new":[]}', b'{"a":2,"new":{"x":[null,{}]}}', b'{"a":3}', b'{"a":4,"new":[],"b":{}}']
    chunks, schemas = in_two_rounds([("Shop.A", None, body) for body in (*empty, b'{"a":5,"new":[0]}')])
    waited, parsed = sorted((unpacked([each], ["RowVersion", "_rescued"]) for each in chunks), key=len)
    assert waited["RowVersion"].to_pylist() == [4]
    rescued = [None, '{"new":{"x":[null,{}]}}', None, None]
    assert parsed["_rescued"].to_pylist() == rescued
    assert fields_of(schemas["Shop.A"]).keys() == {"a", "new"}


def test_chunks_of_an_older_schema_get_nulls() -> None:
    bodies = (b'{"s":{"x":1},"l":[{"x":2},null],"m":{"k":[{"x":3}]}}', b'{"l":[]}')
    rows = rows_of([("Shop.A", None, body) for body in bodies])

    def fields(inner: Any) -> dict[str, Any]:
        return {"s": inner, "l": array(inner), "m": map_of(array(inner))}

    older = packed({"Shop.A": struct(fields(struct({"x": "long"})))}, [rows], new=True)
    now = {**fields(struct({"x": "long", "y": "string"})), "n": "date"}
    found = unpacked(older, ["RowVersion", *now], now)
    found.validate(full=True)
    assert found.to_pylist() == [
        {
            "RowVersion": 0,
            "s": {"x": 1, "y": None},
            "l": [{"x": 2, "y": None}, None],
            "m": [("k", [{"x": 3, "y": None}])],
            "n": None,
        },
        {"RowVersion": 1, "s": None, "l": [], "m": None, "n": None},
    ]


def test_blocks_and_chunks_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(parsed, "_BLOCK_BYTES", 4_000)
    monkeypatch.setattr(parsed, "_CHUNK_BYTES", 500)
    given: list[Any] = [("Shop.A", None, b'{"a":%d}' % number) for number in range(1_000)]
    sizes = [batch.num_rows for batch in parsed.blocks(iter([rows_of(given), rows_of(given[:3])]))]
    assert sum(sizes) == 1_003
    assert max(sizes) < 150
    chunks = packed({"Shop.A": struct({"a": "long"})}, [rows_of(given)], new=False)
    assert sum(chunk["messages"] for chunk in chunks) == 1_000
    assert max(chunk["messages"] for chunk in chunks) < 30


def test_bodies_whose_columns_take_much_room_are_parsed_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = struct({"a": array(struct({f"f{number}": "long" for number in range(500)}))})
    monkeypatch.setattr(arrow_parser, "_MOST_VALUES", 200_000)
    seen: list[int] = []
    parse = arrow_parser.BodyParser.parse
    monkeypatch.setattr(
        arrow_parser.BodyParser, "parse", lambda self, *given: seen.append(len(given[0])) or parse(self, *given)
    )
    rows = rows_of([("Shop.A", None, b'{"a":[%s]}' % b",".join([b"{}"] * 130))] * 9)
    chunks = packed({"Shop.A": schema}, [rows], new=False)
    columns = [rows["RowVersion"], rows["Body"], rows["content_type"], pa.repeat(False, 9)]
    given = pa.RecordBatch.from_arrays(columns, list("abcd"))
    parts = list(spark_bodies._parsed(schema, 1, True, LIMIT, iter([given])))
    assert sum(chunk["messages"] for chunk in chunks) == 9
    assert [number for part in parts for number in part.column(0).to_pylist()] == list(range(9))
    assert sum(seen) == 18
    assert max(seen) <= 4


def test_statistics_of_two_samples_are_those_of_both() -> None:
    values = [
        {"n": 1, "t": "2026-01-02", "l": [{"x": 1}]},
        {"n": 2, "t": "a", "l": [], "more": {"y": True}},
        {"n": None, "t": "2026-01-02"},
    ]
    from airflow_sqlqueue.bodies.decoding import parse

    both, parts = Statistics(), [Statistics(), Statistics()]
    for number, value in enumerate(values):
        tree = parse(json.dumps(value).encode())
        both.add(tree)
        parts[number % 2].add(tree)
    merged = Statistics()
    for part in parts:
        merged.merge(json.loads(json.dumps(part.to_values())))
    assert merged.votes() == both.votes()
    assert struct_of(merged) == struct_of(both)


def test_types_without_a_table_or_a_usable_schema_do_not_stop_others() -> None:
    given: list[Any] = [(name, None, b'{"a":1}') for name in ("Shop.A", "Shop.Bad", "Billing.A", None, "Shop.New")]
    types, unusable = TypePatterns.of(["Shop.*", "!Shop.Audit"]), ["Shop.Bad"]
    options: Any = {"new_types": True, "new_fields": True, "types": types, "unusable": unusable}
    pack = Packing({"Shop.A": struct({"a": "long"})}, max_bytes=LIMIT, **options)
    chunks = [row for batch in pack(iter([rows_of(given)])) for row in batch.to_pylist()]
    found = {
        (chunk["kind"], chunk["message_type"]): unpacked([chunk], ["RowVersion", "_unparsed"]).to_pylist()
        for chunk in chunks
        if chunk["kind"] == UNPARSED_KIND
    }
    assert found == {
        (UNPARSED_KIND, "Shop.Bad"): [{"RowVersion": 1, "_unparsed": "schema"}],
        (UNPARSED_KIND, None): [{"RowVersion": 2, "_unparsed": "type"}, {"RowVersion": 3, "_unparsed": "type"}],
    }
    assert [(chunk["kind"], chunk["message_type"]) for chunk in chunks if chunk["kind"] in (PARSED, SEEN)] == [
        (PARSED, "Shop.A"),
        (SEEN, "Shop.New"),
    ]


def test_a_sample_is_spread_over_senders_and_rows() -> None:
    senders = ["broken"] * 900 + ["a"] * 60 + ["b"] * 60
    order = list(range(len(senders)))
    found = []
    for _ in range(2):
        rows = pa.RecordBatch.from_pydict(
            {
                "message_id": [f"id {number}" for number in order],
                "originating_endpoint": [senders[number] for number in order],
                "Body": pa.array([b'{"a":"x"}' if senders[n] == "broken" else b'{"a":1}' for n in order], pa.binary()),
            }
        )
        found.append(samples.statistics_of(rows, rows["Body"], pa.nulls(len(order), pa.string())))
        order.reverse()
    assert sorted(found[0].messages.values()) == [33, 33, 34]
    assert fields_of(struct_of(found[0])) == {"a": "long"}
    assert found[0].votes() == found[1].votes()


def test_a_sample_is_bounded_by_bytes_and_has_a_message() -> None:
    bodies = [json.dumps({"a": "x" * 300_000}).encode(), b'{"a":1}', json.dumps({"a": "x" * 200_000}).encode()] * 3
    rows = rows_of([("Shop.A", None, body) for body in bodies])
    found = samples.statistics_of(rows, rows["Body"], rows["content_type"])
    assert 1 <= sum(found.messages.values()) < len(bodies)
    assert sum(samples.statistics_of(rows.slice(0, 1), rows["Body"], rows["content_type"]).messages.values()) == 1


def test_new_fields_of_xml_have_the_types_of_their_texts() -> None:
    body = b"\xef\xbb\xbf <M><a>1</a><n>5</n><At>2026-01-31</At><L><L>1</L></L><t>x</t><t>y</t><o><d>1.5</d></o></M>"
    _, schemas = in_two_rounds([("Shop.A", "text/xml", body)])
    assert fields_of(schemas["Shop.A"]) == {
        "a": "long",
        "n": "long",
        "At": "date",
        "L": struct({"L": "long"}),
        "t": array("string"),
        "o": struct({"d": "decimal(38,9)"}),
    }


def test_fields_that_can_never_be_columns_do_not_wait() -> None:
    bodies = [b'{"A":1,"a":2}', b'{"a b":1}', b'{"a":"x"}', json.dumps({"x" * 200: 1}).encode(), b'{"a":1,"new":1}']
    chunks, schemas = in_two_rounds([("Shop.A", None, body) for body in bodies])
    waited, *_ = sorted((unpacked([each], ["RowVersion"]) for each in chunks if each["kind"] == PARSED), key=len)
    assert waited["RowVersion"].to_pylist() == [4]
    assert fields_of(schemas["Shop.A"]).keys() == {"a", "new"}


XML_WITHOUT_COLUMNS = [b"<M><New>null</New></M>", b"<M><New> null\n</New><a>1</a></M>", b"<M><b><c>null</c>x</b></M>"]


def test_the_text_null_of_xml_does_not_wait() -> None:
    schema = struct({"a": "long", "b": struct({"#text": "string"})})
    chunks = packed({"Shop.A": schema}, [rows_of([("Shop.A", None, body) for body in XML_WITHOUT_COLUMNS])], new=True)
    assert {chunk["kind"] for chunk in chunks} <= {PARSED, REPORT}
    chunks = packed({"Shop.A": schema}, [rows_of([("Shop.A", None, b'{"New":"null"}')])], new=True)
    assert WAITING in {chunk["kind"] for chunk in chunks}, "of JSON it is a text"


def test_text_beside_children_that_have_columns_becomes_a_column() -> None:
    rows = rows_of([("Shop.A", None, b"<M><o><a>1</a>more</o>and more</M>"), ("Shop.A", None, b"<M><o>5</o></M>")])
    schema = struct({"o": struct({"a": "long"})})
    chunks = packed({"Shop.A": schema}, [rows], new=True)
    found = Statistics()
    for chunk in chunks:
        if chunk["kind"] == SEEN:
            found.merge(json.loads(chunk["content"]))
    schema = extended(schema, struct_of(found))
    assert fields_of(schema) == {"#text": "string", "o": struct({"a": "long", "#text": "string"})}
    chunks = packed({"Shop.A": read_schema(schema)}, [rows], new=True)
    assert {chunk["kind"] for chunk in chunks} == {PARSED}
