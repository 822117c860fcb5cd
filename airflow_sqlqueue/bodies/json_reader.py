"""The reader of JSON: bounded before it begins, with every member, digit and half of a surrogate pair kept."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES, Number, Repeated
from airflow_sqlqueue.errors import BodyError

_BRACKETS = re.compile(r"[][{}]")


def read_json(text: str) -> Any:
    """Return the tree of a JSON text, whose objects are dicts, :class:`.Repeated` if a name comes twice."""
    _check_bounds(text)
    try:
        return DECODER.decode(text)
    except ValueError as error:
        raise BodyError("json") from error


def _check_bounds(text: str) -> None:
    """Raise :class:`BodyError` for too many levels or values, by the brackets and commas outside of texts."""
    if text.count("[") + text.count("{") <= MAX_DEPTH and text.count(",") < MAX_NODES - MAX_DEPTH:
        return
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    brackets = _BRACKETS.findall(outside)
    if outside.count(",") + len(brackets) // 2 >= MAX_NODES:
        raise BodyError("size")
    if max(accumulate(1 if each in "[{" else -1 for each in brackets), default=0) > MAX_DEPTH:
        raise BodyError("depth")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON.")


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_refuse)
"""The reader without its bounds."""
