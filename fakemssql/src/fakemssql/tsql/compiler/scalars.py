"""Compiling expressions that have a value: columns, variables, literals, CAST, CASE, subqueries."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.text import from_cp1252, to_cp1252
from fakemssql.tsql.catalog.tables import DEFAULT_COLLATION, is_binary_collation
from fakemssql.tsql.compiler.collations import mixed
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import attempt, convert
from fakemssql.tsql.compiler.environment import SYSTEM_VARIABLES
from fakemssql.tsql.compiler.operators import common_type, compare, operate
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import BIT, INT, family, is_number, is_text
from fakemssql.tsql.names import fold, literal
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr
from fakemssql.types import MAX, SqlType


def variable(c: Compilation, node: nodes.Variable, names: Names) -> Typed:
    """Compile a variable of the batch, or a system variable."""
    kind = SYSTEM_VARIABLES.get(node.name) or c.declared(node.name)
    return Typed(c.parameter(node.name, kind), kind)


def column(c: Compilation, node: nodes.Column, names: Names) -> Typed:
    """Compile a column: search the scopes, innermost first."""
    parts = node.name
    wanted = fold(parts[-1])
    level: Names | None = names
    while level is not None:
        found: list[Typed] = []
        for scope in level.scopes:
            if len(parts) > 1 and not qualifies(parts[:-1], scope):
                continue
            found += scope.find(wanted)
            if len(parts) > 1 and not found:
                raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=node.line)
        if len(found) > 1:
            raise SqlError(209, f"Ambiguous column name '{parts[-1]}'.", line=node.line)
        if found:
            if level.grouped is not None and not level.in_aggregate and level is names:
                return grouped(found[0], level, node)
            return found[0]
        level = level.parent
    if len(parts) > 1:
        raise SqlError(4104, f'The multi-part identifier "{".".join(parts)}" could not be bound.', line=node.line)
    raise SqlError(207, f"Invalid column name '{parts[0]}'.", line=node.line)


def grouped(column: Typed, names: Names, node: nodes.Column) -> Typed:
    """Return a column of a grouped query; error 8120 if it is neither in GROUP BY nor in an aggregate."""
    assert names.grouped is not None
    key = column.sql
    if key in names.grouped:
        return column.with_(sql=f"any_value({key})") if names.grouped[key] else column
    if names.grouped.get("*"):
        return column
    raise SqlError(
        8120,
        f"Column '{'.'.join(node.name)}' is invalid in the select list because it is not contained in either an"
        " aggregate function or the GROUP BY clause.",
        line=node.line,
    )


def starred(names: Names, node: nodes.Star, *, bare: bool = True) -> list[Scope]:
    """Return the scopes of ``t.*``, or of ``*`` if it may be ``bare``. Errors 107 and 263."""
    scopes = [s for s in names.scopes if (qualifies(node.qualifier, s) if node.qualifier else bare)]
    if not scopes and bare and not node.qualifier:
        raise SqlError(263, "Must specify table to select from.")
    if not scopes:
        raise syntax_error(
            107,
            f"The column prefix '{'.'.join(node.qualifier)}' does not match with a table name or alias name used in the"
            " query.",
        )
    return scopes


def qualifies(qualifier: tuple[str, ...], scope: Scope) -> bool:
    """Return whether a qualifier names a scope."""
    last = fold(qualifier[-1])
    if last != scope.alias:
        return False
    if len(qualifier) == 1:
        return True
    exposed = tuple(fold(part) for part in scope.exposed)
    wanted = tuple(fold(part) for part in qualifier)
    return all(
        not want or not have or want == have for want, have in zip(reversed(wanted), reversed(exposed), strict=False)
    ) and bool(exposed)


def literal_value(c: Compilation, node: nodes.Literal, names: Names) -> Typed:
    kind, value = node.kind, node.value
    if kind == "null":
        return Typed("NULL", None)
    if kind == "int":
        return Typed(str(value), INT, False, constant=value)
    if kind in ("varchar", "nvarchar"):
        size = max(len(value.encode("utf-16-le", "surrogatepass")) // 2, 1)
        if kind == "varchar":
            value = value if value.isascii() else from_cp1252(to_cp1252(value))
            typed = sqltypes.varchar(size)
        else:
            typed = sqltypes.nvarchar(size)
        return Typed(literal(value) + "::text", typed, False, constant=value)
    if kind == "binary":
        size = max(len(value), 1)
        typed = SqlType("varbinary", length=size if size <= 8000 else MAX)
        return Typed(f"'\\x{value.hex()}'::bytea", typed, False, constant=value)
    if kind == "numeric":
        whole, _, fraction = value.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        if digits > 38:
            raise syntax_error(
                1007, f"The number '{value}' is out of the range for numeric representation (maximum precision 38)."
            )
        text = (whole or "0") + ("." + fraction if fraction else "")
        return Typed(f"{text}::numeric", SqlType("numeric", precision=max(digits, 1), scale=len(fraction)), False)
    if kind == "float":
        return Typed(f"{value}::float8", SqlType("float"), False)
    if kind == "money":
        return Typed(f"{value}::numeric(19,4)", SqlType("money"), False)
    raise syntax_error(156, "Incorrect syntax near the keyword 'DEFAULT'.")


def cast(c: Compilation, node: nodes.Cast, names: Names) -> Typed:
    value = c.scalar(node.value, names)
    style = ""
    if node.style is not None:
        given = c.scalar(node.style, names)
        style = str(given.constant) if isinstance(given.constant, int) else f"({convert(given, INT).sql})"
    if node.attempt and value.type is not None:
        return attempt(value, node.type, style)
    result = convert(value, node.type, "cast", style)
    return result.with_(name="", identity=False, constant=None, origin="")


def collated(c: Compilation, node: nodes.Collate, names: Names) -> Typed:
    value = c.scalar(node.value, names)
    if value.type is not None and not is_text(value.type):
        raise SqlError(447, f"Expression type {value.type.name} is invalid for COLLATE clause.")
    name = node.collation.upper()
    if name not in ("DATABASE_DEFAULT", "CATALOG_DEFAULT") and not any(part in name for part in ("_CI", "_CS", "_BIN")):
        raise SqlError(448, f"Invalid collation '{node.collation}'.")
    collation = DEFAULT_COLLATION if name.endswith("_DEFAULT") else node.collation
    return value.with_(binary=is_binary_collation(name), collation=collation, explicit=True)


def unary(c: Compilation, node: nodes.Unary, names: Names) -> Typed:
    if node.op == "not":
        raise syntax_error(156, "Incorrect syntax near the keyword 'NOT'.")
    value = c.scalar(node.value, names)
    if value.type is None:
        return Typed("NULL", None)
    if node.op == "+":
        return value
    if not is_number(value.type):
        if node.op == "-" and is_text(value.type):
            raise SqlError(8117, f"Operand data type {value.type.name} is invalid for minus operator.")
        raise SqlError(8117, f"Operand data type {value.type.name} is invalid for '{node.op}' operator.")
    if node.op == "~":
        if value.type.name == "bit":
            return Typed(f"(1 - {value.sql})::int2", BIT)
        if family(value.type) != "int":
            raise SqlError(8117, f"Operand data type {value.type.name} is invalid for '~' operator.")
        if value.type.name == "tinyint":
            return Typed(f"(255 - {value.sql})::int2", value.type)
        return Typed(f"(~{value.sql})", value.type)
    if isinstance(value.constant, int):
        return Typed(f"({-value.constant})", INT, False, constant=-value.constant)
    if isinstance(node.value, nodes.Literal) and node.value.kind == "numeric" and node.value.value == "2147483648":
        return Typed("(-2147483648)::numeric", value.type, False)
    return Typed(f"(-{value.sql})", SqlType("smallint") if value.type.name == "tinyint" else value.type)


def binary(c: Compilation, node: nodes.Binary, names: Names) -> Typed:
    if node.op not in ("+", "-", "*", "/", "%", "&", "|", "^"):
        raise syntax_error(102, f"Incorrect syntax near '{node.op}'.")
    return operate(node.op, c.scalar(node.left, names), c.scalar(node.right, names))


def case(c: Compilation, node: nodes.Case, names: Names) -> Typed:
    branches = [c.scalar(value, names) for _, value in node.whens]
    otherwise = c.scalar(node.otherwise, names) if node.otherwise is not None else Typed("NULL", None)
    kind = common_type([*branches, otherwise])
    parts = []
    for (when, _), value in zip(node.whens, branches, strict=True):
        if node.operand is None:
            condition = c.predicate(when, names)
        else:
            condition = compare("=", c.scalar(node.operand, names), c.scalar(when, names))
        parts.append(f"WHEN {condition} THEN {convert(value, kind).sql}")
    sql = f"(CASE {' '.join(parts)} ELSE {convert(otherwise, kind).sql} END)"
    return Typed(sql, kind).with_(**mixed([*branches, otherwise]))


def subquery(c: Compilation, node: nodes.Subquery, names: Names) -> Typed:
    found = c.query(node.query, names)
    columns = found.columns
    if len(columns) != 1:
        raise SqlError(
            116,
            "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
        )
    return columns[0].with_(sql=f"({found.sql})", name="", nullable=True, identity=False, constant=None, origin="")


def no_value(c: Compilation, node: Expr, names: Names) -> Typed:
    """Raise error 102 for a condition or a star where a value is expected."""
    raise syntax_error(102, "Incorrect syntax near a condition where an expression is expected.")
