"""What a rule reaches is nowhere in a redacted body, in any form, and an erasure reads the same values."""

from __future__ import annotations

import html
import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.redaction.bodies import field_values, redact_body
from airflow_sqlqueue.bodies.redaction.fields import Reach
from airflow_sqlqueue.bodies.redaction.redactor import Redactor, hasher_of
from airflow_sqlqueue.bodies.redaction.rules import FieldPath, RedactionRules
from airflow_sqlqueue.drain.erase import Conditions, EraseRequest
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.row import COLUMN_HEADERS, Row

SECRET = "zzSECRETzz"
HASHER = hasher_of("a key of 16 bytes or more")
ENCODINGS = {
    "utf-8": (b"", "utf-8", ""),
    "utf-8 with mark": (b"\xef\xbb\xbf", "utf-8", ""),
    "utf-16-le with mark": (b"\xff\xfe", "utf-16-le", ""),
    "utf-16-be with mark": (b"\xfe\xff", "utf-16-be", ""),
    "utf-16-le": (b"", "utf-16-le", ""),
    "latin-1": (b"", "latin-1", "; charset=iso-8859-1"),
    "cp1252": (b"", "cp1252", "; charset=windows-1252"),
}


def rules(*given: dict[str, Any]) -> Reach:
    return Reach.of(RedactionRules.of([{"message_type": "*", **each} for each in given]).rules)


def redacted(body: bytes, content_type: str, actions: Reach) -> bytes:
    """The redacted body; nothing if it is left out."""
    try:
        return redact_body(body, content_type, actions, HASHER)[0]
    except BodyError:
        return b""


def forms(body: bytes, encoding: str) -> str:
    """The text of a body, also without the escapes of JSON and XML, and without what separates pieces of a text."""
    text = body.decode(encoding)
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    joined = re.sub(r"<!--.*?-->|<!\[CDATA\[|\]\]>|<\?.*?\?>", "", html.unescape(text))
    return "\n".join((text, plain, plain.replace("\\", ""), html.unescape(text), joined))


NAMES = st.sampled_from(["Customer", "email", "Card", "a.b", "Größe", "Lines", "x[1]", "E-Mail", "Id"])
PATHS = st.lists(NAMES, min_size=1, max_size=4)
CASE = st.sampled_from([str, str.lower, str.upper])
ACTIONS = st.sampled_from(["mask", "hash", "drop"])
TEXTS = st.sampled_from([SECRET, f"Ada <{SECRET}>", f"ä{SECRET}☃", f' {SECRET}\n"', f'{{"Email": "{SECRET}"}}'])


@st.composite
def written_paths(draw: Any, names: list[str], *, marks: st.SearchStrategy[bool]) -> str:
    """A path to these names as a rule may write it: with ``*``, marks of lists, quotes and another case."""
    steps = []
    for name in names:
        cased = draw(CASE)(name) if name != "Größe" else name
        plain = cased if not re.search(r"[.\[\]]", cased) and draw(st.booleans()) else f'"{cased}"'
        steps.append(("*" if draw(st.integers(0, 5)) == 0 else plain) + ("[]" if draw(marks) else ""))
    return ".".join(steps)


class JsonPlaces:
    """Bodies of JSON with the secret at a path, in one of the forms that serializers and senders write."""

    def __init__(self, draw: Any) -> None:
        self._draw, self._known = draw, []

    def body(self, names: list[str]) -> Any:
        root: dict[str, Any] = {"First": 1, names[0]: self._below(names[1:], can_refer=True), "Last": None}
        # Objects that others refer to stand elsewhere, where no rule names them.
        return {**root, "Known": self._known}

    def _below(self, names: list[str], *, can_refer: bool) -> Any:
        value = self._leaf() if not names else {"Beside": "b", names[0]: self._below(names[1:], can_refer=can_refer)}
        forms: list[Callable[[Any], Any]] = [
            lambda value: value,
            lambda value: [value],
            lambda value: [{}, [[value]], None],
            lambda value: {"$id": "77", "$type": "T", "$values": [value]},
            lambda value: {"$values": [value], "Other": 1},
        ]
        if names and '"$ref"' not in json.dumps(value):
            forms += [json.dumps, lambda value: [json.dumps(value)], lambda value: SECRET]
        if names and can_refer:
            forms.append(self._refer)
        return self._draw(st.sampled_from(forms))(value)

    def _refer(self, value: dict[str, Any]) -> Any:
        identity = f"r{len(self._known)}"
        self._known.append({"$id": identity, **value})
        return {"$ref": identity}

    def _leaf(self) -> Any:
        text = self._draw(TEXTS)
        return self._draw(st.sampled_from([text, [text], {"Inner": text}, {"Inner": [{"x": text}], "y": 1}]))


@st.composite
def json_bodies(draw: Any, names: list[str]) -> str:
    text = json.dumps(JsonPlaces(draw).body(names), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("S", "\\u0053") if '\\"' not in text else text
    if draw(st.booleans()):
        # A reader takes the last one of several, and rules take all.
        text = f"{text[:-1]}, {json.dumps(names[0])}: {{}}}}"
    return f"[{text}]" if draw(st.booleans()) else text


@given(st.data(), PATHS, ACTIONS, st.sampled_from(sorted(ENCODINGS)))
def test_no_secret_of_json_stays_or_escapes_the_erasure(data: Any, names: list[str], action: str, kind: str) -> None:
    mark, encoding, charset = ENCODINGS[kind]
    text = data.draw(json_bodies(names))
    path = data.draw(written_paths(names, marks=st.booleans()))
    body = mark + text.encode(encoding, "ignore")
    found = redacted(body, f"application/json{charset}", rules({"fields": {path: action}}))
    assert SECRET not in forms(found[len(mark) :], encoding)
    assert found.startswith(mark)
    if found:
        assert parse(found, f"application/json{charset}") is not None
    assert_read(body, f"application/json{charset}", path)


def assert_read(body: bytes, content_type: str, path: str) -> None:
    """The erasure compares a value with the secret in it, says that another value is in place, or reads nothing."""
    try:
        values, misplaced = field_values(body, content_type, FieldPath.of(path))
    except BodyError:
        return
    assert misplaced or any(SECRET in value for value in values)


@given(st.data(), PATHS)
def test_no_secret_that_no_list_names_stays_in_json(data: Any, names: list[str]) -> None:
    text = data.draw(json_bodies(names))
    for kept in ("First", f'"{names[0]}".Beside', "Known.Beside"):
        found = redacted(text.encode(), "application/json", rules({"keep_fields": [kept]}))
        assert SECRET not in forms(found, "utf-8")


class XmlPlaces:
    """Bodies of XML with the secret at a path."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def body(self, names: list[str]) -> str:
        start = "<?xml version='1.0'?>" if self._draw(st.booleans()) else ""
        space = 'xmlns="urn:shop" xmlns:p="urn:p" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
        message = f"<First>1</First>{self._below(names)}<Last/>"
        root = self._draw(st.sampled_from(["<Order {s}>{m}</Order>", "<Messages {s}><A>{m}</A><B>{m}</B></Messages>"]))
        return start + str(root).format(s=space, m=message)

    def _below(self, names: list[str]) -> str:
        name = self._draw(st.sampled_from(["{}", "p:{}"])).format(names[0])
        if names[0].startswith("@"):
            raise AssertionError("an attribute is made with its element")
        if len(names) == 1:
            return self._leaf(name)
        if names[1].startswith("@"):
            quote = self._draw(st.sampled_from("'\""))
            return f"<{name} a = '1'  {names[1][1:]}={quote}{self._text().replace(quote, '')}{quote}>1</{name}>"
        below, attribute = self._below(names[1:]), self._draw(st.sampled_from(["", " b='1'"]))
        forms = [
            f"<{name}{attribute}><Beside>b</Beside>{below}</{name}>",
            f"<{name}{attribute}>{self._text()}</{name}>",
            f"<{name}{attribute}>{self._text()}<Beside/></{name}>",
            f"<{name}{attribute}><Item>{below}<x/></Item></{name}>",
            f"<{name}{attribute}><Item><x/></Item><Item>{below}</Item></{name}>",
        ]
        if not names[-1].startswith("@"):
            forms.append(f"<{name} {names[1]}={chr(34)}{self._text().replace(chr(34), '')}{chr(34)}/>")
        return str(self._draw(st.sampled_from(forms)))

    def _leaf(self, name: str) -> str:
        text, piece = self._text(), f"<![CDATA[{SECRET}]]>"
        forms = [
            f"<{name}>{text}</{name}>",
            f"<{name}>{piece}</{name}>",
            f"<{name} Kind='{SECRET}'>{text}</{name}>",
            f"<{name} Kind='{SECRET}'/>",
            f"<{name} i:nil='true'>{text}</{name}>",
            f"<{name} i:nil='true' p:Kind='{SECRET}'/>",
            f"<{name} i:type='{SECRET}'><x>{text}</x></{name}>",
            f"<{name}><x>1</x>{text}<x y='{SECRET}'>2</x></{name}>",
            f"<{name}><string>{text}</string><string>1</string></{name}>",
            f"<{name}>{SECRET[:4]}<!-- c --><?p i?>{SECRET[4:]}</{name}>",
        ]
        return str(self._draw(st.sampled_from(forms)))

    def _text(self) -> str:
        text = escape(self._draw(TEXTS))
        return text.replace("S", "&#83;") if self._draw(st.booleans()) else text


XML_NAMES = st.sampled_from(["Customer", "email", "Card", "a.b", "Größe", "Lines", "E-Mail", "Id"])


@given(
    st.data(), st.lists(XML_NAMES, min_size=1, max_size=3), st.booleans(), ACTIONS, st.sampled_from(sorted(ENCODINGS))
)
def test_no_secret_of_xml_stays_or_escapes_the_erasure(
    data: Any, names: list[str], with_attribute: bool, action: str, kind: str
) -> None:
    mark, encoding, charset = ENCODINGS[kind]
    names = [*names, "@Ccy"] if with_attribute else names
    body = mark + XmlPlaces(data.draw).body(names).encode(encoding, "xmlcharrefreplace")
    path = data.draw(written_paths(names, marks=st.just(False)))
    found = redacted(body, f"text/xml{charset}", rules({"fields": {path: action}}))
    assert found.startswith(mark)
    assert SECRET not in forms(found[len(mark) :], encoding)
    assert_read(body, f"text/xml{charset}", path)


@given(st.data(), st.lists(XML_NAMES, min_size=1, max_size=3), st.booleans())
def test_no_secret_that_no_list_names_stays_in_xml(data: Any, names: list[str], with_attribute: bool) -> None:
    body = XmlPlaces(data.draw).body([*names, "@Ccy"] if with_attribute else names).encode()
    for kept in ("First", "No.Such", f'"{names[0]}".Beside'):
        found = redacted(body, "text/xml", rules({"keep_fields": [kept]}))
        assert SECRET not in forms(found, "utf-8")


# What a mask changes is what an erasure reads

SOME = st.sampled_from(["a", "A", "b", "c", "$values", "$id", "$ref", "@a", "#text"])
TREES: Any = st.recursive(
    st.just("leaf") | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(SOME, inner), max_size=4).map(tuple),
    max_leaves=16,
)
STEPS = st.sampled_from(["a", "b", "*", "a[]", "@a", '"#text"'])
SOME_PATHS = st.lists(STEPS, min_size=1, max_size=3).map(".".join)


def json_text(tree: Any, numbers: Iterator[int]) -> str:
    """JSON in which each value is another one; a text names an object, or refers to one."""
    if tree is None:
        return "null"
    if tree == "leaf":
        number = next(numbers)
        return (f'"v{number}x"', f"1{number}", f'"v{number}x"')[number % 3]
    if isinstance(tree, list):
        return f"[{','.join(json_text(each, numbers) for each in tree)}]"
    members = (
        f'"{name}":{json.dumps(str(next(numbers) % 2)) if name in ("$id", "$ref") else json_text(each, numbers)}'
        for name, each in tree
    )
    return f"{{{','.join(members)}}}"


def leaves(text: str) -> set[str]:
    return set(re.findall(r"v\d+x|\b1\d+\b", text))


@given(st.lists(st.tuples(SOME, TREES), max_size=4), SOME_PATHS, st.sampled_from(["hash", "mask"]))
def test_an_erasure_reads_what_a_rule_changes_in_json(tree: Any, path: str, action: str) -> None:
    body = json_text(tuple(tree), iter(range(1000, 9999))).encode()
    compare(body, "application/json", path, action)


def compare(body: bytes, content_type: str, path: str, action: str) -> None:
    try:
        values, misplaced = field_values(body, content_type, FieldPath.of(path))
    except BodyError as refused:
        with pytest.raises(BodyError, match=refused.reason):
            redact_body(body, content_type, rules({"fields": {path: action}}), HASHER)
        return
    found, changes = redact_body(body, content_type, rules({"fields": {path: action}}), lambda text: "#")
    gone = leaves(body.decode()) - leaves(found.decode())
    assert {each for value in values for each in leaves(value)} == gone
    assert bool(values) <= bool(changes.found)
    assert misplaced is bool(changes.misplaced)


@st.composite
def xml_elements(draw: Any, numbers: Iterator[int], depth: int = 0) -> str:
    name = draw(st.sampled_from(["a", "A", "b", "p:a"]))
    attributes = "".join(
        f" {each}='v{next(numbers)}x'" for each in draw(st.lists(st.sampled_from(["a", "p:b", "c"]), unique=True))
    )
    inner = [f"v{next(numbers)}x" if draw(st.booleans()) else " " for _ in range(draw(st.integers(0, 2)))]
    if depth < 3:
        inner += [draw(xml_elements(numbers, depth + 1)) for _ in range(draw(st.integers(0, 3)))]
    nil = " i:nil='true'" if draw(st.integers(0, 4)) == 0 else ""
    return f"<{name}{attributes}{nil}>{''.join(draw(st.permutations(inner)))}</{name}>"


@given(st.data(), SOME_PATHS, st.sampled_from(["hash", "mask"]), st.sampled_from(["M", "Messages"]))
def test_an_erasure_reads_what_a_rule_changes_in_xml(data: Any, path: str, action: str, root: str) -> None:
    numbers = iter(range(1000, 99999))
    inner = "".join(data.draw(xml_elements(numbers)) for _ in range(data.draw(st.integers(0, 3))))
    spaces = "xmlns:p='urn:p' xmlns:i='http://www.w3.org/2001/XMLSchema-instance'"
    compare(f"<{root} {spaces}>{inner}</{root}>".encode(), "text/xml", path, action)


# Erasure


def meets(request: EraseRequest, body: bytes = b"", headers: str = "{}", **columns: Any) -> bool | None:
    row = {"Id": str(uuid.UUID(int=7)), "CorrelationId": None, "ReplyToAddress": None, "Headers": headers, "Body": body}
    return Conditions(request).match(row | columns)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"<M><Customer Email='{SECRET}'/></M>", True),
        (f"<M><Customer><Email> {SECRET}\n</Email></Customer></M>", True),
        (f"<M xmlns:x='urn:x'><Customer><Email x:nil='true'>{SECRET}</Email></Customer></M>", True),
        (f"<M><Customer><Email><v>{SECRET}</v></Email></Customer></M>", True),
        (f"<M><Customer><Email Kind='{SECRET}'>x</Email></Customer></M>", True),
        (f"<M><Customer>{SECRET}</Customer></M>", True),
        (f"<M><Customer>Ada, {SECRET}</Customer></M>", None),
        (f"<Messages><A/><B><Customer><Email>{SECRET}</Email></Customer></B></Messages>", True),
        (f"<M><Customer><Email>Ada, {SECRET}</Email></Customer></M>", False),
        ("<M><Customer/></M>", False),
        ("<M>", None),
        (f'{{"Customer":{{"Email":{{"v":["{SECRET}"]}}}}}}', True),
        (f'{{"Customer":"{SECRET}"}}', True),
        ('{"Customer":"{}"}', None),
        ('{"Customer":[4711]}', None),
        (f'{{"Customer":{{"$ref":"1"}},"B":{{"$id":"1","Email":"{SECRET}"}}}}', True),
        (f'{{"B":{{"$ref":"1"}},"Customer":{{"$id":"1","Email":"{SECRET}"}}}}', True),
        (f'{{"Customer":{{"Email":"{SECRET}"}},"Customer":null}}', True),
        ('{"Customer":null}', False),
        ('{"Customer":{"$id":"1","A":{"$ref":"1"}}}', None),
    ],
)
def test_an_erasure_finds_or_counts_what_a_rule_would_change_or_refuse(body: str, found: bool | None) -> None:
    assert meets(EraseRequest(fields={"Customer.Email": SECRET}), body.encode()) is found


def test_an_erasure_reads_columns_as_headers() -> None:
    for column, header in COLUMN_HEADERS.items():
        request = EraseRequest(headers={header: "a"})
        assert meets(request, **{column: "a"}) is True
        assert meets(request, **{column: "b"}) is False
        hashed = EraseRequest(headers={header: "a"}, key="a key of 16 bytes or more")
        assert meets(hashed, **{column: HASHER("a")}) is True
    assert meets(EraseRequest(headers={HeaderNames.MESSAGE_ID: str(uuid.UUID(int=7)).upper()})) is True


def test_an_erasure_counts_headers_that_come_twice() -> None:
    assert meets(EraseRequest(headers={"A": "a"}), headers='{"A":"a","A":"b"}') is None
    assert meets(EraseRequest(headers={"A": "b"}), headers='{"A":"a","A":"b"}') is True


def test_an_erasure_finds_the_hashed_id_of_a_row() -> None:
    own, key = str(uuid.UUID(int=7)), "a key of 16 bytes or more"
    redactor = Redactor.of({"message_type": "*", "headers": {HeaderNames.MESSAGE_ID: "hash"}}, key)
    hashed = redactor.examine(Row(own, None, None, True, None, "{}", None, 1, False)).row[0]
    assert hashed != own
    assert meets(EraseRequest(message_ids=[own], key=key), Id=hashed) is True
    assert meets(EraseRequest(message_ids=[own]), Id=hashed) is False


# Hostile bodies


def nested(levels: int) -> str:
    """Objects that each refer twice to the one before."""
    known = ",".join(f'{{"$id":"{n}","a":{{"$ref":"{n - 1}"}},"b":{{"$ref":"{n - 1}"}}}}' for n in range(1, levels))
    return f'{{"A":[{{"$id":"0","Email":"{SECRET}"}},{known}]}}'


FIRST = f'{{"$id":"0","Email":"{SECRET}"}}'
HOSTILE = {
    "copies": (nested(60), "size"),
    "levels": (nested(90), "size|depth"),
    "circle": ('{"A":{"$id":"1","B":{"$id":"2","C":{"$ref":"1"}}}}', "depth"),
    "circle under a name that comes twice": ('{"A":{"$id":"1","B":{"$ref":"1"}},"A":1}', "depth"),
    "many references": ('{"A":[' + FIRST + ',{"$ref":"0"}' * 10_000 + "]}", None),
    "many names": ("{" + '"Email":1,' * 20_000 + '"A":1}', None),
    "many elements": ("<M>" + "<A><B><Email a='1'>x</Email>y</B>z</A>" * 2_000 + "</M>", None),
    "many messages": ("<Messages>" + "<A Email='x'/>" * 5_000 + "</Messages>", None),
    "many kinds of messages": ("<Messages>" + "".join(f"<A{n}>x</A{n}>" for n in range(20_000)) + "</Messages>", None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_or_grow_little(name: str) -> None:
    text, reason = HOSTILE[name]
    actions = rules(
        {"fields": {"*.*.Email": "mask", "A[].*[].Email": "drop", "A.Email": "hash"}}, {"keep_fields": ["A"]}
    )
    if reason:
        with pytest.raises(BodyError, match=reason):
            redact_body(text.encode(), None, actions, HASHER)
    else:
        found, _ = redact_body(text.encode(), None, actions, HASHER)
        assert SECRET.encode() not in found
        assert len(found) <= 3 * len(text)
