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


def headers_malformed(text: Column) -> Column:
    """True where the headers are not a JSON object of texts. Empty text and null are no headers, which is well."""
    from pyspark.sql import functions as sf

    return ~(sf.coalesce(text, sf.lit("")) == "") & ~text.rlike(FLAT_OBJECT)


def parse_headers(text: Column, malformed: Column) -> Column:
    """The headers as ``map<string,string>``, null where malformed, empty for empty text; duplicate keys are kept.

    Half a surrogate pair, which a text of Spark cannot hold, becomes ``?``. Give :func:`last_wins` the result as a
    column of its own: Spark then parses each text once.
    """
    from pyspark.sql import functions as sf

    full = sf.when(sf.coalesce(text, sf.lit("")) == "", sf.lit("{}")).otherwise(text)
    return sf.from_json(sf.when(~malformed, full), "map<string,string>")


def last_wins(parsed: Column) -> Column:
    """The map with the last value of each key, as Python's reader has it and whatever the session's policy is."""
    from pyspark.sql import functions as sf

    distinct = sf.array_distinct(sf.map_keys(parsed))
    last = sf.transform(
        distinct,
        lambda key: sf.struct(
            key, sf.element_at(sf.filter(sf.map_entries(parsed), lambda entry: entry["key"] == key), -1)["value"]
        ),
    )
    return sf.when(sf.size(parsed) == sf.size(distinct), parsed).otherwise(sf.map_from_entries(last))


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
