"""Inference: a majority of messages and senders decides, numbers have room, and order changes nothing."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies import statistics
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.schemas import fields_of, map_of, struct
from airflow_sqlqueue.bodies.statistics import Statistics

Sent = tuple[str, str | None]


def array(kind: Any) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


def statistics_of(*bodies: str | Sent) -> Statistics:
    found = Statistics()
    for each in bodies:
        body, sender = (each, None) if isinstance(each, str) else each
        found.add(parse(body.encode()), sender)
    return found


def inferred(*bodies: str | Sent) -> dict[str, Any]:
    return fields_of(struct_of(statistics_of(*bodies)))


def type_of(*values: str) -> Any:
    return inferred(*(f'{{"v":{value}}}' for value in values)).get("v")


def xml_type_of(*inner: str, name: str = "v") -> Any:
    return inferred(*(f"<M>{each}</M>" for each in inner)).get(name)


ODD = ['"x"', "1", "true", "[1]", '{"a":1}', '"2026-01-01"', "1e5", "[]", "{}", '""']


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("usual", "kind"),
    [
        ("7", "long"),
        ("7.5", "decimal(38,9)"),
        ("true", "boolean"),
        ('"2026-01-31"', "date"),
        ('"2026-01-31T08:00:00Z"', "timestamp"),
        ('"2026-01-31T08:00:00"', "timestamp_ntz"),
        ('{"x":1}', None),
        ("[7]", array("long")),
    ],
)
def test_types_withstand_an_odd_value(usual: str, kind: Any, odd: str) -> None:
    expected = type_of(usual) if kind is None else kind
    for count in (20, 99):
        found = type_of(*[usual] * count, odd)
        if isinstance(found, dict) and found["type"] == "struct":
            assert fields_of(found)["x"] == "long", "fields may be added"
        else:
            assert found == expected
        assert type_of(odd, *[usual] * count) == found, "whichever is the first"


@pytest.mark.parametrize(("first", "second"), [("7", '"x"'), ("true", "7"), ("[1]", "{}"), ('{"a":1}', "[7]")])
def test_two_thirds_decide_and_less_is_a_mixture(first: str, second: str) -> None:
    assert type_of(*[first] * 20, *[second] * 10) == type_of(first)
    if second != "{}":
        assert type_of(*[first] * 19, *[second] * 11) == "string"
        assert type_of(first, second) == "string"


def test_each_text_of_xml_has_one_vote() -> None:
    for value, kind in (("true", "boolean"), ("2026-01-01T10:00:00Z", "timestamp")):
        for count, found in ((20, kind), (19, "string")):
            assert xml_type_of(*[f"<v>{value}</v>"] * count, *["<v>x</v>"] * (30 - count)) == found


def test_a_message_counts_once_however_many_values_it_has() -> None:
    many = '{"v":[' + ",".join(['"x"'] * 1_000) + "]}"
    assert inferred(*['{"v":[1,2]}'] * 20, many) == {"v": array("long")}
    assert inferred('{"v":[1,"x"]}') == {"v": array("string")}, "a mixture in itself"


@pytest.mark.parametrize(("many", "others", "each"), [(500, 5, 20), (60, 5, 4), (10_000, 2, 20), (300, 3, 100)])
def test_a_sender_of_many_messages_does_not_outvote_others(many: int, others: int, each: int) -> None:
    broken: list[Sent] = [('{"v":"x"}', "broken")] * many
    good: list[Sent] = [('{"v":7}', name) for name in list("abcde")[:others] for _ in range(each)]
    assert len({statistics.sender_number(name) for _, name in [*broken, *good]}) == others + 1
    assert inferred(*broken, *good) == {"v": "long"}
    assert inferred(*good, *broken) == {"v": "long"}


def test_a_sender_of_a_single_message_has_a_single_vote() -> None:
    assert inferred(*[('{"v":7}', "usual")] * 1_000, ('{"v":"x"}', "other")) == {"v": "long"}
    assert inferred(*[('{"v":7}', "one")] * 1_000, *[('{"v":"x"}', "two")] * 1_000) == {"v": "string"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["79228162514264337593543950335", "0.5"], "decimal(38,9)"),
        (["10", "10.5", "10.25"], "decimal(38,9)"),
        (["10"] * 40 + ["0.5"], "decimal(38,9)"),
        (["0.1234567890"], "decimal(38,10)"),
        (["0.3333333333333333333333333333"], "decimal(38,28)"),
        (["12345678901234567890.123456789012"], "decimal(38,12)"),
        (["123456789012345678901234567890.12"], "decimal(38,2)"),
        (["-9223372036854775808", "9223372036854775807"], "long"),
        (["9223372036854775808"], "decimal(38,0)"),
        (["-9223372036854775809"], "decimal(38,0)"),
        (["99999999999999999999999999999999999999"], "decimal(38,0)"),
        (["999999999999999999999999999999999999999"], "string"),
        (["1.5", "2E-5"], "double"),
        (["1.5"] * 18 + ["2E-5", "1e400"], "double"),
        (["1.5"] * 17 + ["2E-5", "1e400"], "string"),
        (["9007199254740993", "1E+16"], "string"),
        (["0." + "1" * 39], "string"),
        (["1e9" + "9" * 30], "string"),
        (["0e-9" + "9" * 30], "string"),
    ],
)
def test_numbers_have_room(values: list[str], kind: str) -> None:
    assert type_of(*values) == kind
    assert type_of(*reversed(values)) == kind


@pytest.mark.parametrize(
    "odd", ["1e5", "0.12345678901234567890123456789", "9" * 40, "0." + "1" * 60, "1E+400", "1e-9" + "9" * 30]
)
def test_an_odd_number_leaves_room_to_others(odd: str) -> None:
    assert type_of(*["10.25"] * 40, odd) == "decimal(38,9)"


NO_DAYS = ["2026-02-30", "0000-00-00", "2026-31-01", "0000-00-00T00:00:00", "2026-01-31T24:00:00Z", "9999-99-99"]


@pytest.mark.parametrize("text", NO_DAYS)
def test_a_day_that_does_not_exist_is_a_text(text: str) -> None:
    assert type_of(f'"{text}"') == xml_type_of(f"<v>{text}</v>") == "string"
    usual = ['"2026-01-31"'] * 2
    assert type_of(f'"{text}"', *usual) == "date", "and takes no column away"


def test_a_leading_zero_in_xml_makes_a_text() -> None:
    zips = [f"<v>{number}</v>" for number in range(10_000, 10_040)]
    assert xml_type_of(*zips) == "long"
    assert xml_type_of(*zips, "<v>01234</v>") == "string"
    assert xml_type_of(*zips, "<v>-01.5</v>") == "string"
    assert xml_type_of("<v>0</v>", "<v>-0.5</v>") == "decimal(38,9)"


BLANK = ["<v>\n</v>", "<v/>", "<v> \t</v>", "<v>null</v>"]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize(
    "usual", ["<v><Line><K>1</K></Line><Line><K>2</K></Line></v>", "<v><City>x</City><Zip>1</Zip></v>", "<v>7</v>"]
)
def test_blank_xml_is_nothing(usual: str, blank: str) -> None:
    assert xml_type_of(usual) not in (None, "string")
    assert xml_type_of(usual, *[blank] * 5) == xml_type_of(usual)
    assert xml_type_of(blank) is None


LINE = "<Line><K>1</K></Line>"
ITEM = struct({"K": "long"})


@pytest.mark.parametrize(
    ("bodies", "name", "kind"),
    [
        (["<Id>1</Id>"] * 99 + ["<Id>1</Id><Id>2</Id>"], "Id", "long"),
        (["<Id>1</Id>"] * 20 + ["<Id>1</Id><Id>2</Id>"], "Id", "long"),
        (["<Id>1</Id>", "<Id>1</Id><Id>2</Id>"], "Id", array("long")),
        ([LINE] * 2 + [LINE * 2], "Line", array(ITEM)),
        ([LINE] * 20 + [LINE * 2], "Line", ITEM),
        ([f"<Lines>{LINE}</Lines>"], "Lines", array(ITEM)),
        ([f"<Lines>{LINE}</Lines>"] * 50 + ["<Lines><Other>1</Other></Lines>"], "Lines", array(ITEM)),
        (["<Lines><OrderLine>1</OrderLine></Lines>"], "Lines", array("long")),
        (["<OrderLines><Line>1</Line></OrderLines>"], "OrderLines", array("long")),
        (["<Entries><Entry>1</Entry></Entries>"], "Entries", array("long")),
        (["<Tags><string>a</string></Tags>"], "Tags", array("string")),
        (["<Codes><Int32>1</Int32></Codes>"], "Codes", array("long")),
        (["<ArrayOfLine><Line>1</Line></ArrayOfLine>"], "ArrayOfLine", array("long")),
        (["<Address><City>x</City></Address>"], "Address", struct({"City": "string"})),
        (["<A><City>x</City></A>"] * 99 + ["<A><City>x</City><City>y</City></A>"], "A", struct({"City": "string"})),
        (["<Stock><P>1</P><P>2</P></Stock>"], "Stock", array("long")),
    ],
)
def test_lists_of_xml_are_usual_or_look_like_lists(bodies: list[str], name: str, kind: Any) -> None:
    assert xml_type_of(*bodies, name=name) == kind
    assert xml_type_of(*reversed(bodies), name=name) == kind


def test_elements_with_items_of_two_names_are_no_list_whatever_their_order() -> None:
    items = ("<v><Line>1</Line></v>", "<v><string>x</string></v>")
    bodies = ["".join(each) for each in permutations(items)]
    kinds = [xml_type_of(*each) for each in (bodies, bodies[::-1])]
    assert sorted(each["name"] for each in kinds[0]["elementType"]["fields"]) == ["Line", "string"]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    ("bodies", "kind"),
    [
        (['<v Ccy="EUR">1.5</v>'], struct({"@Ccy": "string", "#text": "decimal(38,9)"})),
        (['<v Ccy="EUR">1.5</v>', "<v>2.5</v>"], struct({"@Ccy": "string", "#text": "decimal(38,9)"})),
        (['<v Ccy="EUR">1.5</v>'] + ["<v>2.5</v>"] * 20, "decimal(38,9)"),
        (['<v id="5"/>'], struct({"@id": "long"})),
        (['<v a="01">x</v>'], struct({"@a": "string", "#text": "string"})),
        (['<v n="1"><s>x</s></v>', "<v><s>y</s></v>"], struct({"@n": "long", "s": "string"})),
        (['<v n="1"><Int32>5</Int32></v>'] * 2, struct({"@n": "long", "Int32": "long"})),
        (['<v n="1"><Int32>5</Int32></v>'] + ["<v><Int32>5</Int32></v>"] * 20, array("long")),
    ],
)
def test_attributes_make_a_struct_if_they_are_usual(bodies: list[str], kind: Any) -> None:
    assert xml_type_of(*bodies) == kind


DICTIONARIES = {
    "GUIDs": [str(UUID(int=number * 7_919)) for number in range(60)],
    "days": [f"2026-01-{day:02}" for day in range(1, 31)],
    "instants": [f"2026-01-{day:02}T08:00:00Z" for day in range(1, 31)],
    "numbers": [str(number) for number in range(60)],
    "words": [f"sku_{number}" for number in range(60)],
    "odd words": [f"a.b {number}" for number in range(60)],
    "long words": ["x" * 200 + str(number) for number in range(60)],
}


@pytest.mark.parametrize("names", DICTIONARIES.values(), ids=DICTIONARIES)
def test_dictionaries(names: list[str]) -> None:
    bodies = [json.dumps({"Id": 1, "Stock": {name: n, names[n - 1]: 1}}) for n, name in enumerate(names)]
    assert inferred(*bodies) == {"Id": "long", "Stock": map_of("long")}
    nested = [json.dumps({"Stock": {name: {"n": n, "at": ["x"]}}}) for n, name in enumerate(names)]
    assert inferred(*nested) == {"Stock": map_of(struct({"n": "long", "at": array("string")}))}


def test_a_dictionary_by_its_names_needs_one_message() -> None:
    assert inferred('{"Days":{"2026-01-31":1.5}}') == {"Days": map_of("decimal(38,9)")}
    assert inferred('{"2026-01-31":1,"2026-02-01":2}').keys() == {"2026-01-31", "2026-02-01"}, "the root is none"


def test_optional_fields_are_no_dictionary() -> None:
    bodies = [json.dumps({"o": {"Id": n, f"f{n}": n}}) for n in range(40)]
    assert len(fields_of(inferred(*bodies)["o"])) == 41
    few = [json.dumps({"o": {f"f{n % 10}": n}}) for n in range(40)]
    assert len(fields_of(inferred(*few)["o"])) == 10


def test_structs_withstand_a_message_with_many_names() -> None:
    usual = ['{"o":{"a":1,"b":2}}'] * 40
    flood = json.dumps({"o": {str(UUID(int=n)): n for n in range(1_000)}})
    assert fields_of(inferred(*usual, flood)["o"]).keys() >= {"a", "b"}


@pytest.mark.parametrize("inner", [lambda it: it, lambda it: {"n": it}, lambda it: {"x": {"n": [it]}}])
def test_a_message_with_many_keys_has_one_vote_on_the_values_of_a_dictionary(inner: Any) -> None:
    def body(count: int, value: object) -> str:
        return json.dumps({"o": {str(UUID(int=number)): inner(value) for number in range(count)}})

    usual = [body(number % 3 + 1, 1) for number in range(20)]
    assert inferred(*usual, body(1_000, "x")) == inferred(*usual)
    mixed = inferred(*[body(1, 1)] * 3, *[body(25, "x")] * 2)["o"]
    assert "long" not in json.dumps(mixed), "three of five messages are no majority"


def test_keys_of_a_dictionary_have_equal_votes() -> None:
    numbers, texts = ({str(UUID(int=n)): value for n in range(23)} for value in (1, "x"))
    assert inferred(*[json.dumps({"o": numbers})] * 2, json.dumps({"o": texts})) == {"o": map_of("long")}


def test_fields_are_in_the_order_of_the_bodies() -> None:
    assert list(inferred('{"z":1,"a":1,"m":1}', '{"z":1,"m":1}')) == ["z", "a", "m"]


scalars = st.sampled_from([None, True, 7, 2**70, 1.5, 1e-7, "x", "", "2026-01-31", "2026-01-31T08:00:00Z", "01"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "A", "b", "7"]), inner, max_size=3)
    ),
    max_leaves=6,
)
json_bodies = st.dictionaries(st.sampled_from("abcd"), values, max_size=4).map(json.dumps)
elements = st.recursive(
    st.sampled_from(["", "\n", "7", "01", "x", "true", "1.5", "null"]),
    lambda inner: st.lists(st.tuples(st.sampled_from(["Line", "Lines", "b"]), inner), max_size=4).map(
        lambda pairs: "".join(f"<{name}>{text}</{name}>" for name, text in pairs)
    ),
    max_leaves=6,
)
xml_bodies = elements.map(lambda text: f"<M>{text}</M>")
messages = st.lists(st.tuples(json_bodies | xml_bodies, st.sampled_from([None, "a", "b", "c"])), min_size=1, max_size=8)


@given(messages, st.randoms(use_true_random=False), st.integers(4, 40), st.integers(1, 4))
def test_order_and_distribution_change_nothing(sent: list[Sent], random: Any, limit: int, parts: int) -> None:
    whole, pieces = Statistics(limit), [Statistics(limit) for _ in range(parts)]
    for body, sender in sent:
        whole.add(parse(body.encode()), sender)
    for body, sender in random.sample(sent, len(sent)):
        random.choice(pieces).add(parse(body.encode()), sender)
    merged = Statistics(limit)
    for piece in random.sample(pieces, parts):
        merged.merge(json.loads(json.dumps(piece.to_values())))
    assert struct_of(merged) == struct_of(whole)
    assert merged.votes() == whole.votes()
    assert len(whole) <= 2 * limit
