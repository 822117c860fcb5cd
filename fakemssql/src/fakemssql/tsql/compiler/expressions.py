# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling predicates (comparisons, AND, OR, IN, LIKE, EXISTS) and function calls."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions import call
from fakemssql.tsql.compiler.scalars import Scalars
from fakemssql.tsql.compiler.typed import Names, Typed
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import (
    is_text,
)
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Expr


class Expressions(Scalars):
    """Expression compiler; one instance compiles one statement."""

    def _scalar_function(self, node: nodes.Function, names: Names) -> Typed:
        return call(self, node, names)

    def predicate(self, node: Expr, names: Names) -> str:
        """Compile a search condition to a PostgreSQL boolean."""
        if isinstance(node, nodes.Binary):
            if node.op in ("and", "or"):
                return f"({self.predicate(node.left, names)} {node.op.upper()} {self.predicate(node.right, names)})"
            if node.op in ("=", "<>", "<", ">", "<=", ">="):
                return self.compare(node.op, self.scalar(node.left, names), self.scalar(node.right, names))
        if isinstance(node, nodes.Unary) and node.op == "not":
            return f"(NOT {self.predicate(node.value, names)})"
        if isinstance(node, nodes.Exists):
            sql, _ = self.subquery(node.query, names)
            return f"EXISTS ({sql})"
        if isinstance(node, nodes.IsNull):
            return f"({self.scalar(node.value, names).sql} IS {'NOT ' if node.negated else ''}NULL)"
        if isinstance(node, nodes.Between):
            value = self.scalar(node.value, names)
            low, high = self.scalar(node.low, names), self.scalar(node.high, names)
            sql = f"({self.compare('>=', value, low)} AND {self.compare('<=', value, high)})"
            return f"(NOT {sql})" if node.negated else sql
        if isinstance(node, nodes.In):
            return self._in(node, names)
        if isinstance(node, nodes.Like):
            return self._like(node, names)
        if isinstance(node, nodes.IsDistinct):
            left, right, _ = self.comparable(self.scalar(node.left, names), self.scalar(node.right, names))
            return f"({left} IS {'NOT ' if node.negated else ''}DISTINCT FROM {right})"
        if isinstance(node, nodes.Quantified):
            left_value = self.scalar(node.left, names)
            sql, columns = self.subquery(node.query, names)
            left, right, _ = self.comparable(left_value, columns[0].with_(sql="q.c1", constant=None))
            return f"({left} {node.op} {'ALL' if node.all else 'ANY'} (SELECT {right} FROM ({sql}) AS q(c1)))"
        value = self.scalar(node, names)
        near = value.name or "the expression"
        raise SqlError(
            4145,
            f"An expression of non-boolean type specified in a context where a condition is expected, near '{near}'.",
            severity=15,
        )

    def _in(self, node: nodes.In, names: Names) -> str:
        value = self.scalar(node.value, names)
        word = "NOT IN" if node.negated else "IN"
        if node.query is not None:
            sql, columns = self.subquery(node.query, names)
            if len(columns) != 1:
                raise SqlError(
                    116,
                    "Only one expression can be specified in the select list when the subquery is not introduced with"
                    " EXISTS.",
                )
            left, right, _ = self.comparable(value, columns[0].with_(sql="q.c1", constant=None))
            if right == "q.c1":
                return f"({left} {word} ({sql}))"
            return f"({left} {word} (SELECT {right} FROM ({sql}) AS q(c1)))"
        assert node.items is not None
        items = [self.scalar(item, names) for item in node.items]
        pairs = [self.comparable(value, item) for item in items]
        if len({pair[0] for pair in pairs}) == 1:
            return f"({pairs[0][0]} {word} ({', '.join(pair[1] for pair in pairs)}))"
        joined = " OR ".join(f"{left} = {right}" for left, right, _ in pairs)
        return f"(NOT ({joined}))" if node.negated else f"({joined})"

    def _like(self, node: nodes.Like, names: Names) -> str:
        value, pattern = self.scalar(node.value, names), self.scalar(node.pattern, names)
        binary = value.binary or pattern.binary
        texts = [
            v.sql if v.type is not None and is_text(v.type) else convert(v, sqltypes.NMAX).sql for v in (value, pattern)
        ]
        negated = "NOT " if node.negated else ""
        escape = self.scalar(node.escape, names) if node.escape is not None else None
        if isinstance(pattern.constant, str) and "[" not in pattern.constant and escape is None:
            right = literal(pattern.constant) + "::text"
            if binary:
                return f"({texts[0]} {negated}LIKE {right} ESCAPE '')"
            return f"(lower({texts[0]}) {negated}LIKE lower({right}) ESCAPE '')"
        given = convert(escape, sqltypes.NMAX).sql if escape is not None else "NULL::text"
        if binary:
            return f"({negated}({texts[0]} ~ mssql.like_pattern({texts[1]}, {given})))"
        return f"({negated}(lower({texts[0]}) ~ mssql.like_pattern(lower({texts[1]}), lower({given}))))"
