"""Which function a name is, and how many arguments it takes.

Source: the pages of "Transact-SQL functions". A function that is not here is error 195, as SQL Server says for a name
that is no built-in function.
"""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.functions import aggregates
from fakemssql.tsql.compiler.typed import Names, Typed
from fakemssql.tsql.parser import nodes

Implementation = Callable[[Compilation, list[Typed]], Typed]


Special = Callable[[Compilation, nodes.Function, Names], Typed]


_FUNCTIONS: dict[str, tuple[int, int, Implementation]] = {}


_SPECIAL: dict[str, Special] = {}


def define(name: str, least: int, most: int | None = None) -> Callable[[Implementation], Implementation]:
    """Register a function by name with its least and greatest number of arguments (-1: any)."""

    def register(function: Implementation) -> Implementation:
        for each in name.split():
            _FUNCTIONS[each] = (least, least if most is None else most, function)
        return function

    return register


def special(name: str) -> Callable[[Special], Special]:
    """Register a function whose arguments are not all plain values."""

    def register(function: Special) -> Special:
        _SPECIAL[name] = function
        return function

    return register


_REFUSED = frozenset(
    [
        *("FORMAT", "FORMATMESSAGE", "SOUNDEX", "DIFFERENCE", "COMPRESS", "DECOMPRESS"),
        *("GENERATE_SERIES", "JSON_MODIFY", "HAS_PERMS_BY_NAME"),
    ]
)
"""Functions of SQL Server that nobody needs here."""


def call(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    """Compile a function call."""
    name = node.name[-1].upper()
    if len(node.name) > 1:
        if len(node.name) == 2 and node.name[0].lower() in ("sys", "dbo") and name.startswith("FN_"):
            raise SqlError(40517, f"{'.'.join(node.name)} is not supported by fakemssql.", line=node.line)
        raise SqlError(
            4121,
            f'Cannot find either column "{node.name[0]}" or the user-defined function or aggregate'
            f' "{".".join(node.name)}", or the name is ambiguous.',
            line=node.line,
        )
    if name in aggregates.AGGREGATES or name in aggregates.WINDOW or node.over is not None:
        return aggregates.call(c, node, names)
    own = _SPECIAL.get(name)
    if own is not None:
        return own(c, node, names)
    entry = _FUNCTIONS.get(name)
    if name in _REFUSED:
        raise SqlError(40517, f"{name} is not supported by fakemssql.", line=node.line)
    if entry is None:
        raise SqlError(195, f"'{node.name[-1]}' is not a recognized built-in function name.", severity=15, state=10)
    least, most, function = entry
    if node.star or node.distinct:
        raise SqlError(102, f"Incorrect syntax near '{'*' if node.star else 'DISTINCT'}'.", severity=15)
    if len(node.args) < least or (most >= 0 and len(node.args) > most):
        if least == most:
            raise SqlError(174, f"The {node.name[-1].lower()} function requires {least} argument(s).", severity=15)
        raise SqlError(189, f"The {node.name[-1].lower()} function requires {least} to {most} arguments.", severity=15)
    return function(c, [c.scalar(arg, names) for arg in node.args])
