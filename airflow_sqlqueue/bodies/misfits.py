"""Bodies of a block that do not fit as they are: those with unknown fields, and those that Arrow's reader would refuse.

Source: docs/guides/bodies.md, "How bodies are parsed".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.fitting import to_json
from airflow_sqlqueue.bodies.names import Path, column_key, path_text
from airflow_sqlqueue.bodies.references import is_number
from airflow_sqlqueue.bodies.schemas import Struct, Type, item_of
from airflow_sqlqueue.bodies.tree import MAX_DEPTH, Number, is_empty

if TYPE_CHECKING:
    import pyarrow as pa

METADATA = ("$type", "$id")
"""Names of metadata that the root of a body may have."""

_RESOLVED = {"$id", "$ref", "$values"}
"""Names of metadata that have a meaning anywhere."""

_AT_ONCE = 64
"""Bodies that Python's reader parses at once."""

_MOST_SUSPECTS = 100
_MOST_CACHED = 128
_MOST_NAMES = 1 << 40
_MOST_LEVELS = MAX_DEPTH // 2
_BLANKS = r"[ \t\r\n]*"
_BLANK_BEFORE_COLON = re.compile(rb'"[ \t\r\n]+:')
_NULL = rf'"{_BLANKS}:{_BLANKS}null'
_NAME = re.compile(rb'"([^"\\]+)"[ \t\r\n]*:')


def has_more(bodies: pa.Array, text: bytes, read: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the number of names in each body, and whether it is larger than that of the members that were read.

    Then it has fields that were skipped, or a name that comes twice. A quote with a colon behind it ends a name, or is
    within a text. That makes a body suspect for nothing, but hides no field: before a null it counts on both sides.

    :param text: the bodies with what is between them.
    :param read: the values that Arrow's reader made of them.
    """
    import pyarrow.compute as pc

    if _BLANK_BEFORE_COLON.search(text):
        names = pc.count_substring_regex(bodies, rf'"{_BLANKS}:')
    else:
        names = pc.count_substring(bodies, '":')
    known = pc.add(_members(read), pc.count_substring_regex(bodies, _NULL))
    return names, pc.greater(names, known)


def may_have_other_case(bodies: pa.Array, names: Collection[str]) -> pa.Array:
    """Return true for each body with a name that differs from one of these in case alone, and for those in doubt."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not all(map(str.isascii, names)):
        return pa.repeat(True, len(bodies))
    pattern = rf'"(?:{"|".join(map(re.escape, names))})"{_BLANKS}:'
    alike = pc.count_substring_regex(bodies, pattern, ignore_case=True)
    other_case = pc.not_equal(alike, pc.count_substring_regex(bodies, pattern))
    is_plain = pc.and_not(pc.string_is_ascii(bodies.cast(pa.string())), pc.match_substring(bodies, r"\u"))
    return pc.or_(other_case, pc.invert(is_plain))


def _members(read: pa.Array) -> Any:
    """The number of members of each value's objects that are not null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(read.type):
        inner = _members(read.values)
        if isinstance(inner, pa.Scalar):
            return inner
        sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(inner)])
        return pc.subtract(sums.take(read.offsets[1:]), sums.take(read.offsets[:-1]))
    found: Any = pa.scalar(0, pa.int64())
    if pa.types.is_struct(read.type):
        found = pa.array([0] * len(read), pa.int64())
        for child in map(read.field, range(read.type.num_fields)):
            found = pc.add(pc.add(found, child.is_valid().cast(pa.int64())), _members(child))
    return found


class UnknownFields:
    """Reader of the fields that a schema has not, from bodies whose other values are known to fit."""

    def __init__(self, schema: Struct) -> None:
        self._known = _names_of(schema)

    def texts(self, bodies: list[bytes], names: list[int]) -> list[str | bool | None]:
        """Return for each body what is rescued of it, None for nothing, and True if it has to be parsed by itself.

        :param names: the number of names in each body.
        """
        found: list[str | bool | None] = []
        for start in range(0, len(bodies), _AT_ONCE):
            part = bodies[start : start + _AT_ONCE]
            try:
                trees = _DECODER.decode(f"[{b','.join(part).decode()}]")
                found += map(self._text, trees, names[start : start + _AT_ONCE])
            except (ValueError, ArithmeticError, RecursionError):
                found += [True] * (start + len(part) - len(found))
        return found

    def _text(self, tree: dict[str, Any], names: int) -> str | bool | None:
        rescued: list[str] = []
        # Of a name that comes twice in an object, a tree has one.
        if self._walk(tree, self._known, (), rescued) != names:
            return True
        return f"{{{','.join(rescued)}}}" if rescued else None

    def _walk(self, value: Any, known: Any, path: Path, rescued: list[str]) -> int:
        """Collect the unknown fields, and return the number of names, a negative one for what has a rule of its own."""
        if not isinstance(value, dict):
            items = enumerate(value) if isinstance(value, list) else ()
            return sum(self._walk(each, known, (*path, number), rescued) for number, each in items)
        count = len(value)
        fields, keys = known
        for name, each in value.items():
            if name in fields:
                if fields[name] and each:
                    count += self._walk(each, fields[name], (*path, name), rescued)
            elif name[:1] == "$" and not path and name in METADATA:
                if not (is_number(each) if name == "$id" else isinstance(each, str)):
                    return -_MOST_NAMES
            elif name in _RESOLVED or column_key(name) in keys:
                return -_MOST_NAMES
            elif each is not None:
                text = to_json(each)
                if isinstance(each, (dict, list)):
                    count += _names_in(text)
                if not is_empty(each):
                    key = _key if len(name) > _MOST_CACHED else _cached_key
                    rescued.append(f"{key((*path, name))}:{text}")
        return count


def _key(path: Path) -> str:
    return _quoted(path_text(path))


_cached_key = lru_cache(maxsize=1_024)(_key)


def _names_in(text: str) -> int:
    """The number of names in a text of JSON, or less; a negative number for what has a rule of its own."""
    if ('"$' in text and any(f'"{name}"' in text for name in _RESOLVED)) or (
        len(text) > _MOST_LEVELS and text.count("{") + text.count("[") > _MOST_LEVELS
    ):
        return -_MOST_NAMES
    return text.count('":') - text.count('\\":')


def _names_of(kind: Type) -> Any:
    """The names of a struct with what is inside, and their keys; None without structs."""
    if not isinstance(kind, dict) or kind["type"] == "map":
        return None
    if (item := item_of(kind)) is not None:
        return _names_of(item)
    fields = {each["name"]: _names_of(each["type"]) for each in kind["fields"]}
    return fields, {column_key(name) for name in fields}


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON.")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse)


class Suspects:
    """Fields with values that Arrow's reader refuses, as bodies showed; such bodies are known without reading them.

    It is a guess, which saves time: names are looked for wherever they are in a body.
    """

    def __init__(self, read_as: pa.DataType) -> None:
        import pyarrow as pa

        self._refused: dict[str, str] = {}
        counts: Counter[str] = Counter()
        waiting = [read_as]
        while waiting:
            kind = waiting.pop()
            fields = [kind.field(number) for number in range(kind.num_fields)]
            waiting += [each.type for each in fields]
            for each in fields if pa.types.is_struct(kind) else ():
                counts[each.name] += 1
                self._refused[each.name] = _refused(each.type)
        # A name that is at several places says too little.
        self._refused = {name: each for name, each in self._refused.items() if counts[name] == 1}
        self._learned: dict[str, list[str]] = {}
        self.patterns: list[str] = []
        """Regular expressions of bodies that Arrow's reader would refuse."""

    def learn(self, body: bytes) -> bool:
        """Remember what is refused about a body; return whether that was new."""
        names = {each.decode(errors="replace") for each in _NAME.findall(body)} & self._refused.keys()
        new = [name for name in names if re.search(_with(re.escape(name), self._refused[name]).encode(), body)]
        if not new or sum(map(len, self._learned.values())) > _MOST_SUSPECTS:
            return False
        for name in new:
            self._learned.setdefault(self._refused.pop(name), []).append(re.escape(name))
        self.patterns = ["|".join(_with("|".join(each), refused) for refused, each in self._learned.items())]
        return True


def _with(names: str, refused: str) -> str:
    return rf'"(?:{names})"{_BLANKS}:{_BLANKS}(?:{refused})'


def _refused(kind: pa.DataType) -> str:
    """A regular expression of how values begin that Arrow's reader does not take for a type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return r"[^{n \t\r\n]"
    if pa.types.is_list(kind):
        item = _refused(kind.value_type).replace("[^", r"[^\]", 1)
        others = rf'"(?:[^"\\]|\\.)*"|[^\[\]"{{}}])*,{_BLANKS}(?:{item})'
        if pa.types.is_nested(kind.value_type):
            others = rf'[^\]])*\}}{_BLANKS},{_BLANKS}[^{{n" \t\r\n]'
        return rf"[^\[n \t\r\n]|\[{_BLANKS}(?:{item})|\[(?:{others}"
    if pa.types.is_integer(kind):
        return rf"[^\-0-9n \t\r\n]|-?(?:[0-9]{{{len(str(1 << (kind.bit_width - 1)))}}}|[0-9]+[.eE])"
    if pa.types.is_decimal(kind):
        whole, scale = kind.precision - kind.scale + 1, kind.scale + 1
        return rf'[^\-0-9n" \t\r\n]|"?-?(?:[0-9]{{{whole},}}|[0-9]*\.[0-9]{{{scale}}}|[0-9.]+[eE])|"[^\-0-9]'
    if pa.types.is_null(kind):
        return r"[^n \t\r\n]"
    taken = r"\-0-9" if pa.types.is_floating(kind) else "tf" if pa.types.is_boolean(kind) else '"'
    return rf"[^{taken}n \t\r\n]"
