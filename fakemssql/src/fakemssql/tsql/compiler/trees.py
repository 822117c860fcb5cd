"""Walks over syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from fakemssql.tsql.compiler.functions.aggregates import AGGREGATES
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


def _names(node: Any) -> tuple[str, ...] | None:
    """Return the names of a node's attributes; None for any other object."""
    kind: Any = type(node)
    return _names_of(kind)


@cache
def _names_of(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the attributes of a type; cached, because every statement is walked often."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def children(node: Any) -> Sequence[Any]:
    """Return the children of a node or of a list of nodes; no children for any other object."""
    if isinstance(node, list | tuple):
        return node
    return [getattr(node, name) for name in _names(node) or ()]


def has_aggregate(node: Any) -> bool:
    """Return whether an expression contains an aggregate of its own query level."""
    return any(each.over is None and each.name[-1].upper() in AGGREGATES for each in _calls(node))


def has_window(node: Any) -> bool:
    """Return whether an expression contains a window function of its own query level."""
    return any(each.over is not None for each in _calls(node))


def _calls(node: Any) -> Iterator[nodes.Function]:
    """Yield the function calls in an expression, without those in its subqueries."""
    if isinstance(node, nodes.Function):
        yield node
    if not isinstance(node, nodes.Query | nodes.Subquery | nodes.Exists):
        for child in children(node):
            yield from _calls(child)


def walk(node: Any) -> Iterator[Any]:
    """Yield the nodes of a syntax tree, outer ones first."""
    if _names(node) is not None:
        yield node
    for child in children(node):
        yield from walk(child)


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a syntax tree; ``change`` returns the replacement of a node, or None to keep it."""
    if (names := _names(node)) is not None:
        changed = change(node)
        if changed is not None:
            return changed
        if isinstance(node, SqlType):
            return node
        return replace(node, **{name: rewritten(getattr(node, name), change) for name in names})
    if isinstance(node, list):
        return [rewritten(item, change) for item in node]
    if isinstance(node, tuple):
        return tuple(rewritten(item, change) for item in node)
    return node


def mentions(node: Any, folded: str) -> bool:
    """Return whether a query names ``folded`` as a table source (a recursive CTE)."""
    if isinstance(node, nodes.TableSource):
        return len(node.name) == 1 and fold(node.name[0]) == folded
    return any(mentions(child, folded) for child in children(node))
