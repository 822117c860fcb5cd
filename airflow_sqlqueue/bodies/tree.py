"""The tree of a body, which its readers make, and inference, fitting and redaction use.

A tree of JSON has dicts, lists, texts, True, False, None, and a :class:`Number` for each number, so that no digit is
lost. A tree of XML has an :class:`Element` for each element, each attribute and each text beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 64
"""The most levels of a body that is parsed, as in System.Text.Json and Newtonsoft.Json."""

MAX_NODES = 1_000_000
"""The most values of a body, counted before and after its references are replaced by what they refer to."""

TEXT = "#text"
"""The name of the text of an element that has attributes or children as well."""

BLANKS = " \t\r\n"
"""Blanks of XML. A no-break space, for example, is text."""


@dataclass(slots=True)
class Number:
    """A number of JSON as it is written."""

    text: str


class Repeated(dict[str, Any]):
    """An object of JSON in which a name comes twice: a dict with the last value of each name.

    ``pairs`` has all members in their order.
    """

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

    An element without content has an empty range. The content of an attribute is its value, without the quotes, and
    its start is before the blanks that separate it from what is before it.
    """

    start: int
    inner: int
    inner_end: int
    end: int


@dataclass(slots=True)
class Element:
    """An element of XML: the names and values of its children, or its text. A child that is nil is None.

    An attribute is a child called ``@Name``, and text beside attributes and children is a child called ``#text``; both
    are elements that have a text only. ``is_nil`` is True for an element that is nil and has attributes or content all
    the same. ``place`` is known to those who ask for it; see :func:`~airflow_sqlqueue.bodies.xml_reader.read_xml`.
    """

    children: Sequence[tuple[str, Element | None]] = ()
    text: str = ""
    is_nil: bool = False
    place: Place | None = None


def is_blank(text: str) -> bool:
    """Whether a text of XML is nothing, as between two elements."""
    return not text.strip(BLANKS)


def is_empty(value: Any) -> bool:
    """Whether a value is nothing: null, an empty object, a blank element, a list of nothing.

    A list of nulls and empty objects is one: Arrow's reader does not tell it from an empty list.
    """
    if isinstance(value, Element):
        return not value.children and is_blank(value.text)
    if isinstance(value, list):
        return all(each is None or each == {} for each in value)
    return value is None or value == {}
