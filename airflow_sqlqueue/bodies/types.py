"""Leaf types of bodies, each once: a row of :data:`LEAVES` works in JSON, XML, schemas, Arrow, Spark and inference."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from airflow_sqlqueue.bodies import values
from airflow_sqlqueue.bodies.tree import BLANKS, NOTHING
from airflow_sqlqueue.bodies.values import BITS, DATE_FORM, LOCAL_FORM, ZONE_FORM, CoercionError
from airflow_sqlqueue.exports import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")

Given: TypeAlias = Literal["text", "number", "boolean", "nested"]
"""The kinds of values of JSON; of objects and lists a leaf type gets the JSON."""

Parameters: TypeAlias = "tuple[int, ...]"

MOST_DIGITS = 38
"""The most digits of a decimal."""

ROOM = 9
"""Digits after the point that a decimal has at least, if no person chose them: 29 are left before it, as in .NET."""

_KIND = re.compile(r"([a-z_]+)(?:\((\d|[1-9]\d), ?(\d|[1-9]\d)\))?", re.ASCII)


@dataclass(frozen=True)
class Leaf:
    """A leaf type.

    :param json: the kinds of JSON values that it takes. A text of XML says no kind, and is tried always.
    :param read: the value for Arrow of a value's text and the type's parameters; ValueError for one that does not fit.
    :param read_as: the type by which Arrow's reader of JSON reads it, if it is neither this nor a string.
    :param convert: the column of what Arrow's reader read, with null for each value that is left to ``read``.
    :param unlike: regular expressions of bodies that Arrow's reader would read in another way than ``read``.
    :param doubtful: a regular expression of numbers that Arrow's reader takes even where ``read`` refuses them.
    :param form: the form of its texts, for inference.
    :param takes: whether it takes values of another type, by its own parameters and the other's name and parameters.
    """

    json: tuple[Given, ...]
    read: Callable[..., Any]
    write: Callable[[Any], str]
    arrow: Callable[..., pa.DataType]
    read_as: Callable[..., pa.DataType] | None = None
    convert: Callable[..., pa.Array] | None = None
    unlike: tuple[str, ...] = ()
    doubtful: str | None = None
    spark: str | None = None
    json_schema: tuple[tuple[str, str | None], ...] = ()
    form: str | None = None
    takes: Callable[[Parameters, str, Parameters], bool] = lambda own, name, parameters: False
    allows: Callable[[Parameters], bool] = lambda parameters: not parameters
    delta_feature: str | None = None


def leaf_of(kind: str) -> tuple[Leaf, Parameters] | None:
    """Return the row of a type and its parameters, of ``decimal(10,2)`` for example; None for another text."""
    name, parameters = _split(kind)
    leaf = LEAVES.get(name)
    return (leaf, parameters) if leaf and leaf.allows(parameters) else None


@lru_cache(maxsize=1_024)
def _split(kind: str) -> tuple[str, Parameters]:
    found = _KIND.fullmatch(kind)
    return (found[1], tuple(int(each) for each in found.groups()[1:] if each)) if found else ("", ())


def _known(kind: str) -> tuple[Leaf, Parameters]:
    name, parameters = _split(kind)
    return LEAVES[name], parameters


def read_leaf(kind: str, text: str, given: Given | None) -> Any:
    """Return the value of a text; ``given`` is its kind in JSON, None for XML or a column; or CoercionError."""
    leaf, parameters = _known(kind)
    if given is None and kind != "string":
        text = text.strip(BLANKS)
    elif given is not None and given not in leaf.json:
        raise CoercionError
    try:
        return leaf.read(text, *parameters)
    except (ValueError, ArithmeticError) as error:
        raise CoercionError from error


def text_reader(kind: str) -> Callable[[str, bool], Any]:
    """Return a function that reads an element by its text and whether it is nil: None for no value, or CoercionError.

    It does the work of :func:`read_leaf` with what is the same for all elements of a column done once.
    """
    leaf, parameters = _known(kind)
    read_value, is_string = leaf.read, kind == "string"

    def read(text: str, is_nil: bool) -> Any:
        if not is_string:
            text = text.strip(BLANKS)
            if text in NOTHING:
                return None
        elif is_nil and not text.strip(BLANKS):
            return None
        try:
            return read_value(text, *parameters)
        except (ValueError, ArithmeticError) as error:
            raise CoercionError from error

    return read


def takes_leaf(known: str, found: str) -> bool:
    """Return whether a column of the type ``known`` takes values of the type ``found``."""
    if known in (found, "string"):
        return True
    leaf, own = _known(known)
    return leaf.takes(own, *_split(found))


def leaf_of_json_schema(kind: str, form: str | None) -> str:
    """Return the leaf type of a type and a format of JSON Schema; a format that is not known counts for nothing."""
    for wanted in (form, None):
        for name, leaf in LEAVES.items():
            if (kind, wanted) in leaf.json_schema:
                return number_type(0, ROOM) if name == "decimal" else name
    return "string"


def forms() -> dict[str, re.Pattern[str]]:
    """Return the forms of texts that tell a leaf type."""
    return {name: re.compile(leaf.form, re.ASCII) for name, leaf in LEAVES.items() if leaf.form}


def number_type(whole: int, scale: int, *, is_beyond_long: bool = False) -> str:
    """Return the type of numbers of at most ``whole`` digits before the point and ``scale`` behind it."""
    if not scale and not is_beyond_long:
        return "long"
    for digits in (max(scale, ROOM) if scale else 0, scale):
        if whole + digits <= MOST_DIGITS:
            return f"decimal({MOST_DIGITS},{digits})"
    return "string"


def arrow_leaf(kind: str) -> pa.DataType:
    """Return the Arrow type of a leaf type."""
    leaf, parameters = _known(kind)
    return leaf.arrow(*parameters)


def reader_leaf(kind: str) -> pa.DataType:
    """Return the type by which Arrow's reader of JSON reads a leaf type."""
    leaf, parameters = _known(kind)
    if leaf.read_as is None and (leaf.convert is None or leaf.json == ("text",)):
        return pa.string()
    return (leaf.read_as or leaf.arrow)(*parameters)


def converted_leaf(read: pa.Array, kind: str) -> pa.Array:
    """Return the column of what Arrow's reader read, with null for each value that ``read`` looks at, or refuses."""
    leaf, parameters = _known(kind)
    if leaf.convert is not None:
        return leaf.convert(read, *parameters)
    found = read.dictionary_encode()
    different = [read_or_none(kind, text, "text") for text in found.dictionary.to_pylist()]
    return pa.array(different, leaf.arrow(*parameters)).take(found.indices)


def read_or_none(kind: str, text: str, given: Given) -> Any:
    """Return the value of a text, None for one that does not fit."""
    try:
        return read_leaf(kind, text, given)
    except CoercionError:
        return None


def spark_leaf(kind: str) -> str:
    """Return the name of a leaf type in Spark."""
    return _known(kind)[0].spark or kind


# What Arrow's reader read

_DIGITS = 29
"""Digits of a decimal that Arrow's reader takes, as many as a decimal of .NET has."""

_EXPONENTS = (r"(?i)e-0*[1-9]\d{1,9}(?:[^\da-f-]|$)", r"\\u00(?:[46]5|2[dD]|3\d)")
"""Regular expressions of exponents below -9, and of escapes that can hide one in a text.

For such an exponent of a decimal, Arrow's reader reads beyond its table of powers: the value may be wrong, or the
process dies. With 29 digits, exponents down to -9 stay in the table. An exponent of more digits is no number to Arrow,
and the end of a UUID looks like one. A regular expression that begins with a fixed text is fast, so there are two.
"""


def _where(fits: pa.Array, read: pa.Array) -> pa.Array:
    """Return the values that fit, and null for others."""
    return read if pc.all(fits, min_count=0).as_py() else pc.if_else(fits, read, pa.scalar(None, read.type))


def _finite(read: pa.Array) -> pa.Array:
    return _where(pc.is_finite(read), read)


def _rescaled(read: pa.Array, precision: int, scale: int) -> pa.Array:
    # Rescaled values may have more digits than the type that they were read by.
    found = read.view(pa.decimal256(76, scale))
    try:
        return found.cast(pa.decimal128(precision, scale))
    except pa.ArrowInvalid:
        most = pa.scalar(Decimal((0, (9,) * precision, -scale)), found.type)
        return _where(pc.less_equal(pc.abs(found), most), found).cast(pa.decimal128(precision, scale))


def _decimal_takes(own: Parameters, name: str, parameters: Parameters) -> bool:
    if name == "decimal":
        return own[1] >= parameters[1] and own[0] == MOST_DIGITS
    return name in BITS and own[0] - own[1] >= len(str(1 << BITS[name]))


_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])"
_DAY = _YEAR + r"-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_SHAPES = {
    "date": rf"^{_DAY}$",
    "timestamp": rf"^{_DAY}T{_CLOCK}(?:\.\d{{1,9}})?(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)$",
    "timestamp_ntz": rf"^{_DAY}T{_CLOCK}(?:\.\d{{1,9}})?$",
}
"""Texts that Arrow converts. The 29th of February is left to the rule of one body."""


def _times(read: pa.Array, kind: str) -> pa.Array:
    read = _where(pc.match_substring_regex(read, _SHAPES[kind]), read)
    if kind != "date":
        read = pc.replace_substring_regex(read, r"(\.\d{6})\d+", r"\1")
    found = read.cast(LEAVES[kind].arrow())
    if kind != "timestamp":
        return found
    # A zone may lead out of the years 1 to 9999.
    micros, (first, last) = found.cast(pa.int64()), values.MICROS
    return _where(pc.and_(pc.greater_equal(micros, first), pc.less(micros, last)), found)


def _integer_leaf(name: str, *formats: str | None) -> Leaf:
    bits = BITS[name]
    return Leaf(
        json=("number",),
        read=partial(values.integer, bits=bits),
        write=str,
        arrow=lambda: pa.type_for_alias(f"int{bits + 1}"),
        convert=lambda read: read,
        json_schema=tuple(("integer", each) for each in formats),
        takes=lambda own, found, parameters: BITS.get(found, 64) <= bits,
    )


def _time_leaf(name: str, zone: str | None, form: str) -> Leaf:
    return Leaf(
        json=("text",),
        read=partial(values.instant, has_zone=zone is not None),
        write=partial(values.instant_text, zone="Z" if zone else ""),
        arrow=lambda: pa.timestamp("us", zone),
        convert=partial(_times, kind=name),
        json_schema=(("string", "date-time"),) if zone else (),
        form=form,
        delta_feature=None if zone else "timestampNtz",
    )


LEAVES: dict[str, Leaf] = {
    "string": Leaf(
        json=("text", "number", "boolean", "nested"),
        read=values.text_of,
        write=str,
        arrow=lambda: pa.string(),
        convert=lambda read: read,
        json_schema=(("string", None), ("string", "uuid")),
    ),
    "boolean": Leaf(
        json=("boolean",),
        read=values.boolean,
        write=lambda value: "true" if value else "false",
        arrow=lambda: pa.bool_(),
        convert=lambda read: read,
        json_schema=(("boolean", None),),
    ),
    "byte": _integer_leaf("byte"),
    "short": _integer_leaf("short"),
    "integer": _integer_leaf("integer", "int32"),
    "long": _integer_leaf("long", None, "int64"),
    "float": Leaf(
        json=("number",),
        read=values.float32,
        write=lambda value: values.number_text(values.shortest32(value)),
        arrow=lambda: pa.float32(),
        convert=_finite,
        # A number of at most six digits is always a shortest text, but for the least exponents of a float.
        doubtful=r"(?:\d{7}|[\d.]{8}|[\d.]+[eE][+-]?\d\d)",
        json_schema=(("number", "float"),),
        takes=lambda own, name, parameters: name in BITS or name == "decimal",
    ),
    "double": Leaf(
        json=("number",),
        read=values.double,
        write=lambda value: values.number_text(repr(value)),
        arrow=lambda: pa.float64(),
        convert=_finite,
        # A number of at most 15 digits is always a shortest text, but for the least exponents of a double.
        doubtful=r"(?:\d{16}|[\d.]{17}|[\d.]+[eE][+-]?\d{3})",
        json_schema=(("number", "double"),),
        takes=lambda own, name, parameters: name in BITS or name in ("decimal", "float"),
    ),
    "decimal": Leaf(
        json=("number", "text"),
        read=values.decimal,
        write=values.decimal_text,
        arrow=lambda *size: pa.decimal128(*size),
        # Arrow's reader rescales without a check for an overflow: decimal256 has room for the digits of any scale.
        read_as=lambda precision, scale: pa.decimal256(_DIGITS, scale),
        convert=_rescaled,
        unlike=_EXPONENTS,
        json_schema=(("number", None),),
        takes=_decimal_takes,
        allows=lambda size: len(size) == 2 and 1 <= size[0] <= MOST_DIGITS and size[1] <= size[0],
    ),
    "date": Leaf(
        json=("text",),
        read=values.days,
        write=lambda days: str(date(1970, 1, 1) + timedelta(days)),
        arrow=lambda: pa.date32(),
        convert=partial(_times, kind="date"),
        json_schema=(("string", "date"),),
        form=DATE_FORM,
    ),
    "timestamp": _time_leaf("timestamp", "UTC", LOCAL_FORM + ZONE_FORM),
    "timestamp_ntz": _time_leaf("timestamp_ntz", None, LOCAL_FORM),
    "binary": Leaf(
        json=("text",),
        read=values.binary,
        write=lambda value: b64encode(value).decode(),
        arrow=lambda: pa.binary(),
        json_schema=(("string", "byte"),),
    ),
}
"""The leaf types by name; ``decimal`` has two parameters, precision and scale."""
