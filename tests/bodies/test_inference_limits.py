"""Limits of inference: patterns of types, bounded statistics, and the warnings before a limit is reached."""

from __future__ import annotations

import json
import tracemalloc
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies import extension
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.extension import KnownFields, differences, extended
from airflow_sqlqueue.bodies.inference import infer, struct_of
from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.bodies.schemas import MAX_FIELDS, all_fields, array, fields_of, map_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import MAX_NODES, Statistics
from airflow_sqlqueue.client.schemas import sampling
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.client.schemas.sampling import Misfits, Sample
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import ReceivedMessage, encode_headers


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (None, "Shop.Order", True),
        ("Shop.*", "Shop.Order", True),
        ("shop.*", "Shop.Order", True),
        ("Shop.*", "Shopping.Order", False),
        ("Shop", "Shop.Order", False),
        ("*", "", True),
        (["Shop.*", "!Shop.Internal.*"], "Shop.Internal.Tick", False),
        (["Shop.*", "!Shop.Internal.*"], "Shop.Order", True),
        (["!*.Tick"], "Shop.Tick", False),
        (["!*.Tick"], "Shop.Order", True),
        ("*Order*Placed*", "Shop.OrderWasPlacedV2", True),
        ("a*a", "a", False),
        ("Shop.Wrapped`1[[*", "Shop.Wrapped`1[[Shop.Order, Shop]]", True),
        ("Shop.?rder", "Shop.Order", False),
        (["Billing.*", "Shop.*"], "Shop.Order", True),
    ],
)
def test_patterns_of_types(patterns: object, name: str, matches: bool) -> None:
    assert TypePatterns.of(patterns).matches(name) is matches  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["", "!", " ", [], [7], 7, ["Shop.*", ""]])
def test_patterns_that_mean_nothing_are_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="Shop"):
        TypePatterns.of(given)  # type: ignore[arg-type]


WARNINGS = {
    "fields": "has no column for",
    "new fields": "are new",
    "statistics": "the statistics of",
    "many fields": "and room for",
}


def limits_of(warnings: list[str]) -> dict[str, str]:
    """The warnings by their limits; each is one of them."""
    found = {limit: each for each in warnings for limit, text in WARNINGS.items() if text in each}
    assert len(found) == len(warnings)
    return found


def statistics_of(*bodies: Any, sender: str | None = None) -> Statistics:
    found = Statistics()
    for body in bodies:
        found.add(parse(json.dumps(body).encode()), sender)
    return found


def measured(work: Any) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


WIDE = {
    "wide": lambda: {f"name {number}": 1 for number in range(20_000)},
    "two levels": lambda: {f"a{outer}": {f"b{inner}": 1 for inner in range(200)} for outer in range(100)},
    "deep": lambda: {f"a{n}": {"b": {"c": {"d": {"e": {f"g{n}": n}}}}} for n in range(4_000)},
    "long names": lambda: {f"{number:06}" + "x" * 1_000: 1 for number in range(6_000)},
}


@pytest.mark.parametrize("body", WIDE.values(), ids=WIDE)
def test_statistics_of_a_large_body_are_bounded(body: Any) -> None:
    tree, limit, most = parse(json.dumps(body()).encode()), 400, 2 * 1024 * 1024
    added, used = measured(lambda: statistics_of_tree(tree, limit))
    assert used < most, "when they are built"
    text, used = measured(lambda: json.dumps(added.to_values()))
    assert len(added) <= limit
    assert max(len(text), used) < most, "when they are sent"

    def merge() -> None:
        for _ in range(5):
            added.merge(json.loads(text))

    assert measured(merge)[1] < most, "when they are merged"
    assert added.is_cut
    assert len(added) <= 2 * limit
    assert len(list(all_fields(struct_of(added)))) <= limit


def statistics_of_tree(tree: Any, limit: int) -> Statistics:
    found = Statistics(limit)
    found.add(tree)
    return found


def test_the_limit_of_statistics_has_room_for_a_schema() -> None:
    assert MAX_NODES >= 2 * MAX_FIELDS
    assert not statistics_of({f"f{number}": [{"a": 1}] for number in range(1_000)}).is_cut


def test_statistics_of_many_senders_are_bounded_together() -> None:
    found = Statistics(500)
    for number in range(40):
        body = {f"f{number}_{each}": "x" for each in range(200)} | {"Id": "x"}
        found.add(body, f"sender {number}")
    assert len(found) <= 1_000
    found.to_values()
    assert len(found) <= 500
    assert found.is_cut


def test_fields_that_more_messages_have_come_first() -> None:
    usual = {"Id": 1, "Customer": {"Name": "x", "Address": {"Zip": 1}}, "Lines": [{"Sku": "a"}]}
    flood = {f"junk{number}": number for number in range(3_000)}
    found = statistics_of(flood, *[usual] * 3)
    schema, warnings = infer(found, "Shop.\x1bOrder")
    names = set(all_fields(schema))
    assert names >= {"Id", "Customer", "Name", "Address", "Zip", "Lines", "Sku"}
    assert len(list(all_fields(schema))) == MAX_FIELDS
    said, name = limits_of(warnings), r"'Shop.\x1bOrder'"
    assert said.keys() == {"fields", "many fields", "new fields"}
    assert said["fields"].startswith(
        f"{name} has no column for {3_007 - MAX_FIELDS:,} fields, as its schema is full: 'junk"
    )
    assert said["many fields"].startswith(f"the schema of {name} has 2,000 fields, and room for 2,000 at most.")
    assert said["new fields"].startswith(f"2,000 fields of {name} are new, the first one is 'Id'.")
    assert all(each.endswith(".") for each in warnings)


@pytest.mark.parametrize("junk", [3_995, 20_000])
def test_a_message_with_many_fields_takes_no_place_from_others(junk: int) -> None:
    usual = {"Id": 1, "Customer": {"Name": "x", "Address": {"Zip": 1}}, "Lines": [{"Sku": {"Code": {"Of": "a"}}}]}
    parts = [statistics_of(*[usual] * 5) for _ in range(20)]
    parts.insert(7, statistics_of({f"junk{number}": number for number in range(junk)}))
    found = Statistics()
    for part in parts:
        found.merge(json.loads(json.dumps(part.to_values())))
    schema, _ = infer(found, "A")
    assert set(all_fields(schema)) >= {"Id", "Customer", "Name", "Address", "Zip", "Lines", "Sku", "Code", "Of"}


@pytest.mark.parametrize(
    ("fields", "limits"), [(200, set()), (201, {"new fields"}), (1_600, {"new fields", "many fields"})]
)
def test_warnings_come_before_a_limit(fields: int, limits: set[str]) -> None:
    schema, warnings = infer(statistics_of({f"f{number}": 1 for number in range(fields)}), "A")
    assert limits_of(warnings).keys() == limits
    _, warnings = infer(statistics_of({f"f{number}": 1 for number in range(fields)}), "A", schema)
    assert limits_of(warnings).keys() == limits - {"new fields"}


def test_statistics_that_are_cut_are_a_warning() -> None:
    _, warnings = infer(statistics_of_tree({f"f{number}": "x" for number in range(30)}, 20), "A")
    assert limits_of(warnings).keys() == {"statistics"}


def test_a_full_schema_takes_no_field_and_says_so() -> None:
    full = struct({f"f{number}": "long" for number in range(MAX_FIELDS)})
    schema, warnings = infer(statistics_of({"new": 1, "f0": {"more": 1}}), "A", full)
    assert schema == full
    assert warnings[0].startswith("'A' has no column for 1 field, as its schema is full: 'new'.")


def test_schemas_are_no_deeper_than_they_may_be() -> None:
    body: Any = 1
    for _ in range(20):
        body = {"a": [body], "b": 1}
    schema = infer(statistics_of(body), "A")[0]
    assert read_schema(schema) == schema


@pytest.mark.parametrize(
    ("path", "would"),
    [
        (("New",), True),
        (("new",), True),
        (("Customer", "New"), True),
        (("customer", "New"), True),
        (("orderid",), False),
        (("ORDERID",), False),
        (("Customer", "name"), False),
        (("OrderId", "New"), False),
        (("Lines", 0, "New"), False),
        (("Stock", "New"), False),
        (("a b",), False),
        (("",), False),
        (("x" * 129,), False),
        (("OrderId",), False),
        (("New", 1), False),
        ((), False),
    ],
)
def test_new_fields_of_a_schema(path: Any, would: bool) -> None:
    customer = struct({"Name": "string"})
    known = struct({"OrderId": "long", "Customer": customer, "Lines": array(customer), "Stock": map_of("long")})
    assert KnownFields(known).would_extend(path) is would
    full = struct({f"f{number}": "long" for number in range(MAX_FIELDS)})
    assert not KnownFields(full).would_extend(path)


def test_a_schema_is_put_in_order_once_for_all_new_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def counted(name: str) -> str:
        keys.append(name)
        return column_key(name)

    monkeypatch.setattr(extension, "column_key", counted)
    known = KnownFields(struct({f"f{number}": "long" for number in range(1_000)}))
    assert all(known.would_extend((f"new{number}",)) for number in range(1_000))
    assert len(keys) == 2_000


names_of_fields = st.sampled_from(["a", "A", "b", "B", "c", "ab"])
bodies_of_cases = st.recursive(
    st.integers(0, 9), lambda inner: st.dictionaries(names_of_fields, inner, max_size=3), max_leaves=5
).filter(lambda value: isinstance(value, dict))


@given(st.lists(bodies_of_cases, min_size=1, max_size=4), st.lists(bodies_of_cases, min_size=1, max_size=4))
def test_an_extended_schema_differs_no_more(first: list[Any], second: list[Any]) -> None:
    known = infer(statistics_of(*first), "A")[0]
    schema = infer(statistics_of(*second), "A", known)[0]
    assert read_schema(schema) == schema
    assert not [each for each in differences(schema, struct_of(statistics_of(*second))) if each.schema is None]
    before = fields_of(known)
    assert list(fields_of(schema))[: len(before)] == list(before)


def test_a_field_in_another_case_is_not_new() -> None:
    known = struct({"OrderId": "long", "Customer": struct({"Name": "string"})})
    later = struct_of(statistics_of({"orderId": 1, "customer": {"name": "x", "age": 5}}))
    assert [each.path for each in differences(known, later)] == ["customer.age"]
    assert fields_of(extended(known, later)) == {
        "OrderId": "long",
        "Customer": struct({"Name": "string", "age": "long"}),
    }
    mixed = statistics_of(*[{"OrderId": 1, "C": {"A": 1}}] * 6, *[{"orderId": 1, "c": {"B": 1}}] * 4)
    assert fields_of(struct_of(mixed)) == {"OrderId": "long", "C": struct({"A": "long", "B": "long"})}


def sent(number: int, name: str, body: bytes, sender: str | None = None) -> ReceivedMessage:
    headers = {"NServiceBus.EnclosedMessageTypes": f"{name}, Shop"}
    headers |= {"NServiceBus.OriginatingEndpoint": sender} if sender else {}
    return ReceivedMessage(UUID(int=number), number, encode_headers(headers), body, datetime.now(timezone.utc), False)


def test_a_sample_of_many_types_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_NODES", 3_000)
    bodies = [json.dumps({f"t{kind}_{n}": 1 for n in range(400)} | {"Id": 1}).encode() for kind in range(200)]
    messages = [sent(number + 1, f"T{number}", body) for number, body in enumerate(bodies)]
    found = Sample.of(messages)
    assert len(found.types) == 200
    sizes = [len(list(all_fields(struct_of(each.statistics)))) for each in found.types.values()]
    assert sizes[0] == 401
    assert 3_000 // 200 - 2 <= sizes[-1] <= 3_000 // 200
    assert sum(sizes) <= 5 * 3_000, "the first types have all of their fields, later ones fewer"
    assert found.types["T199"].statistics.is_cut


def test_a_sample_counts_types_whose_names_no_file_has() -> None:
    messages = [sent(1, "A\\ud800B", b"{}"), sent(2, "Shop.Order", b'{"a":1}'), sent(3, "Other.Order", b"{}")]
    broken = ReceivedMessage(
        UUID(int=9),
        9,
        '{"NServiceBus.EnclosedMessageTypes":"A\\ud800B"}',
        b"{}",
        datetime.now(timezone.utc),
        False,
    )
    found = Sample.of([broken, *messages[1:]], types=TypePatterns.of("Shop.*"))
    assert list(found.types) == ["Shop.Order"]
    found = Sample.of([broken, *messages[1:]])
    assert list(found.types) == ["Shop.Order", "Other.Order"]
    assert found.others == 1


def test_a_sample_takes_its_messages_from_each_sender() -> None:
    many = [sent(n, "Shop.Order", b'{"Id":"x"}', "broken") for n in range(1, 200)]
    few = [sent(1_000 + n, "Shop.Order", b'{"Id":7}', name) for n in range(9) for name in ("a", "b")]
    found = Sample.of([*many, *few], per_type=30).types["Shop.Order"]
    assert found.messages == 48
    assert fields_of(struct_of(found.statistics)) == {"Id": "string"}, "18 of 30 are no two thirds"
    few += [sent(2_000 + n, "Shop.Order", b'{"Id":7}', "c") for n in range(9)]
    assert fields_of(struct_of(Sample.of([*many, *few]).types["Shop.Order"].statistics)) == {"Id": "long"}


def test_an_unusable_schema_leaves_the_others(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path)
    folder.put("Shop.Good", struct({"a": "long"}))
    (tmp_path / "Shop.Bad.json").write_text("{")
    (tmp_path / "Shop.Odd.json").write_text('{"type": "struct", "fields": 7}')
    unusable: dict[str, str] = {}
    assert folder.all(unusable) == {"Shop.Good": struct({"a": "long"})}
    assert unusable.keys() == {"Shop.Bad", "Shop.Odd"}
    assert "mend or remove" in unusable["Shop.Bad"]
    with pytest.raises(ConfigurationError, match=r"Shop\.Bad\.json is not JSON"):
        folder.all()


def test_the_names_of_a_schema_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many values a body has beside the fields."""
    asked: list[object] = []
    monkeypatch.setattr(extension, "fields_of", lambda kind: asked.append(kind) or fields_of(kind))
    misfits = Misfits(struct({f"f{number}": "long" for number in range(300)}))
    misfits.add({**{f"other{number}": True for number in range(500)}, "f7": "seven"})
    assert {path: (found.kinds, found.messages) for path, found in misfits.items()} == {("f7",): ({"string"}, 1)}
    assert len(asked) == 1
