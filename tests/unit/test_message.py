"""Headers as JSON, read and written."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages import message
from airflow_sqlqueue.messages.message import (
    DecodedHeaders,
    Message,
    can_be_written,
    decode_headers,
    encode_headers,
    escape_non_ascii,
)

text = st.text(st.characters(exclude_categories=["Cs"]))
mappings = st.dictionaries(text, st.none() | text)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(mappings)
@example({"a pair": "😀", "no surrogate": "\\ud83d"})
def test_headers_come_back(headers: dict[str, str | None]) -> None:
    encoded = encode_headers(headers)
    assert encoded.isascii()
    assert decode_headers(encoded).values == headers


# What each generation of the transport writes: a JSON string of its own, and what stands around it.

SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def escaped(value: str, keep: Callable[[str], bool], short: dict[str, str]) -> str:
    """A JSON string: the short escapes given, others as UTF-16 units of four hexadecimal digits."""
    units = (
        short[c] if c in short else c if keep(c) else "".join(f"\\u{unit:04x}" for unit in utf16(c)) for c in value
    )
    return '"' + "".join(units) + '"'


def utf16(character: str) -> list[int]:
    data = character.encode("utf-16-le")
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]


def newtonsoft(value: str) -> str:
    """Versions 1 and 2: raw but for what JSON demands and three line ends of Unicode."""
    return escaped(value, lambda c: c >= " " and c not in "\u0085\u2028\u2029", SHORT)


def data_contract(value: str) -> str:
    """Versions 3 to 9.0: ``/`` is escaped, the control characters and the end of the plane have no short form."""
    return escaped(value, lambda c: c >= " " and not "\ufffe" <= c <= "\uffff", {'"': '\\"', "\\": "\\\\", "/": "\\/"})


def system_text(value: str) -> str:
    """Version 9.1 and later, with relaxed escaping: other planes and controls as upper-case units, ``/`` escaped."""
    return escaped(value, lambda c: c >= " " and c != "\x7f" and c <= "\ud7ff", {**SHORT, "/": "\\/"})


@pytest.mark.parametrize("string", [newtonsoft, data_contract, system_text, json.dumps])
@pytest.mark.parametrize(
    ("opening", "colon", "comma", "closing"), ["{:,}", ("{\r\n    ", ":  ", ",\r\n    ", "\r\n}\t")]
)
@given(headers=mappings)
@example(headers={"Grüße/\u2028": '☃ 😀 \x00\x1f\x7f\\/"\r\n\uffff', "none": None, "": ""})
def test_every_version_writes_the_same_headers(
    string: Callable[[str], str], opening: str, colon: str, comma: str, closing: str, headers: dict[str, str | None]
) -> None:
    members = [string(name) + colon + ("null" if value is None else string(value)) for name, value in headers.items()]
    written = opening + comma.join(members) + closing
    decoded = decode_headers(written)
    assert (decoded.values, decoded.problem) == (headers, None)


SOUND = '{ "a" : "b" , "c":null}'


@given(st.text(max_size=60) | st.text('{}[]":,\\/u0dD \n\0\ud83d', max_size=30) | json_values.map(json.dumps))
@example('{"a":' + "9" * 10_000 + "}")
@example('{"a":1e999999}')
@example('{"a":' * 100_000)
@example('{1: "b"}')
@example('["a"] b')
def test_decoding_never_raises(raw: str) -> None:
    """A text that is decoded member by member is as well formed as one that is decoded at once."""
    decoded, by_member = decode_headers(raw), decoded_by_member(raw)
    assert all(isinstance(name, str) for name in decoded.values)
    assert all(value is None or isinstance(value, str) for value in decoded.values.values())
    assert (decoded.problem is None) == (decoded.problem_code is None) == (by_member.problem_code is None)
    assert decoded == by_member or decoded.problem


def test_a_wrong_character_is_found_member_by_member_too() -> None:
    places = range(len(SOUND))
    changed = [SOUND[:place] + other + SOUND[place + 1 :] for place in places for other in ("", *'x ":,1{}[]')]
    read = [(raw, decode_headers(raw), decoded_by_member(raw)) for raw in changed]
    assert [raw for raw, one, other in read if (one.problem is None) != (other.problem is None)] == []
    assert [raw for raw, one, other in read if one.problem is None and one != other] == []


@pytest.mark.parametrize("value", ["[", "{", '{"b": 1'])
def test_reading_member_by_member_stops_at_a_value_that_is_no_text(value: str) -> None:
    decoded = decoded_by_member(f'{{"a": "b", "c": {value}')
    assert (decoded.values, decoded.problem_code) == ({"a": "b"}, "value-not-text")


def decoded_by_member(raw: str) -> DecodedHeaders:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message, "_READ_AT_ONCE", 0)
        return decode_headers(raw)


@pytest.mark.parametrize(
    ("raw", "values", "code"),
    [
        ("", {}, None),
        (None, {}, None),
        ("{}", {}, None),
        (" { }\n", {}, None),
        ("{}}", {}, "not-json"),
        ('{"a": "\\/b", "a": "\\u00e9"}', {"a": "é"}, None),
        ('{"a": "\\uD83D\\uDE00 \\ud83d\\ude00"}', {"a": "😀 😀"}, None),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}, None),
        ('{"A": "1", "a": "2"}', {"A": "1", "a": "2"}, None),
        ('{\n  "a" : null }', {"a": None}, None),
        ("null", {}, "not-an-object"),
        ('[{"a": "b"}]', {}, "not-an-object"),
        (" ", {}, "not-json"),
        ('{"a": ', {}, "not-json"),
        ('\ufeff{"a": "b"}', {}, "not-json"),
        ('{"a": "line\nbreak"}', {}, "not-json"),
        ('{"a": NaN}', {}, "not-json"),
        ("-Infinity", {}, "not-json"),
        ("[" * 100_000, {}, "not-json"),
        ('{"a": 1, "b": "x"}', {"b": "x"}, "value-not-text"),
        ('{"a": 1, "a": "b"}', {"a": "b"}, "value-not-text"),
        ('{"a": {"b": "c"}}', {}, "value-not-text"),
        pytest.param('{"a": ' + "9" * 10_000 + "}", {}, "value-not-text", id="more digits than Python makes an int of"),
    ],
)
def test_headers_of_every_writer_are_decoded(raw: str | None, values: dict[str, str | None], code: str | None) -> None:
    """Long texts are decoded member by member, with the same result."""
    for decoded in (decode_headers(raw), decoded_by_member(raw or "")):
        assert (decoded.values, decoded.problem_code) == (values, code)


def test_the_problem_of_a_poison_message_does_not_quote_it() -> None:
    decoded = decode_headers('{"a": 1, "secret": "s3cret"}')
    assert decoded.problem == "a header's value is not text"
    assert "s3cret" not in repr(decoded)


@pytest.mark.parametrize("headers", [{"a": 1}, {"a": True}, {1: "a"}, {None: "a"}, {"a": "\ud83d"}, {"\ude00": "a"}])
def test_headers_that_are_not_text(headers: dict[str, str]) -> None:
    assert not can_be_written(headers)
    with pytest.raises(MessageError):
        encode_headers(headers)


def test_the_repr_of_a_message_shows_neither_headers_nor_body() -> None:
    shown = repr(Message({"secret": "s3cret"}, b"s3cret"))
    assert "s3cret" not in shown


def test_a_varchar_column_takes_the_same_headers_in_ascii() -> None:
    assert escape_non_ascii('{"a": "x"}') == '{"a": "x"}'
    assert escape_non_ascii('{"é": "😀"}') == '{"\\u00e9": "\\ud83d\\ude00"}'


@pytest.mark.parametrize(("characters", "problem"), [(1_048_576, None), (1_048_577, "too-long")])
def test_well_formed_headers_have_a_largest_size(characters: int, problem: str | None) -> None:
    text = '{"a":"' + "x" * (characters - 8) + '"}'
    assert len(text) == characters
    assert decode_headers(text).problem_code == problem


@pytest.mark.parametrize(("number", "code"), [(10_000, None), (10_001, "too-many")])
def test_well_formed_headers_have_a_largest_number(number: int, code: str | None) -> None:
    raw = json.dumps({f"k{each}": "" for each in range(number)})
    assert (decode_headers(raw).problem_code, decoded_by_member(raw).problem_code) == (code, code)


def test_blanks_are_what_no_reader_sees() -> None:
    """Marks of numbers and verses in Arabic and Syriac are format characters, and are drawn."""
    plane = [chr(code) for code in range(0x10000)]
    invisible = re.compile("VARIATION SELECTOR|GRAPHEME JOINER|VOWEL INHERENT|HANGUL .*FILLER|PATTERN BLANK")
    drawn = re.compile("ARABIC (?!LETTER MARK)|SYRIAC")
    kinds = {"Cc", "Cf", "Zs", "Zl", "Zp"}
    # Some are not assigned yet, and more are not in an older Python.
    assert {character for character in message.SPACE if unicodedata.category(character) != "Cn"} == {
        character
        for character in plane
        for name in [unicodedata.name(character, "")]
        if invisible.search(name) or (unicodedata.category(character) in kinds and not drawn.match(name))
    }
