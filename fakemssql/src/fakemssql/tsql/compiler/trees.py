"""Walks over syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from fakemssql.tsql.compiler.functions.aggregates import AGGREGATES
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


def has_aggregate(node: Any) -> bool:
    """Whether an expression contains an aggregate of its own query level."""
    if isinstance(node, nodes.Function) and node.over is None and node.name[-1].upper() in AGGREGATES:
        return True
    if isinstance(node, nodes.Query | nodes.Subquery | nodes.Exists):
        return False
    if is_dataclass(node) and not isinstance(node, type):
        return any(has_aggregate(getattr(node, field.name)) for field in fields(node))
    if isinstance(node, list | tuple):
        return any(has_aggregate(item) for item in node)
    return False


def has_window(node: Any) -> bool:
    """Whether an expression contains a window function of its own query level."""
    if isinstance(node, nodes.Function) and node.over is not None:
        return True
    if isinstance(node, nodes.Query | nodes.Subquery | nodes.Exists):
        return False
    if is_dataclass(node) and not isinstance(node, type):
        return any(has_window(getattr(node, field.name)) for field in fields(node))
    if isinstance(node, list | tuple):
        return any(has_window(item) for item in node)
    return False


def walk(node: Any) -> Iterator[Any]:
    """The nodes of a syntax tree, outer ones first."""
    if is_dataclass(node) and not isinstance(node, type):
        yield node
        for each in fields(node):
            yield from walk(getattr(node, each.name))
    elif isinstance(node, list | tuple):
        for item in node:
            yield from walk(item)


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a syntax tree in which ``change`` replaced the nodes for which it does not return None."""
    if is_dataclass(node) and not isinstance(node, type):
        changed = change(node)
        if changed is not None:
            return changed
        if isinstance(node, SqlType):
            return node
        return replace(node, **{each.name: rewritten(getattr(node, each.name), change) for each in fields(node)})
    if isinstance(node, list):
        return [rewritten(item, change) for item in node]
    if isinstance(node, tuple):
        return tuple(rewritten(item, change) for item in node)
    return node


def mentions(node: Any, folded: str) -> bool:
    """Whether a query names ``folded`` as a table source (a recursive CTE)."""
    if isinstance(node, nodes.TableSource):
        return len(node.name) == 1 and fold(node.name[0]) == folded
    if is_dataclass(node) and not isinstance(node, type):
        return any(mentions(getattr(node, field.name), folded) for field in fields(node))
    if isinstance(node, list | tuple):
        return any(mentions(item, folded) for item in node)
    return False
