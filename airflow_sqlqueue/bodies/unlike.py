"""Bodies that Arrow's reader of JSON would read in another way than the rule of one body does.

They are sorted out before Arrow reads the others, by regular expressions on their bytes. One that begins with a fixed
text is fast. Source: docs/guides/bodies.md, "How bodies are parsed".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.schemas import Struct, Type, all_leaves, item_of
from airflow_sqlqueue.bodies.types import Leaf, leaf_of, read_leaf
from airflow_sqlqueue.bodies.values import Misfit

if TYPE_CHECKING:
    import pyarrow as pa


class Unlike:
    """The bodies of a schema that Arrow's reader must not read: see ``unlike`` and ``doubtful`` of a leaf type."""

    def __init__(self, schema: Struct) -> None:
        leaves = {kind: found[0] for kind in sorted(set(all_leaves(schema))) if (found := leaf_of(kind))}
        self._patterns = dict.fromkeys(pattern for leaf in leaves.values() for pattern in leaf.unlike)
        doubtful = {kind: leaf for kind, leaf in leaves.items() if leaf.doubtful}
        self._numbers = [_Numbers(kind, leaf, schema, ":") for kind, leaf in doubtful.items()]
        self._numbers += [
            _Numbers(kind, leaf, schema, r"[\[,]") for kind, leaf in doubtful.items() if kind in set(_items(schema))
        ]

    def found(self, bodies: pa.Array) -> pa.Array:
        """Return true for each such body."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pa.repeat(False, len(bodies))
        for pattern in self._patterns:
            found = pc.or_(found, pc.match_substring_regex(bodies, pattern))
        for each in self._numbers:
            rows = pc.indices_nonzero(pc.match_substring_regex(bodies, each.pattern))
            wrong = [row for row in rows.to_pylist() if each.has_misfit(bodies[row].as_py())]
            if wrong:
                found = pc.or_(found, pc.is_in(pa.array(range(len(bodies))), pa.array(wrong)))
        return found


class _Numbers:
    """Numbers with more digits than a leaf type holds for certain as they are written."""

    def __init__(self, kind: str, leaf: Leaf, schema: Struct, before: str) -> None:
        self.pattern = rf"{before}\s*-?{leaf.doubtful}"
        self._kind = kind
        self._number = re.compile(rf"{before}\s*(-?{leaf.doubtful}[0-9.eE+-]*)".encode())
        self._names = tuple(f'"{name}"'.encode() for name in _fields(schema, kind)) if before == ":" else ()

    def has_misfit(self, body: bytes) -> bool:
        """Whether the rule of one body refuses one of the numbers; those of other fields do not count."""
        is_plain = self._names and b"\\" not in body
        for number in self._number.finditer(body):
            start = number.start()
            if is_plain and body[start - 1 : start] == b'"' and not body.endswith(self._names, 0, start):
                continue
            try:
                read_leaf(self._kind, number[1].decode(), "number")
            except Misfit:
                return True
        return False


def _fields(kind: Type, leaf: str) -> set[str]:
    """The names of the fields of a leaf type."""
    if (item := item_of(kind)) is not None:
        return _fields(item, leaf)
    fields = kind["fields"] if isinstance(kind, dict) else []
    names = {each["name"] for each in fields if each["type"] == leaf}
    return names.union(*(_fields(each["type"], leaf) for each in fields))


def _items(kind: Type) -> set[Type]:
    """The leaf types of the items of lists."""
    if (item := item_of(kind)) is not None:
        return {item} if isinstance(item, str) else _items(item)
    return set().union(*(_items(each["type"]) for each in kind["fields"])) if isinstance(kind, dict) else set()
