"""The tree of a body: dicts, lists, texts, True, False, None and :class:`Number` for JSON, :class:`Element` for XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 64
"""The most levels of a body that is parsed, as in System.Text.Json and Newtonsoft.Json."""

MAX_NODES = 1_000_000
"""The most values of a body, counted before and after its references are replaced by what they refer to."""

GROWTH, ALWAYS = 32, 1 << 16

TEXT = "#text"
"""The name of the text of an element that has attributes or children as well."""

BLANKS = " \t\r\n"
"""Blanks of XML. A no-break space, for example, is text."""

NOTHING = ("", "null")
"""Texts of XML without their blanks that are no value; old versions of NServiceBus write null as a text."""


@dataclass(slots=True)
class Number:
    """A number of JSON as it is written."""

    text: str


class Untyped(str):
    """A text of a column of texts, which may stand for a value of any type."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object of JSON in which a name comes twice: the last value of each, and in ``pairs`` all in their order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def members_of(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return all members of an object, also those whose names come twice."""
    return value.pairs if isinstance(value, Repeated) else value.items()


@dataclass(slots=True)
class Place:
    """The place of an element in the UTF-8 bytes of its text: from ``start`` to ``end``, its content from ``inner`` on.

    The content of an attribute is its value, and its start is before the blanks in front of it.
    """

    start: int
    inner: int
    inner_end: int
    end: int


@dataclass(slots=True)
class Element:
    """An element of XML: the names and values of its children, or its text; one that is nil may have them all the same.

    An attribute is a child called ``@Name``, and text beside attributes and children is a child called ``#text``; both
    have a text only.
    """

    children: Sequence[tuple[str, Element]] = ()
    text: str = ""
    is_nil: bool = False
    place: Place | None = None


def expansion_limit(size: int) -> int:
    """Return the most characters of the values of a body of this size, with what references repeat, or with paths.

    It limits as well how many values the items of its lists and maps take in columns, one in each column of their
    fields.
    """
    return max(GROWTH * size, ALWAYS)


def is_element(name: str) -> bool:
    """Return whether the name of a child of an element is that of an element, not of an attribute or of text."""
    return name[:1] not in ("@", "#")


def is_nothing(text: str) -> bool:
    """Return whether a text of XML is no value."""
    return text.strip(BLANKS) in NOTHING


def is_empty(value: Any) -> bool:
    """Return whether a value is nothing: null, an empty object, a blank element, a list of nothing."""
    if isinstance(value, Element):
        return not value.children and not value.text.strip(BLANKS)
    if isinstance(value, list):
        # Arrow's reader does not tell nulls and empty objects from no items.
        return all(each is None or each == {} for each in value)
    return value is None or value == {}
