"""Rules of a redaction, and their effect on the headers, the columns and the body of a row."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.decoding import MAX_BYTES, parse
from airflow_sqlqueue.bodies.redaction.redactor import Redaction, Redactor
from airflow_sqlqueue.bodies.redaction.rules import RedactionRules
from airflow_sqlqueue.bodies.tree import BLANKS, TEXT
from airflow_sqlqueue.drain.stages.enclosed_types import enclosed_types
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.row import Row

KEY = "a key of 16 bytes or more"
PLACE = "Shop.PlaceOrder"
CANARY = "canary-4711"


def redactor(*rules: dict[str, Any]) -> Redactor:
    return Redactor.of([{"message_type": PLACE, **rule} for rule in rules], KEY)


def row(body: bytes | None = b"", headers: Any = None, kind: str = f"{PLACE}, Shop", **columns: Any) -> Row:
    named = headers if isinstance(headers, str) or headers is None else json.dumps(headers)
    text = json.dumps({HeaderNames.ENCLOSED_MESSAGE_TYPES: kind}) if named is None else named
    return Row(str(uuid.UUID(int=7)), None, None, True, None, text, body, 1, False)._replace(**columns)


def typed(**headers: str | None) -> dict[str, str | None]:
    return {HeaderNames.ENCLOSED_MESSAGE_TYPES: PLACE, **headers}


def redacted(body: bytes, *rules: dict[str, Any]) -> bytes | None:
    found: bytes | None = redactor(*rules).examine(row(body)).row[6]
    return found


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


# Rules


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([], "empty"),
        (7, "not int"),
        (["x"], "not str"),
        ([{"body": "drop"}], "no 'message_type'"),
        ([{"message_type": PLACE}], "changes nothing"),
        ([{"message_type": 7, "body": "drop"}], "not empty"),
        ([{"message_type": "", "body": "drop"}], "not empty"),
        ([{"message_type": "\u200b, Shop", "body": "drop"}], "not empty"),
        ([{"message_type": PLACE, "body": "mask"}], 'is "drop"'),
        ([{"message_type": PLACE, "header": {}}], "does not know 'header'"),
        ([{"message_type": PLACE, "headers": {"A": "mask"}}], "unknown action"),
        ([{"message_type": PLACE, "headers": {}}], "not empty"),
        ([{"message_type": PLACE, "fields": {"A": "keep"}}], "unknown action"),
        ([{"message_type": PLACE, "fields": {"A..B": "drop"}}], "cannot be read"),
        ([{"message_type": PLACE, "fields": {"A[0]": "drop"}}], "cannot be read"),
        ([{"message_type": PLACE, "fields": {"$.A": "drop"}}], "begins with"),
        ([{"message_type": PLACE, "keep_fields": []}], "not empty"),
        ([{"message_type": PLACE, "keep_fields": [["A"]]}], "is a text"),
        ([{"message_type": PLACE, "keep_fields": ["A"], "fields": {"A": "drop"}}], "write it once"),
        ([{"message_type": PLACE, "keep_headers": "A"}], "not empty"),
        ([{"message_type": PLACE, "body": "drop", "fields": {"A": "drop"}}], "choose one"),
        ('[{"message_type": "A", "message_type": "B"}]', "twice"),
        ("[", "not JSON"),
        ("/no/such/file.json", "cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(rules: object, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedactionRules.of(rules)
    assert sentence in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_rules_of_a_file_of_a_text_and_of_data_have_one_fingerprint(tmp_path: Path) -> None:
    rule = {"message_type": PLACE, "fields": {"A": "drop", "B": "mask"}}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rules": [rule]}))
    other = {"fields": {"B": "mask", "A": "drop"}, "message_type": PLACE}
    forms = (rule, [other], json.dumps(rule), str(file), file)
    assert len({RedactionRules.of(form).fingerprint for form in forms}) == 1
    assert RedactionRules.of({**rule, "message_type": "*"}).fingerprint != RedactionRules.of(rule).fingerprint


@pytest.mark.parametrize("key", [None, "", "short"])
def test_a_hash_needs_a_long_key(key: str | None) -> None:
    with pytest.raises(ConfigurationError, match="key"):
        Redactor.of({"message_type": "*", "headers": {"A": "hash"}}, key)
    assert Redactor.of({"message_type": "*", "headers": {"A": "drop"}}, key).key is not None or key is None


def test_the_key_is_not_shown_and_goes_with_a_pickle() -> None:
    rules = redactor({"fields": {"A": "hash"}})
    assert KEY not in repr(rules)
    assert pickle.loads(pickle.dumps(rules)).hashed("x") == hashed("x")


# Types


@pytest.mark.parametrize(
    ("pattern", "types", "concerned"),
    [
        (PLACE, "Shop.PlaceOrder, Shop, Version=1.0.0.0", True),
        (PLACE, "Shop.PlaceVipOrder, Shop;Shop.PlaceOrder, Shop", True),
        (PLACE, "shop.placeorder", True),
        (PLACE, "Shop.PlaceOrders", False),
        ("Shop.*", "Shop.Orders.Placed", True),
        ("Shop.*", "Shopping.Placed", False),
        ("*.orders.*", "Shop.Orders.Placed", True),
        ("*.Orders.*", "Shop.OrdersPlaced", False),
        ("*", "Any", True),
        (PLACE, "", True),
    ],
)
def test_a_rule_concerns_the_enclosed_types(pattern: str, types: str, concerned: bool) -> None:
    rules = Redactor.of({"message_type": pattern, "body": "drop"})
    given = row(b"x", kind=types)
    assert rules.concerns(given.headers) is concerned
    assert (rules.examine(given).row is given) is not concerned


@pytest.mark.parametrize("headers", ["{", "[]", '{"A": 1}', '{"A": "canary-4711"', "", f'"{CANARY}"'])
def test_headers_that_are_malformed_concern_every_rule(headers: str) -> None:
    rules = redactor({"headers": {"A": "drop"}, "fields": {"A": "drop"}})
    found = rules.examine(row(b'{"A": "canary-4711", "B": 1}', headers, correlation_id=CANARY)).row
    assert (found[5] or "{}", found[6]) == ("{}", b'{"B":1}')
    assert CANARY not in str(found._replace(correlation_id=None) if isinstance(found, Row) else found)


# Headers


def test_headers_are_dropped_and_hashed_without_regard_to_case() -> None:
    rules = redactor({"headers": {"secret": "hash", "Personal.*": "drop"}})
    given = typed(SECRET="x@y", **{"personal.name": "n", "Other": "ä\ud800", "Null": None})
    found = json.loads(rules.examine(row(headers=given)).row[5])
    assert found == typed(SECRET=hashed("x@y"), Other="ä\ud800", Null=None)


def test_columns_follow_their_headers() -> None:
    rules = redactor({"headers": {HeaderNames.CORRELATION_ID: "hash", HeaderNames.REPLY_TO_ADDRESS: "drop"}})
    given = row(headers=typed(**{HeaderNames.CORRELATION_ID: "c"}), correlation_id="c", reply_to_address="r")
    found = rules.examine(given).row
    assert found[1:3] == (hashed("c"), None)
    assert json.loads(found[5])[HeaderNames.CORRELATION_ID] == hashed("c")


def test_the_id_of_the_row_follows_the_message_id() -> None:
    rules, own = redactor({"headers": {HeaderNames.MESSAGE_ID: "hash"}}), str(uuid.UUID(int=7))
    same = rules.examine(row(headers=typed(**{HeaderNames.MESSAGE_ID: own}))).row
    assert same[0] != own
    assert uuid.UUID(same[0]).hex == hashed(own)[:32]
    other = rules.examine(row(headers=typed(**{HeaderNames.MESSAGE_ID: "other"}))).row
    assert other[0] == own


def test_only_listed_headers_are_kept_and_the_strictest_rule_counts() -> None:
    others = {"headers": {"A": "drop", "D": "hash"}}
    rules = redactor({"keep_headers": ["A", "NServiceBus.*"], "headers": {"B": "hash"}}, others)
    found = rules.examine(row(headers=typed(A="a", B="b", C="c", D="d"), correlation_id="c"))
    assert json.loads(found.row[5]) == typed(B=hashed("b"))
    assert found.row[1] == "c"
    assert found.headers == {"A": "drop", "B": "hash", "C": "drop", "D": "drop"}


# Bodies


def test_the_rest_of_a_body_keeps_its_digits_its_encoding_and_its_mark() -> None:
    text = (
        '{"Email": "x@y", "Total": 1.2300000000000000000000000001E+5, "Name": "\u00e4\u2603", "B": 12345678901234567}'
    )
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"", "utf-16-be"), (b"", "utf-8")):
        found = redacted(mark + text.encode(encoding), {"fields": {"Email": "mask"}})
        assert found is not None
        assert found.startswith(mark)
        assert found[len(mark) :].decode(encoding) == text.replace("x@y", "***").replace(": ", ":").replace(", ", ",")


def test_a_body_without_the_field_is_the_same_bytes() -> None:
    body = b'{ "A" : 1.0, "B" : [ ] }'
    assert redacted(body, {"fields": {"C.D": "drop"}}) is body


@pytest.mark.parametrize(
    ("path", "action", "body", "expected"),
    [
        ("A", "mask", {"A": "x"}, {"A": "***"}),
        ("A", "mask", {"A": 12}, {"A": None}),
        ("A", "mask", {"A": {"B": 1}}, {"A": None}),
        ("A", "mask", {"A": ["x", 1, None]}, {"A": ["***", None, None]}),
        ("A", "hash", {"A": 12}, {"A": hashed("12")}),
        ("A", "hash", {"A": [True, "x"]}, {"A": [hashed("true"), hashed("x")]}),
        ("A", "hash", {"A": {"B": "x"}}, {"A": None}),
        ("A", "drop", {"A": [1], "B": 2}, {"B": 2}),
        ("A.B", "drop", {"A": [{"B": 1, "C": 2}, [], None]}, {"A": [{"C": 2}, [], None]}),
        ("A[].B", "drop", {"A": {"B": 1, "C": 2}}, {"A": {"C": 2}}),
        ("A.*", "mask", {"A": {"B": "x", "C": "y"}}, {"A": {"B": "***", "C": "***"}}),
        ('"a.b"', "mask", {"A.B": "x"}, {"A.B": "***"}),
        ("A.B", "mask", [{"A": {"b": "x"}}], [{"A": {"b": "***"}}]),
        ("A.B", "mask", {"A": {"$values": [{"B": "x"}]}}, {"A": {"$values": [{"B": "***"}]}}),
        ("A.B", "mask", {"A": {"$ref": "1"}, "C": {"$id": "1", "B": "x"}}, {"A": {"B": "***"}, "C": {"B": "***"}}),
    ],
)
def test_a_field_of_json_is_found_by_its_path(path: str, action: str, body: Any, expected: Any) -> None:
    found = redacted(json.dumps(body).encode(), {"fields": {path: action}})
    assert found is not None
    assert json.loads(found) == expected


def test_only_listed_fields_of_json_are_kept() -> None:
    body = {
        "$type": "T",
        "Id": 1,
        "Lines": [{"Sku": 1, "Card": 2}, CANARY],
        "Who": {"Email": "e", "Age": 1},
        "X": CANARY,
    }
    found = redacted(json.dumps(body).encode(), {"keep_fields": ["Id", "Lines[].Sku"], "fields": {"Who.Email": "hash"}})
    assert json.loads(found or b"") == {"Id": 1, "Lines": [{"Sku": 1}], "Who": {"Email": hashed("e")}}
    wrapped = b'{"Lines": {"$type": "T", "$values": [{"Sku": 1, "Card": 2}]}, "Id": {"$value": 3}}'
    for kept in ("Lines.Sku", "Lines.$values.Sku"):
        assert redacted(wrapped, {"keep_fields": [kept, "Id.No"]}) == b'{"Lines":{"$values":[{"Sku":1}]},"Id":{}}'


def test_the_strictest_action_of_several_rules_counts() -> None:
    rules = ({"fields": {"A": "hash", "B": "mask", "C": "hash"}}, {"fields": {"A": "hash", "B": "hash", "C": "drop"}})
    assert json.loads(redacted(b'{"A": "x", "B": "y", "C": "z"}', *rules) or b"") == {"A": hashed("x"), "B": "***"}


XML = (
    '<?xml version="1.0"?>\n<PlaceOrder xmlns="http://tempuri.net/Shop" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><!-- c -->'
    '<Email>x@y</Email><Total>1.50</Total><Gone xsi:nil="true"/>'
    "<Lines><Line><Card>47<![CDATA[11]]></Card><Sku>a</Sku></Line><Line><Card/></Line></Lines></PlaceOrder>\n"
)


@pytest.mark.parametrize(
    ("path", "action", "old", "new"),
    [
        ("email", "mask", "x@y", "***"),
        ("Email", "hash", "x@y", hashed("x@y")),
        ("Email", "drop", "<Email>x@y</Email>", ""),
        ("Lines[].Card", "mask", "47<![CDATA[11]]>", "***"),
        ("Lines[].Card", "hash", "47<![CDATA[11]]>", hashed("4711")),
        (
            "Lines[].Card",
            "drop",
            "<Card>47<![CDATA[11]]></Card><Sku>a</Sku></Line><Line><Card/>",
            "<Sku>a</Sku></Line><Line>",
        ),
        ("Lines", "mask", XML[XML.index("<Line>") : XML.index("</Lines>")], ""),
        ("Gone", "mask", "", ""),
    ],
)
def test_an_element_of_xml_is_changed_at_its_place(path: str, action: str, old: str, new: str) -> None:
    expected = XML.replace(old, new) if old else XML
    for encoding in ("utf-8", "utf-16"):
        found = redacted(XML.encode(encoding), {"fields": {path: action}})
        assert found is not None
        assert found.decode(encoding) == expected


def test_only_listed_elements_are_kept() -> None:
    kept = {"keep_fields": ["Total", "Lines[].Sku"]}
    lines = "<Lines><Line><Sku>a</Sku></Line><Line></Line></Lines>"
    wanted = f"{XML[: XML.index('<!--')]}<Total>1.50</Total>{lines}</PlaceOrder>\n"
    assert (redacted(XML.encode(), kept) or b"").decode() == wanted
    around = XML.replace("\n", "<!-- who --><?who?>", 1) + "<!-- who -->"
    assert (redacted(around.encode(), kept) or b"").decode() == wanted.replace("\n", "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "json"),
        (b"canary", "format"),
        (b'{"A": NaN}', "json"),
        (b"[1]", "object"),
        (b"\xff\xff{", "encoding"),
        (b"<A>", "xml"),
        (b"<!DOCTYPE a><a/>", "xml"),
        (b'{"A": {"$id": "1", "B": {"$ref": "1"}}}', "depth"),
        (b'{"A":' * 70 + b"1" + b"}" * 70, "depth"),
        (b'{"A":' * 100_000, "depth"),
        (b'{"A": "' + b"x" * MAX_BYTES + b'"}', "size"),
    ],
)
def test_a_body_that_cannot_be_parsed_is_left_out_whole(body: bytes, reason: str) -> None:
    found = redactor({"fields": {"Email": "mask"}}).examine(row(body))
    assert (found.row[6], found.body) == (None, reason)


def test_another_content_type_is_left_out_only_where_a_rule_names_a_field() -> None:
    given = row(b"\x00\x01", typed(**{HeaderNames.CONTENT_TYPE: "application/x-protobuf"}))
    assert redactor({"fields": {"A": "mask"}}).examine(given).row[6] is None
    assert redactor({"headers": {"A": "drop"}}).examine(given).row[6] == b"\x00\x01"
    assert redactor({"body": "drop"}).examine(given).row[6] is None


def test_large_bodies_are_kept_read_or_left_out() -> None:
    rules, concerned, other = redactor({"fields": {"A": "mask"}}), row().headers, row(kind="Other").headers
    assert rules.keeps_large_body(other, 2**40) is True
    assert rules.keeps_large_body(concerned, MAX_BYTES + 1) is False
    assert rules.keeps_large_body(concerned, MAX_BYTES) is None
    assert redactor({"headers": {"A": "drop"}}).keeps_large_body(concerned, 2**40) is True
    assert redactor({"body": "drop"}).keeps_large_body(concerned, 1) is False


# Properties

NAMES = st.sampled_from(["a", "A", "b", "Lines", "$type"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES: Any = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def without(value: Any, path: list[str], replace: Any) -> Any:
    """The model of a mask, on the values of Python."""
    if isinstance(value, list):
        return [without(item, path, replace) for item in value]
    if not path or not isinstance(value, dict):
        return replace if isinstance(value, str) else None
    return {k: without(v, path[1:], replace) if k.lower() == path[0].lower() else v for k, v in value.items()}


@given(
    st.dictionaries(NAMES, TREES, max_size=4),
    st.lists(st.sampled_from(["a", "b", "Lines"]), min_size=1, max_size=3),
    st.booleans(),
)
def test_a_mask_changes_the_values_at_its_path_and_no_others(body: Any, path: list[str], ascii_only: bool) -> None:
    text = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = redacted(text, {"fields": {".".join(path): "mask"}})
    assert found is not None
    assert json.loads(found) == without(body, path, "***")


@given(st.binary() | st.text().map(str.encode), st.text() | st.none(), st.sampled_from(["json", "xml", "", "x/y"]))
def test_any_bytes_are_redacted_or_left_out(body: bytes, header: str | None, kind: str) -> None:
    rules = redactor({"fields": {"A": "mask", "*.B": "hash"}, "headers": {"h": "drop"}}, {"keep_fields": ["C"]})
    given_row = row(body, typed(**{HeaderNames.CONTENT_TYPE: kind, "H": header}))
    found: Redaction = rules.examine(given_row)
    assert found.row[6] is None or not found.row[6] or parse(found.row[6], kind) is not None
    assert "H" not in json.loads(found.row[5])


TYPES = HeaderNames.ENCLOSED_MESSAGE_TYPES
HEADER_TEXTS = st.sampled_from(
    [
        json.dumps({TYPES: PLACE, "A": "b"}),
        json.dumps({TYPES: PLACE}, indent=1),
        json.dumps({"A": TYPES, TYPES: "Other, \u2603"}, ensure_ascii=False),
        json.dumps({TYPES: None}),
        json.dumps({TYPES: 5}),
        json.dumps({TYPES: "Other", "A": 5, "B": {TYPES: PLACE}}),
        f'{{"{TYPES}": "Other", "{TYPES}": "{PLACE}"}}',
        f'{{"{TYPES}": "Other"}}{{"{TYPES}": "{PLACE}"}}',
        '{"NServiceBus.\\u0045nclosedMessageTypes": "Escaped"}',
        f'{{"{TYPES}": "Other" "A": "b"}}',
        f'{{"{TYPES}": "Other", "A": "\\ud800"}}',
        f'{{"{TYPES}": "Other", "A": "\ud800"}}',
        f'{{"{TYPES}": "Other", "A": "a\nb"}}',
        json.dumps({TYPES: "Other", "A": "b" * 20_000}),
        "{}",
        "{} {}",
        "",
        "7",
    ]
)


@given(st.lists(HEADER_TEXTS | st.text() | st.none(), max_size=4))
def test_types_of_many_messages_are_those_of_each(texts: list[str | None]) -> None:
    found = enclosed_types(texts)
    rules = Redactor.of([{"message_type": kind, "body": "drop"} for kind in (PLACE, "Escaped")])
    if found is not None:
        assert [rules.concerns_types(types) for types in found] == [rules.concerns(text) for text in texts]


def test_usual_headers_are_read_at_once() -> None:
    assert enclosed_types([row().headers, row(kind="Other").headers, "{}"]) == [f"{PLACE}, Shop", "Other", ""]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])), min_size=1, max_size=5))
def test_no_text_of_a_masked_element_stays(texts: list[str]) -> None:
    texts = [f"{CANARY}{text}".replace("\ufffe", "").replace("\uffff", "") for text in texts]
    items = "".join(f"<Item><Card>{escape(text)}</Card><!--{len(text)}--></Item>" for text in texts)
    found = redacted(f"<M><Lines>{items}</Lines></M>".encode(), {"fields": {"Lines[].Card": "mask"}})
    assert found is not None
    assert CANARY.encode() not in found
    assert found.count(b"<Card>***</Card>") == len(texts)


ELEMENTS = st.sampled_from(["a", "A", "b", "p:a", "Lines"])
PIECES = st.sampled_from(["x", "&lt;&amp;", "<![CDATA[<a>]]>", "<!-- a -->", "<?pi a?>", "\r\n ", "\u2603", "&#233;"])


@st.composite
def elements(draw: Any, depth: int = 0) -> str:
    """An element with texts, sections, comments and, above the depth, children."""
    name = draw(ELEMENTS)
    if draw(st.integers(0, 5)) == 0:
        return f"<{name}/>"
    inner = draw(st.lists(PIECES, max_size=3))
    if depth < 3 and draw(st.booleans()):
        inner += draw(st.lists(elements(depth + 1), min_size=1, max_size=3))
    return f"<{name}>{''.join(inner)}</{name}>"


def masked(element: Any, path: list[str]) -> Any:
    """The model of a mask, on the tree of a body."""
    if element is None or not path:
        return emptied(element)
    if not element.children:
        return emptied(element)
    children = []
    for name, child in element.children:
        if name == TEXT:
            children.append((name, emptied(child)))
        elif name.lower() == path[0]:
            children.append((name, masked(in_items(child, path[1:]), path[1:])))
        else:
            children.append((name, child))
    return replace(element, children=children)


def in_items(element: Any, path: list[str]) -> Any:
    """Mask in the elements of one that looks like a list."""
    if not path or element is None:
        return element
    elements = [(name, child) for name, child in element.children if name != TEXT]
    if len({name for name, _ in elements}) != 1 or not any(child and child.children for _, child in elements):
        return element
    return replace(
        element, children=[(name, child if name == TEXT else masked(child, path)) for name, child in element.children]
    )


def emptied(element: Any) -> Any:
    """An element that is masked: the comparison takes a masked text for none."""
    return element and replace(element, children=[], text="")


@given(st.lists(elements(), max_size=4), st.lists(st.sampled_from(["a", "b", "lines"]), min_size=1, max_size=2))
def test_a_mask_changes_the_elements_at_its_path_and_no_others(inner: list[str], path: list[str]) -> None:
    text = f'<?xml version="1.0"?><M xmlns:p="urn:p">{"".join(inner)}</M><!-- end -->'
    found = redacted(text.encode(), {"fields": {".".join(path): "mask"}})
    assert found is not None
    assert plain(parse(found)) == plain(masked(parse(text.encode()), path))


def plain(element: Any) -> Any:
    """A tree to compare, without masked texts: an element that holds a comment is masked as if it had a text."""
    text = element.text.replace("***", "")
    text = text if text.strip(BLANKS) else ""
    return text, [pair for name, child in element.children if (pair := (name, plain(child))) != (TEXT, ("", []))]


# Shapes that the author of a rule did not see


@pytest.mark.parametrize("action", ["mask", "hash", "drop"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("Customer.Email", {"Customer": {"$id": "2", "Email": CANARY}, "BillTo": {"$ref": "2"}}),
        ("BillTo.Email", {"Customer": {"$id": "2", "Email": CANARY}, "BillTo": {"$ref": "2"}}),
        ("Customer.Email", {"BillTo": {"$ref": "2"}, "Customer": {"$id": "2", "Email": CANARY}}),
        ("Customer", {"Customer": {"$id": "2", "Email": CANARY}, "BillTo": {"$ref": "2"}}),
        ("Customer", {"Customer": {"At": {"$id": "2", "Email": CANARY}}, "BillTo": {"$ref": "2"}}),
        ("A.B.Email", {"A": {"B": {"$ref": "2"}}, "C": [{"D": {"$ref": "2"}}, {"$id": "2", "Email": CANARY}]}),
        ("Customer.Email", {"Customer": CANARY}),
        ("Customer.Email", {"Customer": json.dumps({"Email": CANARY})}),
        ("Customer.Email", {"Customer": [CANARY, {"Email": CANARY}, [{"Email": CANARY}]]}),
        ("Lines[].Card", {"Lines": {"Card": CANARY}}),
        ("Lines[].Card", {"Lines": [CANARY]}),
        ("Lines[].Card", {"Lines": CANARY}),
        ("A.B.C.D", {"A": {"B": CANARY}}),
        ("A.*", {"A": CANARY}),
        ("A.#text", {"A": CANARY}),
        ("A.Email", {"A": {"$type": "System.String", "$value": CANARY}}),
        ("A.Email", {"A": {"$value": {"Email": CANARY}}}),
        ("A.Email", {"A": {"Email": {"$type": "System.Byte[], mscorlib", "$value": CANARY}}}),
        ("A.Email", {"A": {"#text": CANARY, "@Id": 1}}),
        ("A.$values.Email", {"A": {"$id": "1", "$values": [{"Email": CANARY}]}}),
    ],
)
def test_no_value_stays_where_json_has_another_shape(path: str, body: Any, action: str) -> None:
    found = redactor({"fields": {path: action}}).examine(row(json.dumps(body).encode()))
    assert CANARY.encode() not in found.row[6]
    assert found.fields == {path: action}


def test_a_number_in_place_of_an_object_is_changed_and_null_is_not() -> None:
    body = b'{"A":4711,"B":null,"C":{"D":1}}'
    assert redacted(body, {"fields": {"A.X": "mask", "B.X": "mask", "C.X": "mask"}}) == body.replace(b"4711", b"null")


def test_a_list_of_fields_concerns_an_object_at_all_of_its_places() -> None:
    shared = {"Customer": {"$id": "2", "Email": CANARY, "Name": "n"}, "BillTo": {"$ref": "2"}}
    for kept in (["Customer.Name", "BillTo.Name"], ["Customer.Name", "BillTo"]):
        found = json.loads(redacted(json.dumps(shared).encode(), {"keep_fields": kept}) or b"")
        assert found == {"Customer": {"Name": "n"}, "BillTo": {"Name": "n"}}
    found = json.loads(redacted(json.dumps(shared).encode(), {"keep_fields": ["BillTo.Name"]}) or b"")
    assert found == {"BillTo": {"Name": "n"}}


@pytest.mark.parametrize("action", ["mask", "hash", "drop"])
@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("Customer.Email", f"<Customer>{CANARY}</Customer>"),
        ("Customer.Email", f"<Customer><![CDATA[{CANARY}]]></Customer>"),
        ("Customer.Email", f"<Customer>{CANARY}<Name>n</Name></Customer>"),
        ("Customer.Email", f"<Customer Email='{CANARY}'/>"),
        ("Customer.Email", f"<Customer p:Email='{CANARY}' xmlns:p='urn:p'><Name>n</Name></Customer>"),
        ("Customer.Email", f"<Customer><Email></Email></Customer><Customer><email>{CANARY}</email></Customer>"),
        ("Customer.Email", f"<Customer><Item><Email>{CANARY}</Email></Item></Customer>"),
        ("Customer.Email", f"<Customer>{'<Item><Email>canary-4711</Email><X/></Item>' * 2}</Customer>"),
        ("Lines.Card", f"<Lines><Line i:nil='true'/><Line><Card>{CANARY}</Card></Line></Lines>"),
        ("Lines.Card", f"<Lines><Line/><Line>\n</Line><Line Card='{CANARY}'/></Lines>"),
        ("Lines[].Card", f"<Lines><Card>{CANARY}</Card></Lines>"),
        ("Lines[][].Card", f"<Lines><Page><Line><Card>{CANARY}</Card></Line></Page><Page/></Lines>"),
        ("Lines[][].Card", f"<Lines><Line><Card>{CANARY}</Card></Line><Line/></Lines>"),
        ("Lines[][]", f"<Lines Kind='{CANARY}'><Page><string>{CANARY}</string></Page></Lines>"),
        ("Lines[].Card", f"<Lines>{CANARY}</Lines>"),
        ("Lines[].Card", f"<Lines><Line>{CANARY}</Line></Lines>"),
        ("Email", f"<Email i:nil='true'>{CANARY}</Email>"),
        ("Email", f"<Email i:nil='true' Kind='{CANARY}'/>"),
        ("Email", f"<Email i:nil='true' Kind='x'><!-- {CANARY} --></Email>"),
        ("Email", f"<Email Kind='x'><?mail {CANARY}?>\n</Email>"),
        ("Email", f"<Email Kind='{CANARY}'>x</Email>"),
        ("Email", f"<Email i:type='{CANARY}'><v>{CANARY}</v></Email>"),
        ("Email", f"<Email>{CANARY}<b>{CANARY}</b>{CANARY}</Email>"),
        ("Email[]", f"<Email Kind='{CANARY}'><string>{CANARY}</string>{CANARY}</Email>"),
        ("Amount.@Ccy", f"<Amount Ccy='{CANARY}'>1</Amount>"),
        ("Amount.#text", f"<Amount Ccy='EUR'>{CANARY}</Amount>"),
        ("Amount.#text", f"<Amount>{CANARY}</Amount>"),
        ("Amount.*", f"<Amount Ccy='{CANARY}'>{CANARY}</Amount>"),
        ("@Number", "<A/>"),
    ],
)
def test_no_value_stays_where_xml_has_another_shape(path: str, inner: str, action: str) -> None:
    root = f"<M xmlns:i='http://www.w3.org/2001/XMLSchema-instance' Number='{CANARY if path == '@Number' else 1}'>"
    found = redactor({"fields": {path: action}}).examine(row(f"{root}{inner}<Z/></M>".encode()))
    assert CANARY.encode() not in found.row[6]
    assert found.fields == {path: action}
    assert found.row[6].endswith(b"<Z/></M>")


def test_an_attribute_and_its_text_are_named_apart() -> None:
    body = b"<M><Amount Ccy='EUR' Unit = \"pc\">10<!-- c --></Amount></M>"
    for path, expected in (
        ("Amount.@Ccy", b"<M><Amount Ccy='***' Unit = \"pc\">10<!-- c --></Amount></M>"),
        ("Amount.#text", b"<M><Amount Ccy='EUR' Unit = \"pc\">***</Amount></M>"),
        ("Amount", b"<M><Amount Ccy='***' Unit = \"***\">***</Amount></M>"),
    ):
        assert redacted(body, {"fields": {path: "mask"}}) == expected
    assert redacted(body, {"fields": {"Amount.@Unit": "drop"}}) == body.replace(b' Unit = "pc"', b"")
    assert redacted(b"<M><Amount>10</Amount></M>", {"fields": {"Amount.@Ccy": "mask"}}) == b"<M><Amount>10</Amount></M>"


def test_listed_attributes_and_texts_are_kept() -> None:
    body = b'<M a="1"><A b="2" c="3">4<d>5</d></A><E f="6">7</E></M>'
    for kept, expected in (
        ("A.@b", b'<M><A b="2"></A></M>'),
        ("A.#text", b"<M><A>4</A></M>"),
        ("A", b'<M><A b="2" c="3">4<d>5</d></A></M>'),
        ("@a", b'<M a="1"></M>'),
        ("E.f", b"<M><E></E></M>"),
        ("A[][].d", b"<M><A><d>5</d></A></M>"),
    ):
        assert redacted(body, {"keep_fields": [kept]}) == expected


def test_each_of_several_messages_is_redacted() -> None:
    body = b'<Messages v="x"><A><Email>a</Email><Id>1</Id></A><B><Email>b</Email><Id>2</Id></B></Messages>'
    assert redacted(body, {"fields": {"Email": "mask"}}) == body.replace(b">a<", b">***<").replace(b">b<", b">***<")
    assert redacted(body, {"keep_fields": ["Id"]}) == b"<Messages><A><Id>1</Id></A><B><Id>2</Id></B></Messages>"


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252"])
def test_a_body_is_written_in_its_own_encoding(charset: str) -> None:
    text = '{"Name":"Zo\u00eb","Sign":"\\u2603","Email":"x"}'
    headers = typed(**{HeaderNames.CONTENT_TYPE: f"application/json; charset={charset}"})
    found = redactor({"fields": {"Email": "mask"}}).examine(row(text.encode(charset), headers)).row[6]
    assert found == text.replace('"x"', '"***"').replace("\u00eb", "\\u00eb").encode(charset)
    xml = f"<?xml version='1.0' encoding='{charset}'?><M><Name>Zo\u00eb</Name><Email>x</Email></M>"
    found = redactor({"fields": {"Email": "mask"}}).examine(row(xml.encode(charset))).row[6]
    assert found == xml.replace(">x<", ">***<").encode(charset)


BLANK_CHARACTERS = [
    "\u00a0",
    "\u2003",
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\u3000",
    "\u0085",
    "\u00ad",
    "\x00",
    "\u2800",
]


@pytest.mark.parametrize("blank", BLANK_CHARACTERS, ids=ascii)
@pytest.mark.parametrize("form", ["{0}Shop.PlaceOrder", "Shop.PlaceOrder{0}, Shop", "A;{0} Shop.PlaceOrder{0}{0};B"])
def test_no_blank_around_a_type_escapes_a_rule(blank: str, form: str) -> None:
    given = row(b"{}", kind=form.format(blank))
    assert redactor({"body": "drop"}).examine(given).row[6] is None
    types = enclosed_types([given.headers])
    assert types is None or redactor({"body": "drop"}).concerns_types(types[0])


def test_a_rule_names_a_type_as_a_header_does() -> None:
    for name in ("\ufeffShop.PlaceOrder, Shop, Version=1.0.0.0", "\u00a0shop.placeorder "):
        rules = Redactor.of({"message_type": name, "body": "drop"})
        assert rules.examine(row(b"{}")).row[6] is None


# What the guide says that no rule reaches

Z = "xmlns:z='http://schemas.microsoft.com/2003/10/Serialization/' xmlns:i='http://www.w3.org/2001/XMLSchema-instance'"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("Note.Email", '{"Note":{"Text":"{\\"Email\\":\\"canary-4711\\"}"}}'),
        ("Email", '{"Data":"Y2FuYXJ5LTQ3MTE=","Note":"mail to canary-4711"}'),
        ("Customers.*.Email", '{"Customers":{"canary-4711":{"Id":1}}}'),
        ("Customer.Email", '{"Customer":[{"Key":"Email","Value":"canary-4711"}]}'),
        ("*.Email", '{"A":{"B":{"Email":"canary-4711"}}}'),
        ("BillTo.Email", f"<M {Z}><A z:Id='i1'><Email>canary-4711</Email></A><BillTo z:Ref='i1' i:nil='true'/></M>"),
        ("A", "<M><!-- canary-4711 --><?canary 4711?><A/></M>"),
        ("A", "<M><canary-4711>x</canary-4711><B canary-4711=''/></M>"),
        ("A", "<M xmlns='urn:canary-4711'><A xmlns:p='urn:canary-4711'/></M>"),
    ],
    ids=["json in a text", "part of a text", "keys", "pairs", "depth", "references", "comments", "names", "namespaces"],
)
def test_no_rule_reaches_these_places(path: str, body: str) -> None:
    assert redacted(body.encode(), {"fields": {path: "mask"}}) == body.encode()


def test_a_pair_is_reached_as_its_members() -> None:
    body = b'{"Customer":[{"Key":"Email","Value":"canary-4711"}]}'
    assert redacted(body, {"fields": {"Customer.Value": "mask"}}) == body.replace(b"canary-4711", b"***")
    xml = b"<M><Customer><Pair><Key>Email</Key><Value>canary-4711</Value></Pair></Customer></M>"
    assert redacted(xml, {"fields": {"Customer[].Value": "mask"}}) == xml.replace(b"canary-4711", b"***")


def test_the_guide_says_what_no_rule_reaches() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "redaction.md").read_text("utf-8")
    section = text.partition("**What no rule reaches.**")[2].partition("## ")[0]
    words = "JSON, Base64, dictionary, pairs, depth, z:Ref, comments, instructions, namespaces, data bus"
    for word in words.split(", "):
        assert word in section
