"""Values of one body by a schema, and what does not fit it.

This is the rule that :mod:`airflow_sqlqueue.bodies.blocks` follows faster for many bodies at once. Source:
docs/guides/bodies.md, "Values that do not fit".
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from airflow_sqlqueue.bodies.decoding import Element, Number
from airflow_sqlqueue.bodies.schemas import INTEGERS, Struct, Type, decimal_of, fields_of
from airflow_sqlqueue.untrusted import is_text

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER = re.compile(r"-?(0|[1-9]\d*)")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00")
_DAYS = date(1970, 1, 1).toordinal()


class Misfit(Exception):
    """A value does not fit its column."""


class Fitting:
    """The values of one body, and in ``rescued`` what did not fit, by path."""

    def __init__(self) -> None:
        self.rescued: dict[str, Any] = {}

    def struct(self, value: Any, schema: Struct, path: str = "") -> dict[str, Any]:
        """Return a value for each field that has one: dicts, lists, and what Arrow takes for the leaf types."""
        kinds = fields_of(schema)
        found: dict[str, Any] = {}
        for name, each in _members(value, kinds):
            where = f"{path}.{name}" if path else name
            if each is None:
                continue
            if name not in kinds:
                if not is_empty(each):
                    self._rescue(where, each)
                continue
            try:
                fitted = self._value(each, kinds[name], where)
            except Misfit:
                self._rescue(where, each)
            else:
                found[name] = fitted
        return found

    def _value(self, value: Any, kind: Type, path: str) -> Any:
        if not isinstance(kind, dict):
            return leaf(value, kind)
        if kind["type"] == "struct":
            if isinstance(value, Element) and not value.children and not value.text.strip():
                return {}
            if not isinstance(value, dict) and not (isinstance(value, Element) and value.children):
                raise Misfit
            return self.struct(value, kind, path)
        items = _items(value)
        found = []
        for number, each in enumerate(items):
            where = f"{path}[{number}]"
            try:
                found.append(None if each is None else self._value(each, kind["elementType"], where))
            except Misfit:
                self._rescue(where, each)
                found.append(None)
        return found

    def _rescue(self, path: str, value: Any) -> None:
        # XML may repeat a name.
        while path in self.rescued:
            path += "'"
        self.rescued[path] = value

    def rescued_text(self) -> str | None:
        """JSON of the values that did not fit by their paths, with numbers as they were; None without any."""
        return to_json(self.rescued) if self.rescued else None


def is_empty(value: Any) -> bool:
    """Whether a value of a field that a schema has not counts as null: an empty object or element, a list of nothing.

    A list of nulls and empty objects is one: Arrow's reader does not tell it from an empty list.
    """
    if isinstance(value, Element):
        return not value.children and not value.text.strip()
    if isinstance(value, list):
        return all(each is None or each == {} for each in value)
    return value == {} or value is None


def _members(value: Any, kinds: dict[str, Type]) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    flat: dict[str, list[Any]] = {}
    members: list[tuple[str, Any]] = []
    for name, child in value.children:
        kind = kinds.get(name)
        if isinstance(kind, dict) and kind["type"] == "array":
            flat.setdefault(name, []).append(child)
        else:
            members.append((name, child))
    # A name that occurs once is a list with its items as children, one that is repeated is the list itself.
    return members + [(name, found[0] if len(found) == 1 else found) for name, found in flat.items()]


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Element) and not value.text.strip():
        return [child for _, child in value.children]
    raise Misfit


def leaf(value: Any, kind: str) -> Any:
    """The value of a simple type: dates as days and times as microseconds since 1970. Raises :class:`Misfit`."""
    if kind == "string":
        text = value if isinstance(value, str) else _text(value)
        return text if is_text(text) else text.encode("utf-8", "replace").decode()
    is_untyped = isinstance(value, Element)
    if is_untyped:
        if value.children:
            raise Misfit
        value = value.text.strip()
    if kind == "boolean":
        if is_untyped and value in ("true", "false"):
            return value == "true"
        if isinstance(value, bool):
            return value
        raise Misfit
    if isinstance(value, (bool, dict, list)):
        raise Misfit
    text = value.text if isinstance(value, Number) else value
    is_number = isinstance(value, Number) or is_untyped
    if kind in INTEGERS:
        return _integer(text, INTEGERS[kind], is_number)
    if kind in ("double", "float"):
        return _double(text, is_number)
    if size := decimal_of(kind):
        return _decimal(text, *size)
    if isinstance(value, Number):
        raise Misfit
    return {"binary": _binary, "date": _days, "timestamp": _instant, "timestamp_ntz": _local}[kind](text)


def _text(value: Any) -> str:
    if isinstance(value, Element) and not value.children:
        return value.text
    return to_json(value)


def _integer(text: str, bits: int, is_number: bool) -> int:
    if not is_number or not _INTEGER.fullmatch(text) or len(text) > 20 or not -(1 << bits) <= int(text) < 1 << bits:
        raise Misfit
    return int(text)


def _double(text: str, is_number: bool) -> float:
    try:
        found = float(text) if is_number else math.nan
    except ValueError as error:
        raise Misfit from error
    if not math.isfinite(found):
        raise Misfit
    return found


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise Misfit
    exact = Context(prec=max(len(text), precision), Emin=MIN_EMIN, Emax=MAX_EMAX)
    try:
        found = exact.create_decimal(text).normalize(exact)
    except ArithmeticError as error:
        raise Misfit from error
    exponent = found.as_tuple().exponent
    if found and (found.adjusted() >= precision - scale or not isinstance(exponent, int) or exponent < -scale):
        raise Misfit
    return found.quantize(Decimal(1).scaleb(-scale), context=exact) if found else Decimal(0)


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Misfit from error


def _days(text: str) -> int:
    found = _DAY.fullmatch(text)
    try:
        if found is None:
            raise Misfit
        return date(*map(int, found.groups())).toordinal() - _DAYS
    except ValueError as error:
        raise Misfit from error


def _micros(text: str) -> tuple[int, str]:
    """Microseconds since 1970 as the clock shows them, and the zone; finer digits are cut off."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise Misfit
        clock = datetime.fromisoformat(found.group(1))
    except ValueError as error:
        raise Misfit from error
    micros = (clock - _EPOCH) // timedelta(microseconds=1) + int((found.group(2) or "0")[:6].ljust(6, "0"))
    return micros, found.group(3) or ""


def _instant(text: str) -> int:
    micros, zone = _micros(text)
    if not zone:
        raise Misfit
    if zone == "Z":
        return micros
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise Misfit
    offset = (hours * 60 + minutes) * 60_000_000
    return micros - offset if zone[0] == "+" else micros + offset


def _local(text: str) -> int:
    micros, zone = _micros(text)
    if zone:
        raise Misfit
    return micros


def to_json(value: Any) -> str:
    """JSON of a tree, with each number as it was written; XML becomes objects, repeated names arrays."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def _write(value: Any, pieces: list[str]) -> None:
    if isinstance(value, Number):
        pieces.append(value.text)
    elif isinstance(value, dict):
        separator = "{"
        for name, each in value.items():
            pieces.append(f"{separator}{json.dumps(name)}:")
            _write(each, pieces)
            separator = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for each in value:
            pieces.append(separator)
            _write(each, pieces)
            separator = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, Element):
        _write(_plain(value), pieces)
    else:
        pieces.append(json.dumps(value))


def _plain(element: Element) -> Any:
    if not element.children:
        return element.text
    found: dict[str, list[Any]] = {}
    for name, child in element.children:
        found.setdefault(name, []).append(child)
    return {name: each[0] if len(each) == 1 else each for name, each in found.items()}
