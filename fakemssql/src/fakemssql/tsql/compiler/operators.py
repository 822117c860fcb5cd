"""Operators and comparisons, with the types and conversions T-SQL gives them."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.collations import resolved
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.tsql.datatypes import sqltypes
from fakemssql.tsql.datatypes.sqltypes import BIT, INT, family, is_moment, is_number, is_text, storage, wider
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.types import MAX, SqlType


def _literal_size(value: Typed, own: SqlType, other: SqlType) -> SqlType:
    """Return the type of an operand; an integer literal beside a decimal has the precision of its digits."""
    if isinstance(value.constant, int) and other.name in ("decimal", "numeric"):
        return SqlType("decimal", precision=len(str(abs(value.constant))), scale=0)
    return own


def operate(op: str, left: Typed, right: Typed) -> Typed:
    """Compile ``left op right`` for the arithmetic, bit and concatenation operators."""
    if left.type is None and right.type is None:
        return Typed("NULL::int4", INT)
    a, b = left.type or right.type, right.type or left.type
    assert a is not None
    assert b is not None
    if op == "+" and (
        (is_text(a) and is_text(b)) or ((is_text(a) or is_text(b)) and family(wider(a, b)) in ("text", "ntext"))
    ):
        return _concatenate(left, right, a, b)
    if op == "+" and family(a) == "binary" and family(b) == "binary":
        length = MAX if MAX in (a.length or MAX, b.length or MAX) else min((a.length or 0) + (b.length or 0), 8000)
        return Typed(f"({convert(left, a).sql} || {convert(right, b).sql})", SqlType("varbinary", length=length))
    if is_moment(a) or is_moment(b):
        return _moment_arithmetic(op, left, right, a, b)
    if op in ("&", "|", "^"):
        return _bits(op, left, right, a, b)
    kind = wider(a, b)
    missing = left.type == right.type == BIT if op in ("+", "-") else op == "%" and family(kind) == "float"
    if missing or not is_number(kind):
        name = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "modulo"}[op]
        raise SqlError(
            402 if op != "-" or not is_text(kind) else 8117,
            f"The data types {a.name} and {b.name} are incompatible in the {name} operator."
            if op != "-" or not is_text(kind)
            else f"Operand data type {kind.name} is invalid for subtract operator.",
        )
    first = left if is_number(a) else convert(left, kind)
    second = right if is_number(b) else convert(right, kind)
    a, b = first.type or kind, second.type or kind
    result = sqltypes.arithmetic(op, _literal_size(first, a, b), _literal_size(second, b, a))
    pg = storage(result)
    x, y = convert(first, a).sql, convert(second, b).sql
    if family(result) in ("int", "float") or result.name.endswith("money"):
        x, y = f"({x})::{pg}", f"({y})::{pg}"
        sql = f"({x} {op} {y})"
        if result.name == "tinyint":
            sql = f"mssql.tinyint({sql}::int8)"
        elif result.name.endswith("money"):
            sql = f"trunc({x} / {y}, 4)::numeric(19,4)" if op == "/" else f"({sql})::numeric(19,4)"
        return Typed(sql, result)
    sql = f"(({x})::numeric {op} ({y})::numeric)"
    if op == "/":
        digits = min((result.scale or 0) + 8, 40)
        quotient = f"trunc(({x})::numeric(60,{digits}) / ({y})::numeric, {result.scale})"
        sql = f"{quotient}::numeric({result.precision},{result.scale})"
    elif result.precision == 38:
        sql = f"{sql}::numeric(38,{result.scale})"
    return Typed(sql, result)


def _concatenate(left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
    unicode = "ntext" in (family(a), family(b))
    name = "nvarchar" if unicode else "varchar"

    def side(value: Typed, kind: SqlType) -> str:
        if value.type is None:
            return "NULL::text"
        if is_text(kind):
            return value.sql
        return convert(value, SqlType(name, length=MAX)).sql

    x, y = sqltypes.text_length(a), sqltypes.text_length(b)
    limit = 4000 if unicode else 8000
    length = MAX if MAX in (x, y) else min(x + y, limit)
    constant = None
    if isinstance(left.constant, str) and isinstance(right.constant, str):
        constant = left.constant + right.constant
    return Typed(
        f"({side(left, a)} || {side(right, b)})",
        SqlType(name, length=length),
        constant=constant,
    ).with_(**resolved([left, right], "add"))


def _moment_arithmetic(op: str, left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
    kinds = {a.name, b.name}
    if (
        op in ("+", "-")
        and kinds & {"datetime", "smalldatetime"}
        and not kinds & {"datetime2", "date", "time", "datetimeoffset"}
    ):
        target = SqlType("datetime")
        x, y = convert(left, target, "cast").sql, convert(right, target, "cast").sql
        sign = f"({x} {op} ({y} - '1900-01-01'::timestamp))"
        return Typed(f"mssql.dt({sign})", target)
    name = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "modulo"}.get(op, op)
    if kinds & {"datetime2", "date", "time", "datetimeoffset"} and len({family(a), family(b)}) > 1:
        raise SqlError(206, f"Operand type clash: {a.name} is incompatible with {b.name}", state=2)
    raise SqlError(402, f"The data types {a.name} and {b.name} are incompatible in the {name} operator.")


def _bits(op: str, left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
    if family(a) == "binary":
        left, a = convert(left, b, "cast"), b
    elif family(b) == "binary":
        right, b = convert(right, a, "cast"), a
    if family(a) != "int" or family(b) != "int":
        raise SqlError(402, f"The data types {a.name} and {b.name} are incompatible in the '{op}' operator.")
    kind = wider(a, b)
    pg = storage(kind)
    sql = f"(({convert(left, kind).sql})::{pg} {'#' if op == '^' else op} ({convert(right, kind).sql})::{pg})"
    return Typed(sql, kind)


def common_type(values: list[Typed]) -> SqlType:
    """Return the type of a result that is one of ``values``."""
    kind: SqlType | None = None
    for value in values:
        if value.type is not None:
            kind = value.type if kind is None else wider(kind, value.type)
    return kind or INT


def compare(op: str, left: Typed, right: Typed) -> str:
    """Compile a comparison to a PostgreSQL boolean."""
    a, b, _ = comparable(left, right)
    return f"({a} {op} {b})"


def comparable(left: Typed, right: Typed) -> tuple[str, str, SqlType]:
    """Return both sides in their common type, with text folded as the collation compares it."""
    if left.type is None and right.type is None:
        return "NULL::int4", "NULL::int4", INT
    a, b = left.type or right.type, right.type or left.type
    assert a is not None
    assert b is not None
    kind = wider(a, b)
    for side in (a, b):
        if side.name in ("text", "ntext", "image", "xml"):
            raise SqlError(402, f"The data types {a.name} and {b.name} are incompatible in the equal to operator.")
    if is_text(kind) and is_text(a) and is_text(b):
        binary = resolved([left, right], "equal to")["binary"]
        return folded_text(left, binary), folded_text(right, binary), kind
    if is_number(kind) and is_number(a) and is_number(b):
        # PostgreSQL compares numbers of different types without a conversion, so that it can use an index.
        return left.sql if left.type else "NULL::int4", right.sql if right.type else "NULL::int4", kind
    if kind.name in ("datetime", "smalldatetime", "datetime2") and family(a) == family(b) == "timestamp":
        return left.sql if left.type else "NULL::timestamp", right.sql if right.type else "NULL::timestamp", kind
    return convert(left, kind).sql, convert(right, kind).sql, kind


def folded_text(value: Typed, binary: bool | None = None) -> str:
    """Return a text as the collation compares it: without case (unless binary) and without trailing blanks."""
    if value.type is None:
        return "NULL::text"
    if not is_text(value.type):
        return value.sql
    binary = value.binary if binary is None else binary
    if isinstance(value.constant, str):
        text = value.constant.rstrip(" ")
        return (
            literal(text if binary or not text.isascii() else text.lower()) + "::text"
            if (binary or text.isascii())
            else f"mssql.f({value.sql})"
        )
    return f"rtrim({value.sql}, ' ')" if binary else f"mssql.f({value.sql})"


def as_text(value: Typed) -> Typed:
    """Return a value as text; a value of another type becomes varchar."""
    if value.type is None:
        return Typed("NULL::text", sqltypes.varchar(1))
    if is_text(value.type):
        return value
    return convert(value, SqlType("varchar", length=MAX), "cast")


def as_integer(value: Typed, kind: SqlType = INT) -> str:
    """Return the SQL of a value converted to a whole number."""
    return convert(value, kind).sql


def directed(value: Typed, item: nodes.OrderItem) -> str:
    """Return a value with the direction of its item of ORDER BY; NULL is the smallest value, as on SQL Server."""
    return order_key(value) + (" DESC NULLS LAST" if item.descending else " ASC NULLS FIRST")


def order_key(value: Typed) -> str:
    """Return the SQL by which rows are ordered and grouped for a value."""
    if value.type is not None and is_text(value.type):
        return folded_text(value.with_(constant=None))
    return value.sql
