# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling predicates: comparisons, AND, OR, IN, LIKE, EXISTS."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.collations import resolved
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.operators import comparable, compare
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import family, is_text
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr


def binary(c: Compilation, node: nodes.Binary, names: Names) -> str:
    """Compile AND, OR and comparisons."""
    if node.op in ("and", "or"):
        return f"({c.predicate(node.left, names)} {node.op.upper()} {c.predicate(node.right, names)})"
    if node.op in ("=", "<>", "<", ">", "<=", ">="):
        return compare(node.op, c.scalar(node.left, names), c.scalar(node.right, names))
    return no_condition(c, node, names)


def unary(c: Compilation, node: nodes.Unary, names: Names) -> str:
    """Compile NOT."""
    return f"(NOT {c.predicate(node.value, names)})" if node.op == "not" else no_condition(c, node, names)


def exists(c: Compilation, node: nodes.Exists, names: Names) -> str:
    return f"EXISTS ({c.query(node.query, names).sql})"


def is_null(c: Compilation, node: nodes.IsNull, names: Names) -> str:
    return f"({c.scalar(node.value, names).sql} IS {'NOT ' if node.negated else ''}NULL)"


def between(c: Compilation, node: nodes.Between, names: Names) -> str:
    value = c.scalar(node.value, names)
    low, high = c.scalar(node.low, names), c.scalar(node.high, names)
    sql = f"({compare('>=', value, low)} AND {compare('<=', value, high)})"
    return f"(NOT {sql})" if node.negated else sql


def no_condition(c: Compilation, node: Expr, names: Names) -> str:
    """Raise error 4145 for a value in the place of a condition."""
    near = c.scalar(node, names).name or "the expression"
    raise syntax_error(
        4145, f"An expression of non-boolean type specified in a context where a condition is expected, near '{near}'."
    )


def is_in(c: Compilation, node: nodes.In, names: Names) -> str:
    value = c.scalar(node.value, names)
    word = "NOT IN" if node.negated else "IN"
    if node.query is not None:
        found = c.query(node.query, names)
        sql, columns = found.sql, found.columns
        if len(columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not introduced with"
                " EXISTS.",
            )
        left, right, _ = comparable(value, columns[0].with_(sql="q.c1", constant=None))
        if right == "q.c1":
            return f"({left} {word} ({sql}))"
        return f"({left} {word} (SELECT {right} FROM ({sql}) AS q(c1)))"
    assert node.items is not None
    items = [c.scalar(item, names) for item in node.items]
    pairs = [comparable(value, item) for item in items]
    if len({pair[0] for pair in pairs}) == 1:
        return f"({pairs[0][0]} {word} ({', '.join(pair[1] for pair in pairs)}))"
    joined = " OR ".join(f"{left} = {right}" for left, right, _ in pairs)
    return f"(NOT ({joined}))" if node.negated else f"({joined})"


def is_like(c: Compilation, node: nodes.Like, names: Names) -> str:
    value, pattern = c.scalar(node.value, names), c.scalar(node.pattern, names)
    binary = resolved([value, pattern], "like")["binary"]
    texts = [
        v.sql if v.type is not None and is_text(v.type) else convert(v, sqltypes.NMAX).sql for v in (value, pattern)
    ]
    negated = "NOT " if node.negated else ""
    escape = c.scalar(node.escape, names) if node.escape is not None else None
    # Trailing blanks of a varchar count only in the pattern, those of an nvarchar in the text as well ("LIKE").
    blanks = all(v.type is not None and family(v.type) == "text" for v in (value, pattern, escape) if v is not None)
    plain = isinstance(pattern.constant, str) and "[" not in pattern.constant and escape is None
    if isinstance(pattern.constant, str) and plain and (not blanks or pattern.constant.endswith("%")):
        right = literal(pattern.constant) + "::text"
        if binary:
            return f"({texts[0]} {negated}LIKE {right} ESCAPE '')"
        return f"(lower({texts[0]}) {negated}LIKE lower({right}) ESCAPE '')"
    given = convert(escape, sqltypes.NMAX).sql if escape is not None else "NULL::text"
    text, folded = (texts[0], "false") if binary else (f"lower({texts[0]})", "true")
    return f"({negated}({text} ~ mssql.like_pattern({texts[1]}, {given}, {folded}, {str(blanks).lower()})))"
