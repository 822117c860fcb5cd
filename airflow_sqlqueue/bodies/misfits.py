"""Bodies of a block with unknown fields, and those that Arrow's reader refuses or reads unlike the rule of one body."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sqlqueue.bodies.coercion import to_json
from airflow_sqlqueue.bodies.json_reader import DECODER, is_number, levels_of
from airflow_sqlqueue.bodies.names import Path, name_key, path_text
from airflow_sqlqueue.bodies.schemas import Struct, Type, all_leaves, item_of
from airflow_sqlqueue.bodies.tree import MAX_DEPTH, Repeated, expansion_limit, is_empty
from airflow_sqlqueue.bodies.types import LEAVES, read_or_none

METADATA = ("$type", "$id")
"""Names of metadata that the root of a body may have."""

ALONE = ""
"""In place of what is rescued of a body: it has to be parsed by itself."""

_AT_ONCE = 64
"""Bodies that Python's reader parses at once."""

_LONGEST_KEY = 256
_MOST_CACHED = 128
_MOST_NAMES = 200
_BLANKS = r"[ \t\r\n]*"
_BLANK_BEFORE_COLON = re.compile(rb'"[ \t\r\n]+:')
_COLON = rf'"{_BLANKS}:{_BLANKS}'


def has_more(bodies: pa.Array, text: bytes, read: pa.Array) -> pa.Array:
    """Return whether each body has more names than the members that were read of it; ``text`` holds all bodies."""
    # A quote with a colon behind it ends a name, or is within a text. That makes a body suspect for nothing, but hides
    # no field: before a null it counts on both sides.

    if _BLANK_BEFORE_COLON.search(text):
        names = pc.count_substring_regex(bodies, rf'"{_BLANKS}:')
    else:
        names = pc.count_substring(bodies, '":')
    known = _members(read)
    if b"null" in text:
        known = pc.add(known, pc.count_substring_regex(bodies, _COLON + "null"))
    return pc.greater(names, known)


def may_have_other_case(bodies: pa.Array, names: Collection[str]) -> pa.Array:
    """Return true for each body with a name that differs from one of these in case alone, and for those in doubt."""
    if not all(map(str.isascii, names)):
        return pa.repeat(True, len(bodies))
    pattern = rf'"(?:{"|".join(map(re.escape, names))})"{_BLANKS}:'
    alike = pc.count_substring_regex(bodies, pattern, ignore_case=True)
    other_case = pc.not_equal(alike, pc.count_substring_regex(bodies, pattern))
    is_plain = pc.and_not(pc.string_is_ascii(bodies.cast(pa.string())), pc.match_substring(bodies, r"\u"))
    return pc.or_(other_case, pc.invert(is_plain))


def is_too_deep(bodies: pa.Array) -> pa.Array:
    """Return whether each body has too many levels."""
    found = pc.greater(pc.count_substring_regex(bodies, r"[\[{]"), MAX_DEPTH)
    deep = [levels_of(body.decode()) > MAX_DEPTH for body in bodies.filter(found).to_pylist()]
    return pc.replace_with_mask(found, found, pa.array(deep, pa.bool_()))


def _members(read: pa.Array) -> pa.Array:
    """Return the number of members of each value's objects that are not null."""
    if pa.types.is_list(read.type):
        sums = pa.concat_arrays([pa.array([0]), pc.cumulative_sum(_members(read.values))])
        return pc.subtract(sums.take(read.offsets[1:]), sums.take(read.offsets[:-1]))
    found = pa.repeat(0, len(read))
    for child in read.flatten() if pa.types.is_struct(read.type) else ():
        found = pc.add(found, child.is_valid().cast(pa.int64()))
        if pa.types.is_nested(child.type):
            found = pc.add(found, _members(child))
    return found


def unknown_fields(bodies: list[bytes], known: Any) -> list[str | None]:
    """Return for each body, whose known values fit, what is rescued of it: None for nothing, or :data:`ALONE`."""
    found: list[str | None] = []
    for start in range(0, len(bodies), _AT_ONCE):
        part = bodies[start : start + _AT_ONCE]
        try:
            for body, tree in zip(part, DECODER.decode(f"[{b','.join(part).decode()}]"), strict=True):
                texts: list[str] = []
                is_plain, text = _collected(tree, known, (), texts), ",".join(texts)
                is_plain = is_plain and (len(text) <= len(body) or len(text) <= expansion_limit(len(body)))
                found.append((f"{{{text}}}" if text else None) if is_plain else ALONE)
        except (ValueError, RecursionError):
            found += [ALONE] * (start + len(part) - len(found))
    return found


def _collected(value: Any, known: Any, path: Path, texts: list[str]) -> bool:
    """Collect the unknown fields, and return False for what has a rule of its own."""
    if not isinstance(value, dict):
        items = enumerate(value) if isinstance(value, list) else ()
        return all(_collected(each, known, (*path, number), texts) for number, each in items)
    if isinstance(value, Repeated):
        return False
    fields, keys = known
    for name, each in value.items():
        if name in fields:
            if (inner := fields[name]) and each and not _collected(each, inner, (*path, name), texts):
                return False
            continue
        key = (_key if len(name) > _MOST_CACHED else _cached_key)(path, name, keys)
        if not key:
            if path or name not in METADATA or not (is_number(each) if name == "$id" else isinstance(each, str)):
                return False
        elif isinstance(each, str) or not is_empty(each):
            text = to_json(each)
            if isinstance(each, (dict, list)) and ('"$' in text or text.count("{") + text.count("[") > MAX_DEPTH // 2):
                return False
            if len(key) > _LONGEST_KEY:
                return False
            texts.append(key + text)
    return True


def _key(path: Path, name: str, keys: frozenset[str]) -> str:
    """Return the key of an unknown field in what is rescued; nothing for metadata, and for a field in another case."""
    return "" if name[:1] == "$" or name_key(name) in keys else f"{_quoted(path_text((*path, name)))}:"


_cached_key = lru_cache(maxsize=1_024)(_key)


def known_names(kind: Type) -> Any:
    """Return the names of a struct with what is inside, and their keys; None without structs."""
    if not isinstance(kind, dict) or kind["type"] == "map":
        return None
    if (item := item_of(kind)) is not None:
        return known_names(item)
    fields = {each["name"]: known_names(each["type"]) for each in kind["fields"]}
    return fields, frozenset(map(name_key, fields))


def unlike(schema: Struct) -> list[tuple[str, str | None]]:
    """Regular expressions of bodies that Arrow's reader reads in another way than the rule of one body.

    One with a leaf type is of numbers that this type may not hold.
    """
    found: dict[tuple[str, str | None], None] = {}
    names: dict[str, set[str | None]] = {}
    for kind, name in all_leaves(schema):
        names.setdefault(kind, set()).add(name)
    for kind, named in sorted(names.items()):
        leaf = LEAVES[kind.partition("(")[0]]
        found |= dict.fromkeys((pattern, None) for pattern in leaf.unlike)
        if leaf.doubtful:
            # A name with an escape may be any: its last one tells, so that no text is read once for each of its own.
            fields = rf'(?:"(?:{"|".join(re.escape(each) for each in named if each)})"|\\[^"\\]*")\s*:'
            before = rf"(?:{fields}|[\[,])" if None in named else fields
            found[rf"{before}\s*(-?{leaf.doubtful}[0-9.eE+-]*)", kind] = None
    return list(found)


def matches(bodies: pa.Array, pattern: str, kind: str | None = None) -> pa.Array:
    """Return whether a regular expression matches each body, by a number that a leaf type refuses if one is named."""
    found = pc.match_substring_regex(bodies, pattern)
    if kind is None:
        return found
    numbers = re.compile(pattern.encode())
    texts = (numbers.findall(body) for body in bodies.filter(found).to_pylist())
    wrong = [any(read_or_none(kind, text.decode(), "number") is None for text in each) for each in texts]
    return pc.replace_with_mask(found, found, pa.array(wrong, pa.bool_()))


def wrong_kinds(read_as: pa.DataType) -> str:
    """Return a regular expression of bodies with a value that Arrow's reader refuses: a guess, which saves time."""
    refused: dict[str, set[str]] = {}
    waiting = [read_as]
    while waiting:
        kind = waiting.pop()
        fields = [kind.field(number) for number in range(kind.num_fields)]
        waiting += [each.type for each in fields]
        for each in fields if pa.types.is_struct(kind) else ():
            refused.setdefault(each.name, set()).add(_refused(each.type))
    names: dict[str, list[str]] = {}
    for name, values in islice(refused.items(), _MOST_NAMES):
        # A name that has several types says too little.
        if len(values) == 1:
            names.setdefault(values.pop(), []).append(re.escape(name))
    return "|".join(f'"(?:{"|".join(each)}){_COLON}(?:{value})' for value, each in names.items())


def _refused(kind: pa.DataType) -> str:
    """Return a regular expression of how values begin that Arrow's reader does not take for a type."""
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
        # Texts are taken if they are plain numbers.
        text = r'"(?:[^\-0-9]|-[^0-9]|-?[0-9]+(?:[^0-9."]|\.(?:[^0-9]|[0-9]+[^0-9"])))'
        return rf'[^\-0-9n" \t\r\n]|"?-?(?:[0-9]{{{whole},}}|[0-9]*\.[0-9]{{{scale}}}|[0-9.]+[eE])|{text}'
    taken = r"\-0-9" if pa.types.is_floating(kind) else "tf" if pa.types.is_boolean(kind) else '"'
    return rf"[^{taken}n \t\r\n]"
