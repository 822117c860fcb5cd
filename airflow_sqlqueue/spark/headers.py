"""Headers and the transport's times as Spark columns, read as :mod:`airflow_sqlqueue.message` reads them in Python.

None of it depends on the session's settings: neither on its time zone, nor on ANSI mode, the time parser's policy or
the policy for a map's duplicate keys.

Source: docs/transport/messages.md, "Headers as JSON" and "Times".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_SPACE = r"[ \t\n\r]*+"
_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_MEMBER = rf"{_STRING}{_SPACE}:{_SPACE}(?:{_STRING}|null){_SPACE}"
FLAT_OBJECT = rf"\A{_SPACE}\{{{_SPACE}(?:{_MEMBER}(?:,{_SPACE}{_MEMBER})*+)?+\}}{_SPACE}\z"
"""A JSON object whose values are all texts or null, as a Java regular expression.

``from_json`` alone cannot see that: it makes text of numbers and nested objects, and it accepts what follows the
object. Every quantifier is possessive because Java matches such groups in a loop; the others recurse, and overflow the
stack on a long stack trace.
"""

_WIRE_TIME = r"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z\z"


MAX_HEADERS = 10_000
"""Headers of one message, each occurrence of a repeated one counted, beyond which they count as malformed.

Endpoints write some twenty. What looks for a header in a map passes over all of them, so their number is bounded."""


def parse_headers(text: Column) -> Column:
    """The headers as ``map<string,string>``, empty for empty text and null; duplicate keys are kept.

    Null where the text is no JSON object of texts, or one that Spark's reader does not take: with a value of more than
    20,000,000 characters or a key of more than 50,000. Half a surrogate pair, which a text of Spark cannot hold,
    becomes ``?``. Give the other functions the result as a column of its own: Spark then parses each text once.
    """
    from pyspark.sql import functions as sf

    none = sf.coalesce(text, sf.lit("")) == ""
    full = sf.when(none, sf.lit("{}")).when(text.rlike(FLAT_OBJECT), text)
    return sf.from_json(full, "map<string,string>")


def headers_malformed(parsed: Column) -> Column:
    """True where there are headers that cannot be read, or more than :data:`MAX_HEADERS` of them."""
    from pyspark.sql import functions as sf

    return parsed.isNull() | (sf.size(parsed) > MAX_HEADERS)


def last_wins(parsed: Column) -> Column:
    """The map with the last value of each key, as Python's reader has it and whatever the session's policy is.

    Sorting takes n log n steps. Every step is a function of lambda variables alone: Spark computes anything else in a
    lambda anew for each element, and a message with many keys and a duplicate would stall its batch.
    """
    from pyspark.sql import functions as sf

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
    """The timestamp (an instant) of ``yyyy-MM-dd HH:mm:ss:ffffff Z``; null for every other form."""
    from pyspark.sql import functions as sf

    bare = sf.trim(text)
    iso = sf.concat(bare.substr(1, 19), sf.lit("."), bare.substr(21, 6), sf.lit("Z"))
    return sf.when(bare.rlike(_WIRE_TIME), iso.try_cast("timestamp"))


def first_type(enclosed: Column) -> Column:
    """The full name of the first enclosed type, without its assembly; null where there is none."""
    from pyspark.sql import functions as sf

    name = sf.trim(sf.substring_index(sf.substring_index(enclosed, ";", 1), ",", 1))
    return sf.when(name != "", name)
