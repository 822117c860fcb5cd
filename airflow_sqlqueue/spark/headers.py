"""Headers and the transport's times as Spark columns, by the same rules as :mod:`airflow_sqlqueue.messages.message` in
Python.

The results do not depend on the session's settings: time zone, type of timestamps, ANSI mode, the time parser's policy,
and the policy for a map's duplicate keys.

Source: docs/transport/messages.md, "Headers as JSON" and "Times".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.messages.message import BLANKS, MAX_CHARACTERS, MAX_GENERIC, MAX_HEADERS, SPACE, HeaderNames

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import functions as sf
else:
    sf = LazyModule("pyspark.sql.functions")

TEXT_HEADERS = {
    "correlation_id": HeaderNames.CORRELATION_ID,
    "conversation_id": HeaderNames.CONVERSATION_ID,
    "related_to": HeaderNames.RELATED_TO,
    "intent": HeaderNames.MESSAGE_INTENT,
    "content_type": HeaderNames.CONTENT_TYPE,
    "originating_endpoint": HeaderNames.ORIGINATING_ENDPOINT,
    "processing_endpoint": HeaderNames.PROCESSING_ENDPOINT,
    "failed_queue": HeaderNames.FAILED_Q,
    "exception_type": HeaderNames.EXCEPTION_TYPE,
    "traceparent": HeaderNames.TRACE_PARENT,
}
TIME_HEADERS = {
    "time_sent": HeaderNames.TIME_SENT,
    "processing_started": HeaderNames.PROCESSING_STARTED,
    "processing_ended": HeaderNames.PROCESSING_ENDED,
    "time_of_failure": HeaderNames.TIME_OF_FAILURE,
}
"""The header of each typed column of a batch."""

_SPACE = r"[ \t\n\r]*+"
_PLAIN = r'[^"\\' + "".join(rf"\x{code:02x}" for code in range(32)) + "]*"
_STRING = rf'"{_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*+"'
_MEMBER = rf"{_STRING}{_SPACE}:{_SPACE}(?:{_STRING}|null){_SPACE}"
FLAT_OBJECT = rf"\A{_SPACE}\{{{_SPACE}(?:{_MEMBER}(?:,{_SPACE}{_MEMBER})*+)?+\}}{_SPACE}\z"
"""A JSON object whose values are all texts or null, as a Java regular expression.

``from_json`` alone cannot check this: it turns numbers and nested objects into text, and it accepts text after the
object. The quantifier of every group is possessive, because Java matches such groups in a loop; it matches other groups
by recursion, which overflows the stack on a long stack trace. The quantifier of single characters is greedy, and the
class lists the control characters one by one, because Java has a special loop for the first and a table for the second:
together they take a third of the time. Backtracking into a run of such characters fails at once, because the next
character of the pattern is never one of them.
"""

_WIRE_TIME = r"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z\z"

_SURELY_TAKEN = 50_000
"""Bytes up to which Spark's reader takes every flat object, and the object has at most MAX_HEADERS headers."""

_MAP = "map<string,string>"


def readable(text: Column) -> Column:
    """Return the text of readable headers, an empty object for empty text and null; null for malformed headers.

    Malformed is a text that is not a JSON object of texts, has more than
    :data:`~airflow_sqlqueue.messages.message.MAX_CHARACTERS` characters or more than
    :data:`~airflow_sqlqueue.messages.message.MAX_HEADERS` headers, or that Spark's reader does not take: with a key of
    more than 50,000 characters. Pass the result to the other functions as a column of its own: Spark then parses each
    text once, and not at all if no selected column depends on it.
    """
    none = sf.coalesce(text, sf.lit("")) == ""
    taken = sf.from_json(text, _MAP)
    is_bounded = (sf.length(text) <= MAX_CHARACTERS) & taken.isNotNull() & (sf.size(taken) <= MAX_HEADERS)
    fits = (sf.octet_length(text) <= _SURELY_TAKEN) | is_bounded
    return sf.when(none, sf.lit("{}")).when(text.rlike(FLAT_OBJECT) & fits, text)


def known_headers(readable: Column, names: Iterable[str]) -> Column:
    """Return a struct with the last value of each named header; its fields are null if the text is null.

    Half a surrogate pair, which a text of Spark cannot hold, becomes ``?``. Much cheaper than a map of all headers.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    return sf.from_json(readable, StructType([StructField(name, StringType()) for name in names]))


def all_headers(readable: Column) -> Column:
    """Return the headers as ``map<string,string>``, with all values of a repeated header; null if the text is null."""
    return sf.from_json(readable, _MAP)


def last_wins(parsed: Column) -> Column:
    """Return the map with the last value of each key, as in Python's reader, whatever the session's policy is.

    Sorting takes n log n steps. Each step uses lambda variables only: Spark computes any other expression in a lambda
    anew for each element, and a message with many keys and a duplicate would stall its batch.
    """
    entries = sf.transform(
        sf.map_entries(parsed), lambda entry, at: sf.struct(entry["key"], at.alias("at"), entry["value"])
    )
    last = sf.transform(
        sf.array(sf.sort_array(entries)),
        lambda ordered: sf.filter(ordered, lambda entry, at: ~entry["key"].eqNullSafe(sf.get(ordered, at + 1)["key"])),
    )
    pairs = sf.transform(sf.get(last, sf.lit(0)), lambda entry: sf.struct(entry["key"], entry["value"]))
    repeated = sf.size(sf.array_distinct(sf.map_keys(parsed))) < sf.size(parsed)
    return sf.when(repeated, sf.map_from_entries(pairs)).otherwise(parsed)


def wire_time(text: Column) -> Column:
    """Return the timestamp (an instant) of a text ``yyyy-MM-dd HH:mm:ss:ffffff Z``; null for every other form."""
    bare = sf.trim(text)
    iso = sf.concat(bare.substr(1, 19), sf.lit("."), bare.substr(21, 6), sf.lit("Z"))
    return sf.when(bare.rlike(_WIRE_TIME), iso.try_cast("timestamp_ltz"))


def first_type(enclosed: Column) -> Column:
    """Return the full name of the first enclosed type, without its assembly; null without a type.

    The rule is that of :func:`airflow_sqlqueue.messages.message.first_type`.
    """
    first = sf.regexp_extract(enclosed, _FIRST % "[^;]", 1)
    plain = sf.regexp_extract(enclosed, _FIRST % "[^,;]", 1)
    generic = sf.contains(enclosed, sf.lit("[")) & sf.contains(first, sf.lit("["))
    name = sf.when(generic, _generic_name(first)).otherwise(plain)
    # No space is before the name; Spark warns of rtrim with two arguments.
    return sf.nullif(sf.btrim(name, sf.lit(SPACE)), sf.lit(""))


def all_types(enclosed: Column) -> Column:
    """Return the full names of all enclosed types, as an array; null if the text is null."""
    return sf.filter(sf.transform(sf.split(enclosed, ";"), first_type), lambda name: name.isNotNull())


_BLANK = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in BLANKS)
_FIRST = rf"\A(?:[{_BLANK}]*+(?:,[^;]*+)?+;)*+[{_BLANK}]*+(%s*)"
"""Skips types without a name, and captures the first type with a name."""


def _generic_name(assembly_qualified: Column) -> Column:
    """Return the pieces between commas up to the first piece after which all opened brackets are closed."""

    def count(piece: Column, bracket: str) -> Column:
        return sf.length(piece) - sf.length(sf.replace(piece, sf.lit(bracket), sf.lit("")))

    def add(state: Column, piece: Column) -> Column:
        depth = state["depth"] + count(piece, "[") - count(piece, "]")
        added = sf.struct(depth.alias("depth"), (state["taken"] + 1).alias("taken"), (depth <= 0).alias("done"))
        return sf.when(state["done"], state).otherwise(added)

    start = sf.struct(sf.lit(0).alias("depth"), sf.lit(0).alias("taken"), sf.lit(False).alias("done"))
    pieces = sf.split(sf.substring(assembly_qualified, 1, MAX_GENERIC), ",")
    taken = sf.aggregate(pieces, start, add, lambda state: state["taken"])
    return sf.array_join(sf.slice(pieces, sf.lit(1), taken), ",")
