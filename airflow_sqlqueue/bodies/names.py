"""Names of fields and columns: the names that columns can have, the comparison of names, and paths as texts."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeAlias, TypeVar

Path: TypeAlias = "tuple[str | int | None, ...]"
"""A place in a body: names of fields and keys, numbers of items or occurrences, None for each item of a list or map."""

RESCUED, UNPARSED = "_rescued", "_unparsed"
ENVELOPE = (
    *("message_id", "message_type", "correlation_id", "conversation_id", "related_to", "intent", "content_type"),
    *("originating_endpoint", "processing_endpoint", "failed_queue", "exception_type"),
    *("time_sent", "processing_started", "processing_ended", "time_of_failure", "processing_ms"),
    *("RowVersion", "Expired"),
)
"""Columns of :func:`~airflow_sqlqueue.spark.read_batch` that stand beside the fields of a body."""

PREFIX = "body_"
MAX_CHARACTERS, MAX_BYTES = 128, 240
"""The longest name of a field that becomes a column, in characters and in bytes of UTF-8."""

BODY_COLUMNS = {"text": "body_text", "variant": "body_variant"}
"""Columns that have the whole body, by its form."""

_OWN = (*ENVELOPE, "enclosed_types", "batch_id", "parse_attempt", *BODY_COLUMNS.values())
"""Columns of tables of message types, which no field's column is called as."""

_ASCII = frozenset(string.ascii_letters + string.digits + "_@#$%&!?'+/:<>|~^-")

_REMEMBERED = 16_384
"""Names whose results each function here remembers, if they are no longer than a column's: senders choose them."""

_Found = TypeVar("_Found")

_PLAIN = re.compile(r"[^.\[\]\"\x00-\x1f]+")
_STEP = re.compile(r'(\[\])|\[(0|-?[1-9]\d*)\]|\[("(?:[^"\\]|\\.)*")\]|(\.?)([^.\[\]"\x00-\x1f]+)', re.DOTALL)


def _remembered(find: Callable[[str], _Found]) -> Callable[[str], _Found]:
    known = lru_cache(_REMEMBERED)(find)

    @wraps(find)
    def found(name: str) -> _Found:
        return (known if len(name) <= MAX_CHARACTERS else find)(name)

    return found


@_remembered
def is_column_name(name: str) -> bool:
    """Return whether a field can be a column: Parquet, Delta Lake, Iceberg and Spark take its name, nested as well."""
    return 0 < len(name) <= MAX_CHARACTERS and all(map(_is_allowed, name)) and len(name.encode()) <= MAX_BYTES


def _is_allowed(character: str) -> bool:
    # Letters, marks, numbers, punctuation and symbols: no blanks, controls, invisible or unassigned characters.
    return character in _ASCII if character.isascii() else unicodedata.category(character)[0] in "LMNPS"


@_remembered
def name_key(name: str) -> str:
    """Return a text that is the same for two names exactly if they differ in case alone, to an engine or to Java."""
    # Delta Lake, Iceberg, and the Parquet reader of Spark compare names by Java's ``toLowerCase(Locale.ROOT)``, Spark's
    # analyzer by ``equalsIgnoreCase``; here two names are the same if either says so.
    if name.isascii():
        return name.lower()
    # The lower case of İ has two characters, and equalsIgnoreCase takes it for i.
    return "".join(map(_folded, name.lower())).replace("i\u0307", "i")


@_remembered
def column_key(name: str) -> str:
    """Return a text that is the same for names that no struct can have both: Iceberg writes them alike in Parquet."""
    # As in AvroSchemaUtil.makeCompatibleName: ``a-b`` becomes ``a_x2Db``, and ``1`` becomes ``_1``.
    key = name_key(name)
    if key.isascii() and key.isidentifier():
        return key
    escaped = "".join(each if each == "_" or _is_plain(each) else _escaped(each) for each in key)
    return f"_{escaped}" if key[:1].isdecimal() else escaped


def _is_plain(character: str) -> bool:
    return (character.isalpha() or character.isdecimal()) and character < "\U00010000"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"_x{int.from_bytes(units[place : place + 2], 'big'):x}" for place in range(0, len(units), 2))


def _folded(character: str) -> str:
    """Return the lower case of the upper case, as Java's ``Character`` has them: one character for one."""
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower if len(lower) == 1 else character


def column_names(schema: Mapping[str, Any], envelope: Sequence[str]) -> dict[str, str]:
    """Return the column of each field of a struct: its name, behind ``body_`` if that begins with ``_`` or is taken."""
    taken = {column_key(name) for name in (*_OWN, *envelope)}
    names = {}
    for name in (each["name"] for each in schema["fields"]):
        column = name
        while column.startswith("_") or column_key(column) in taken:
            column = PREFIX + column
        names[name] = column
        taken.add(column_key(column))
    return names


def is_own_column(column: str) -> bool:
    """Return whether a column of a table of a message type is not that of a field."""
    return column.startswith("_") or column_key(column) in set(map(column_key, _OWN))


def path_text(path: Path) -> str:
    """Return the text of a path, which no other has: ``Lines[0].Quantity``, ``Lines[].Quantity``, ``["a.b"].c``."""
    return "".join(map(_step_text, path)).removeprefix(".")


def _step_text(step: str | int | None) -> str:
    if isinstance(step, str) and _PLAIN.fullmatch(step):
        return f".{step}"
    return "[]" if step is None else f"[{json.dumps(step, ensure_ascii=False)}]"


def read_path(text: str) -> Path:
    """Return the path that :func:`path_text` printed. Raises ValueError for another text."""
    path: list[str | int | None] = []
    end = 0
    for found in _STEP.finditer(text):
        item, number, quoted, dot, name = found.groups()
        if found.start() != end or (name is not None and bool(dot) != bool(path)):
            break
        path.append(None if item else int(number) if number else json.loads(quoted) if quoted else name)
        end = found.end()
    if end != len(text) or path_text(tuple(path)) != text:
        raise ValueError("The text is no path.")
    return tuple(path)


def matches_name(pattern: str, name: str) -> bool:
    """Return whether the parts between the stars of a pattern are in a name, in their order; in linear time."""
    name, (first, *others) = name_key(name), name_key(pattern).split("*")
    if not others:
        return name == first
    if not name.startswith(first):
        return False
    place = len(first)
    for each in others[:-1]:
        found = name.find(each, place)
        if found < 0:
            return False
        place = found + len(each)
    return name.endswith(others[-1], place)
