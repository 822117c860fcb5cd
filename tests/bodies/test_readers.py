"""The readers of bodies: text, JSON and XML, bounded, with nothing left out in silence."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.decoding import parse, parse_json, parse_xml, read_text
from airflow_sqlqueue.bodies.json_reader import read_json
from airflow_sqlqueue.bodies.tree import MAX_DEPTH, Element, Number, Repeated
from airflow_sqlqueue.bodies.xml_reader import read_xml
from airflow_sqlqueue.errors import BodyError


def plain(value: Any) -> Any:
    """An element as lists and texts; None for one that is nil and empty."""
    if isinstance(value, Element):
        is_nothing = value.is_nil and not value.text.strip()
        return [(name, plain(each)) for name, each in value.children] or (None if is_nothing else value.text)
    return value


def reason_of(read: Any, *given: Any) -> str | None:
    try:
        read(*given)
    except BodyError as error:
        return error.reason
    return None


# Text

LATIN = "ISO-8859-1"


@pytest.mark.parametrize(
    ("head", "content_type", "encoding"),
    [
        (f'<?xml version="1.0" encoding="{LATIN}"?>', "text/xml", "latin-1"),
        ("<?xml version='1.0' encoding='windows-1252' standalone='yes' ?>", None, "cp1252"),
        ("", f"text/xml; charset={LATIN}", "latin-1"),
        ("", 'application/xml; version=1; charset="Windows-1252"', "cp1252"),
        ('<?xml version="1.0" encoding="utf-8"?>', f"text/xml; charset={LATIN}", "latin-1"),
        ('<?xml version="1.0" encoding="utf-16"?>', "text/xml", "utf-8"),
        (f'<?xml version="1.0" encoding="{LATIN}"?>', "text/xml; charset=utf-8", "utf-8"),
        (f'<?xml version="1.0" encoding="{LATIN}"?>', None, "utf-16-le"),
    ],
)
def test_a_text_says_its_own_encoding(head: str, content_type: str | None, encoding: str) -> None:
    text = f"{head}<A><B>é €</B></A>" if encoding != "latin-1" else f"{head}<A><B>é £</B></A>"
    body = text.encode(encoding)
    found = read_text(body, content_type)
    assert found == (text, b"", encoding)
    assert found.mark + found.text.encode(found.encoding) == body
    assert plain(parse(body, content_type)) == [("B", text[-11:-8])]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<A/>", "text/xml; charset=shift_jis"),
        (b'<?xml version="1.0" encoding="shift_jis"?><A/>', "text/xml"),
        (b'{"a":"\x81"}', "application/json; charset=windows-1252"),
        (b'{"a":"\xe9"}', "application/json"),
    ],
)
def test_an_unknown_charset_is_not_guessed_at(body: bytes, content_type: str) -> None:
    assert reason_of(parse, body, content_type) == "encoding"


def test_a_body_of_another_kind_is_no_text() -> None:
    assert reason_of(read_text, b"{}", "application/x-protobuf") == "content type"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_a_text_and_its_mark_make_the_body_again(mark: bytes) -> None:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(mark, "utf-8")
    body = mark + '{"a":"é"}'.encode(encoding)
    found = read_text(body)
    assert (found.text, found.mark + found.text.encode(found.encoding)) == ('{"a":"é"}', body)


# JSON


def test_every_member_and_digit_is_kept() -> None:
    text = '{"a":1.10,"b":[{"x":1,"x":2}],"a":1e999,"\\ud800":"\\udfff"}'
    found = read_json(text)
    assert found == {"a": Number("1e999"), "b": [{"x": Number("2")}], "\ud800": "\udfff"}
    assert isinstance(found, Repeated)
    assert found.pairs[0] == ("a", Number("1.10"))
    assert [type(each) for each in found["b"]] == [Repeated]
    assert [name for name, _ in found.pairs] == ["a", "b", "a", "\ud800"]


NO_JSON = ['{"a":NaN}', '{"a":-Infinity}', '{"a":01}', '{"a":"\n"}', "{", "[]]", '{"a":"\\x"}', ""]


@pytest.mark.parametrize("text", NO_JSON)
def test_text_that_is_no_json_is_refused(text: str) -> None:
    assert reason_of(read_json, text) == "json"


HOSTILE = {
    "deep": ('[{"a":' * 200_000, "depth"),
    "closed": ("[" * 200_000 + "]" * 200_000, "depth"),
    "bracketsintexts": ('["' + '\\"[[{{' * 200_000 + '"]', None),
    "openends": ('{"a":"' + '\\"' * 1_000_000, "json"),
    "backslashes": ('["' + "\\\\" * 1_000_000 + '"]', None),
    "numbers": ("[" + "1," * 1_200_000 + "1]", "size"),
    "objects": ("[" + "{}," * 1_200_000 + "{}]", "size"),
    "fewerobjects": ("[" + "{}," * 300_000 + "{}]", None),
    "levels": ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
    "onelevelmore": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "depth"),
}


@pytest.mark.parametrize(("text", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_bounds_of_json_hold_before_anything_is_read(text: str, reason: str | None) -> None:
    tracemalloc.start()
    try:
        assert reason_of(read_json, text) == reason
        assert tracemalloc.get_traced_memory()[1] < 30 * len(text) + 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("levels", "reason"), [(MAX_DEPTH - 3, None), (MAX_DEPTH - 2, "depth")])
def test_a_reference_is_a_level(levels: int, reason: str | None) -> None:
    text = f'{{"A":{{"$id":"1","V":{"[" * levels}{"]" * levels}}},"B":{{"$ref":"1"}}}}'
    assert reason_of(parse_json, text) == reason


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    )
)
def test_json_is_read_as_it_is_written(value: Any) -> None:
    def numbered(each: Any) -> Any:
        if isinstance(each, int) and not isinstance(each, bool):
            return Number(str(each))
        if isinstance(each, dict):
            return {name: numbered(one) for name, one in each.items()}
        return list(map(numbered, each)) if isinstance(each, list) else each

    assert read_json(json.dumps(value)) == numbered(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"$id":"1","$type":"T","a":{"$type":"U","b":true}}', {"a": {"$type": "U", "b": True}}),
        ('{"$id":"1","a":{"$id":"2","b":true}}', {"a": {"b": True}}),
        ('{"a":{"$id":"2","b":true}}', {"a": {"$id": "2", "b": True}}),
        ('{"$id":"1","a":{"$id":"x","b":true}}', {"a": {"$id": "x", "b": True}}),
        ('{"$id":"https://x"}', {"$id": "https://x"}),
        ('{"$type":true}', {"$type": True}),
        ('{"a":{"$id":"x","b":true},"c":{"$ref":"x"}}', {"a": {"b": True}, "c": {"b": True}}),
        ('{"a":{"$ref":"9"}}', {"a": {"$ref": "9"}}),
        ('{"a":{"$id":"x"},"b":{"$ref":"x","c":null}}', {"a": {"$id": "x"}, "b": {"$ref": "x", "c": None}}),
        (
            '{"a":{"$id":"x","v":null},"b":{"$id":"x"},"c":{"$ref":"x"}}',
            {"a": {"$id": "x", "v": None}, "b": {"$id": "x"}, "c": {"$ref": "x"}},
        ),
        ('{"a":{"$id":"2","$type":"T","$values":[true]}}', {"a": [True]}),
        ('{"a":{"$values":[true],"more":null}}', {"a": {"$values": [True], "more": None}}),
        ('{"a":{"$type":[],"$values":[true]}}', {"a": {"$type": [], "$values": [True]}}),
        ('{"a":{"$values":true}}', {"a": {"$values": True}}),
        ('[{"a":null}]', {"a": None}),
        ('{"$values":[{"a":null}]}', {"a": None}),
    ],
)
def test_metadata_of_serializers(text: str, expected: Any) -> None:
    assert parse_json(text) == expected


# XML

NIL = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil='


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<A/>", ""),
        ("<A>t</A>", "t"),
        ("<A>t<![CDATA[<u>]]>&amp;<!-- c --><?p i?></A>", "t<u>&"),
        ('<A b="1" n:c="2" xmlns:n="urn:n" xmlns="urn:a"/>', [("@b", "1"), ("@c", "2")]),
        ('<A b="1">t</A>', [("@b", "1"), ("#text", "t")]),
        ("<A>x <B>y</B> z</A>", [("B", "y"), ("#text", "x  z")]),
        ("<A>\n <B>y</B>\n</A>", [("B", "y")]),
        ("<A>\u00a0<B/></A>", [("B", ""), ("#text", "\u00a0")]),
        (f'<A><B {NIL}"true"/></A>', [("B", None)]),
        (f'<A><B {NIL}"1">\n</B></A>', [("B", None)]),
        (f'<A><B {NIL}"false"/></A>', [("B", "")]),
        (f'<A><B {NIL}"?"/></A>', [("B", [("@nil", "?")])]),
        (f'<A><B {NIL}"true" i:type="c"/></A>', [("B", [("@type", "c")])]),
        (f'<A><B {NIL}"true">t</B></A>', [("B", "t")]),
        ('<A xml:space="preserve"> </A>', " "),
        ('<A xml:space="other" xml:lang="de"/>', [("@space", "other"), ("@lang", "de")]),
        ("<A><B>1</B><B>2</B></A>", [("B", "1"), ("B", "2")]),
        ("<Messages><A><B>1</B></A></Messages>", [("B", "1")]),
        ('<Messages c="1"><A><B>1</B></A></Messages>', [("@c", "1"), ("A", [("B", "1")])]),
    ],
)
def test_elements(text: str, expected: Any) -> None:
    assert plain(parse_xml(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<Messages><A/><A/></Messages>", "messages"),
        ("<Messages><A/><B/>t</Messages>", "messages"),
        ("<!DOCTYPE A><A/>", "xml"),
        ("<A>&#x1;</A>", "xml"),
        ("<A/><B/>", "xml"),
        ("<A>" * (MAX_DEPTH + 1) + "</A>" * (MAX_DEPTH + 1), "depth"),
        ("<A>" * 500_000, "depth"),
        ("<A>" + "<B/>" * 1_000_001 + "</A>", "size"),
    ],
)
def test_bounds_of_xml(text: str, reason: str) -> None:
    assert reason_of(parse_xml, text) == reason


PLACED = f"""<?xml version="1.0"?><!-- é --><A x = 'é>"' n:y="1"
  xmlns:n="urn:n" xml:space='default'>é<B/><B ></B  ><![CDATA[<C>]]><C
 z="&lt;" >t<!-- > --></C><D {NIL}'true' />&gt;</A><!-- end -->"""


def test_each_element_and_attribute_has_its_place() -> None:
    data = PLACED.encode()
    name, root = read_xml(PLACED, places=True)

    def places(value: Element) -> list[Any]:
        found: list[Any] = []
        for child, each in value.children:
            assert each is not None
            at = each.place
            found.append((child, at and (data[at.start : at.end].decode(), data[at.inner : at.inner_end].decode())))
            found += places(each)
        return found

    assert name == "A"
    assert root.place is not None
    assert data[root.place.start : root.place.end].decode() == PLACED[PLACED.index("<A") : PLACED.index("<!-- end")]
    assert places(root) == [
        ("@x", (" x = 'é>\"'", 'é>"')),
        ("@y", (' n:y="1"', "1")),
        ("B", ("<B/>", "")),
        ("B", ("<B ></B  >", "")),
        ("C", ('<C\n z="&lt;" >t<!-- > --></C>', "t<!-- > -->")),
        ("@z", ('\n z="&lt;"', "&lt;")),
        ("#text", None),
        ("D", (f"<D {NIL}'true' />", "")),
        ("#text", None),
    ]
    assert plain(read_xml(PLACED)[1])[2:] == [*plain(root)[2:-2], ("D", None), plain(root)[-1]]


tags = st.sampled_from(["A", "B", "Messages", "n:C"])
attributes = st.lists(st.sampled_from([' a="1"', " b='&gt;'", ' n:c=">"', f' {NIL}"true"']), unique=True, max_size=3)
texts = st.sampled_from(["", " ", "é", "&amp;", "<![CDATA[</A>]]>", "<!-- <A> -->", "<?p <A>?>"])
documents = st.recursive(
    texts,
    lambda inner: st.tuples(tags, attributes, st.lists(inner | texts, max_size=4)).map(
        lambda each: f"<{each[0]}{''.join(each[1])}>{''.join(each[2])}</{each[0]}>"
    ),
    max_leaves=12,
).map(lambda inner: f'<R xmlns:n="urn:n">{inner}</R>')


@given(documents)
def test_a_place_is_that_of_the_element(document: str) -> None:
    """What is at the place of an element is read as that element."""
    data = document.encode()

    def check(name: str, value: Element) -> None:
        if value.place is not None and name[0] not in "@#":
            at = data[value.place.start : value.place.end].decode()
            alone = read_xml(f'<X xmlns:n="urn:n">{at}</X>', places=True)[1]
            assert [(each, plain(one)) for each, one in alone.children] == [(name, plain(value))]
        for each, child in value.children:
            assert child is not None
            check(each, child)

    name, root = read_xml(document, places=True)
    check(name, root)


def test_blanks_at_the_end_of_a_tag_are_read_in_linear_time() -> None:
    _, root = read_xml(f'<a b="1"{" " * 1_000_000}/>', places=True)
    assert [(name, child.text) for name, child in root.children] == [("@b", "1")]
