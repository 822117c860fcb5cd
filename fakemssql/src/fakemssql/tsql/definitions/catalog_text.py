"""Text of expressions in SQL Server's catalog: ``CAST(Body AS int)`` is shown as ``(CONVERT([int],[Body]))``.

Source: results of sys.computed_columns, sys.default_constraints, sys.check_constraints and sys.indexes. Names are in
brackets, numbers in parentheses, functions in lower case, and casts are conversions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.tsql.names import bracketed
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Expr
from fakemssql.types import SqlType

_LEVELS = {"or": 1, "and": 2, "+": 5, "-": 5, "&": 5, "|": 5, "^": 5, "*": 6, "/": 6, "%": 6}
_NOT, _COMPARISON, _UNARY, _ATOM = 3, 4, 7, 9


def catalog_text(node: Expr, text: str, *, filtered: bool = False) -> str:
    """Expression in SQL Server's form; its own ``text`` if the form of one of its nodes is not known.

    :param filtered: the expression is the filter of an index, in which IN is not replaced by OR.
    """
    try:
        return f"({_Form(filtered).text(node)[0]})"
    except KeyError:
        return f"({text})"


def type_text(kind: SqlType) -> str:
    """Data type in brackets, with its sizes."""
    name = bracketed(kind.name)
    if kind.length is not None and kind.name not in ("text", "ntext", "image", "xml", "sysname"):
        return f"{name}({'max' if kind.length == -1 else kind.length})"
    if kind.name in ("decimal", "numeric"):
        return f"{name}({kind.precision},{kind.scale})"
    return f"{name}({kind.scale})" if kind.name in ("time", "datetime2", "datetimeoffset") else name


class _Form:
    """Methods for the kinds of nodes; each returns a text and its precedence. KeyError for another kind of node."""

    def __init__(self, filtered: bool) -> None:
        self._filtered = filtered

    def text(self, node: Expr) -> tuple[str, int]:
        methods: dict[type, Callable[[Any], tuple[str, int]]] = {
            nodes.Literal: self._literal,
            nodes.Column: self._column,
            nodes.Function: self._function,
            nodes.Cast: self._cast,
            nodes.Unary: self._unary,
            nodes.Binary: self._binary,
            nodes.IsNull: self._is_null,
            nodes.In: self._in,
            nodes.Between: self._between,
            nodes.Like: self._like,
            nodes.Case: self._case,
            nodes.Collate: self._collate,
        }
        return methods[type(node)](node)

    def _inner(self, node: Expr, level: int) -> str:
        text, own = self.text(node)
        return text if own >= level else f"({text})"

    def _alone(self, node: Expr) -> str:
        return self.text(node)[0]

    @staticmethod
    def _literal(node: nodes.Literal) -> tuple[str, int]:
        if node.kind in ("varchar", "nvarchar"):
            prefix = "N" if node.kind == "nvarchar" else ""
            return f"{prefix}'{str(node.value).replace(chr(39), chr(39) * 2)}'", _ATOM
        if node.kind == "null":
            return "NULL", _ATOM
        if node.kind == "binary":
            return f"0x{node.value.hex()}", _ATOM
        return {"int": f"({node.value})", "numeric": f"({node.value})"}[node.kind], _ATOM

    @staticmethod
    def _column(node: nodes.Column) -> tuple[str, int]:
        return ".".join(bracketed(part) for part in node.name), _ATOM

    def _function(self, node: nodes.Function) -> tuple[str, int]:
        if node.over is not None or node.distinct or node.star or len(node.name) > 1:
            raise KeyError(node.name)
        return f"{node.name[0].lower()}({','.join(self._alone(arg) for arg in node.args)})", _ATOM

    def _cast(self, node: nodes.Cast) -> tuple[str, int]:
        if node.attempt:
            return f"TRY_CAST({self._alone(node.value)} AS {type_text(node.type)})", _ATOM
        style = f",{self._alone(node.style)}" if node.style is not None else ""
        return f"CONVERT({type_text(node.type)},{self._alone(node.value)}{style})", _ATOM

    def _unary(self, node: nodes.Unary) -> tuple[str, int]:
        if node.op == "not":
            return f"NOT {self._inner(node.value, _NOT)}", _NOT
        if isinstance(node.value, nodes.Literal) and node.value.kind in ("int", "numeric"):
            return f"({node.op}{node.value.value})", _ATOM
        return f"{node.op}{self._inner(node.value, _UNARY)}", _UNARY

    def _binary(self, node: nodes.Binary) -> tuple[str, int]:
        level = _LEVELS.get(node.op, _COMPARISON)
        op = f" {node.op.upper()} " if node.op.isalpha() else node.op
        # Operators of one level are evaluated from left to right.
        return f"{self._inner(node.left, level)}{op}{self._inner(node.right, level + (level > _NOT))}", level

    def _is_null(self, node: nodes.IsNull) -> tuple[str, int]:
        return f"{self._inner(node.value, 5)} IS {'NOT ' if node.negated else ''}NULL", _COMPARISON

    def _in(self, node: nodes.In) -> tuple[str, int]:
        if node.items is None:
            raise KeyError("subquery")
        value = self._inner(node.value, 5)
        items = [self._inner(item, 5) for item in node.items]
        if self._filtered:
            return f"{value} IN ({', '.join(items)})", _COMPARISON
        if node.negated:
            return " AND ".join(f"{value}<>{item}" for item in reversed(items)), 2 if len(items) > 1 else _COMPARISON
        return " OR ".join(f"{value}={item}" for item in reversed(items)), 1 if len(items) > 1 else _COMPARISON

    def _between(self, node: nodes.Between) -> tuple[str, int]:
        value, low, high = (self._inner(each, 5) for each in (node.value, node.low, node.high))
        if node.negated:
            return f"{value}<{low} OR {value}>{high}", 1
        return f"{value}>={low} AND {value}<={high}", 2

    def _like(self, node: nodes.Like) -> tuple[str, int]:
        escape = f" escape {self._inner(node.escape, 5)}" if node.escape is not None else ""
        text = f"{self._inner(node.value, 5)} like {self._inner(node.pattern, 5)}{escape}"
        return (f"NOT {text}", _NOT) if node.negated else (text, _COMPARISON)

    def _case(self, node: nodes.Case) -> tuple[str, int]:
        operand = f" {self._alone(node.operand)}" if node.operand is not None else ""
        whens = "".join(f" when {self._alone(when)} then {self._alone(then)}" for when, then in node.whens)
        otherwise = f" else {self._alone(node.otherwise)}" if node.otherwise is not None else ""
        return f"case{operand}{whens}{otherwise} end", _ATOM

    def _collate(self, node: nodes.Collate) -> tuple[str, int]:
        return f"{self._inner(node.value, _UNARY)} collate {node.collation}", _UNARY
