"""Built-in functions: how each is called in PostgreSQL and what type it has.

Source: the pages of "Transact-SQL functions". A function that is not here is error 195, as SQL Server says for a name
that is no built-in function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.compiler.convert import convert
from airflow_sqlqueue.localdb.tsql.compiler.typed import Names, Typed
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import (
    BIGINT,
    BMAX,
    DATETIME,
    FLOAT,
    GUID,
    INT,
    NMAX,
    VMAX,
    family,
    is_moment,
    is_number,
    is_text,
    nvarchar,
    storage,
    text_length,
    varchar,
)
from airflow_sqlqueue.localdb.tsql.names import literal
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.types import MAX, SqlType

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.compiler.expressions import Expressions

Implementation = Callable[["Expressions", list[Typed]], Typed]
_FUNCTIONS: dict[str, tuple[int, int, Implementation]] = {}


def define(name: str, least: int, most: int | None = None) -> Callable[[Implementation], Implementation]:
    """Register a function by name with its least and greatest number of arguments (-1: any)."""

    def register(function: Implementation) -> Implementation:
        for each in name.split():
            _FUNCTIONS[each] = (least, least if most is None else most, function)
        return function

    return register


def call(compiler: Expressions, node: nodes.Function, names: Names) -> Typed:
    """Compile a function call."""
    from airflow_sqlqueue.localdb.tsql.compiler.functions import aggregates
    from airflow_sqlqueue.localdb.tsql.compiler.functions import dates as functions_dates
    from airflow_sqlqueue.localdb.tsql.compiler.functions import system as functions_system

    name = node.name[-1].upper()
    if len(node.name) > 1:
        if len(node.name) == 2 and node.name[0].lower() in ("sys", "dbo") and name.startswith("FN_"):
            raise SqlError(40517, f"{'.'.join(node.name)} is not supported by the local server.", line=node.line)
        raise SqlError(
            4121,
            f'Cannot find either column "{node.name[0]}" or the user-defined function or aggregate'
            f' "{".".join(node.name)}", or the name is ambiguous.',
            line=node.line,
        )
    if name in aggregates.AGGREGATES or name in aggregates.WINDOW or node.over is not None:
        return aggregates.call(compiler, node, names)
    special = functions_dates.SPECIAL.get(name) or functions_system.SPECIAL.get(name) or _SPECIAL.get(name)
    if special is not None:
        return special(compiler, node, names)
    entry = _FUNCTIONS.get(name)
    if entry is None:
        raise SqlError(195, f"'{node.name[-1]}' is not a recognized built-in function name.", severity=15, state=10)
    least, most, function = entry
    if node.star or node.distinct:
        raise SqlError(102, f"Incorrect syntax near '{'*' if node.star else 'DISTINCT'}'.", severity=15)
    if len(node.args) < least or (most >= 0 and len(node.args) > most):
        if least == most:
            raise SqlError(174, f"The {node.name[-1].lower()} function requires {least} argument(s).", severity=15)
        raise SqlError(189, f"The {node.name[-1].lower()} function requires {least} to {most} arguments.", severity=15)
    return function(compiler, [compiler.scalar(arg, names) for arg in node.args])


Special = Callable[["Expressions", nodes.Function, Names], Typed]


def _iif(c: Expressions, node: nodes.Function, names: Names) -> Typed:
    if len(node.args) != 3:
        raise SqlError(174, "The iif function requires 3 argument(s).", severity=15)
    case = nodes.Case(None, [(node.args[0], node.args[1])], node.args[2])
    return c.scalar(case, names)


def _choose(c: Expressions, node: nodes.Function, names: Names) -> Typed:
    values = [c.scalar(arg, names) for arg in node.args[1:]]
    kind = c.common(values)
    index = c.integer(c.scalar(node.args[0], names))
    parts = " ".join(f"WHEN {i} THEN {convert(v, kind).sql}" for i, v in enumerate(values, 1))
    return Typed(f"(CASE {index} {parts} END)", kind)


_SPECIAL: dict[str, Special] = {"IIF": _iif, "CHOOSE": _choose}

# --- NULL ------------------------------------------------------------------------------------------------------------


@define("ISNULL", 2)
def _isnull(c: Expressions, a: list[Typed]) -> Typed:
    kind = a[0].type or a[1].type or INT
    other = convert(a[1], kind, "cast" if is_text(kind) or family(kind) == "binary" else "implicit")
    return Typed(
        f"COALESCE({convert(a[0], kind).sql}, {other.sql})", kind, a[1].nullable and a[0].nullable, binary=a[0].binary
    )


@define("COALESCE", 2, -1)
def _coalesce(c: Expressions, a: list[Typed]) -> Typed:
    if all(value.type is None for value in a):
        raise SqlError(
            4127, "At least one of the arguments to COALESCE must be an expression that is not the NULL constant."
        )
    kind = c.common(a)
    return Typed(
        f"COALESCE({', '.join(convert(value, kind).sql for value in a)})",
        kind,
        all(value.nullable for value in a),
        binary=any(value.binary for value in a),
    )


@define("NULLIF", 2)
def _nullif(c: Expressions, a: list[Typed]) -> Typed:
    if a[0].type is None:
        raise SqlError(4151, "The type of the first argument to NULLIF cannot be the NULL constant.")
    return Typed(
        f"(CASE WHEN {c.compare('=', a[0], a[1])} THEN NULL ELSE {a[0].sql} END)", a[0].type, binary=a[0].binary
    )


@define("GREATEST LEAST", 1, -1)
def _greatest(c: Expressions, a: list[Typed]) -> Typed:
    raise SqlError(40517, "GREATEST and LEAST are not supported by the local server.")


# --- text ------------------------------------------------------------------------------------------------------------


def _same(c: Expressions, value: Typed, template: str, length: int | None = None) -> Typed:
    """A text made of a text: ``{}`` in ``template``; its type stays varchar or nvarchar."""
    text = c.text(value)
    assert text.type is not None
    size = text_length(text.type) if length is None else length
    make = nvarchar if family(text.type) == "ntext" else varchar
    kind = make(size) if size != MAX else (NMAX if family(text.type) == "ntext" else VMAX)
    return Typed(template.format(text.sql), kind, binary=text.binary)


def _one(name: str, template: str) -> None:
    define(name, 1)(lambda c, a: _same(c, a[0], template))


_one("UPPER", "upper({})")
_one("LOWER", "lower({})")
_one("REVERSE", "reverse({})")


def _trim(name: str, function: str) -> None:
    def implementation(c: Expressions, a: list[Typed]) -> Typed:
        characters = c.text(a[1]).sql if len(a) > 1 else "' '"
        return _same(c, a[0], f"{function}({{}}, {characters})")

    define(name, 1, 2)(implementation)


_trim("LTRIM", "ltrim")
_trim("RTRIM", "rtrim")
_trim("TRIM", "btrim")


@define("LEN", 1)
def _len(c: Expressions, a: list[Typed]) -> Typed:
    if a[0].type is not None and family(a[0].type) == "binary":
        return Typed(f"octet_length({a[0].sql})", BIGINT if a[0].type.length == MAX else INT).with_(
            sql=f"octet_length({a[0].sql}){'::int8' if a[0].type.length == MAX else ''}"
        )
    text = c.text(a[0])
    big = text.type is not None and text.type.length == MAX and a[0].type is not None and is_text(a[0].type)
    return Typed(f"mssql.len16(rtrim({text.sql}, ' ')){'::int8' if big else ''}", BIGINT if big else INT)


_SIZES = {
    "bit": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "bigint": 8,
    "float": 8,
    "real": 4,
    "money": 8,
    "smallmoney": 4,
    "datetime": 8,
    "smalldatetime": 4,
    "date": 3,
    "uniqueidentifier": 16,
}


@define("DATALENGTH", 1)
def _datalength(c: Expressions, a: list[Typed]) -> Typed:
    kind = a[0].type
    if kind is None:
        return Typed("NULL::int4", INT)
    big = kind.length == MAX or kind.name in ("text", "ntext", "image")
    suffix, result = ("::int8", BIGINT) if big else ("", INT)
    fam = family(kind)
    if fam == "binary":
        return Typed(f"octet_length({a[0].sql}){suffix}", result)
    if fam in ("text", "ntext"):
        units = f"mssql.len16({a[0].sql})"
        return Typed(f"({units} * 2){suffix}" if fam == "ntext" else f"{units}{suffix}", result)
    size = _SIZES.get(kind.name)
    if size is None:
        precision, scale = kind.precision or 18, kind.scale if kind.scale is not None else 7
        if fam == "decimal":
            size = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17
        else:
            base = 3 if scale <= 2 else 4 if scale <= 4 else 5
            size = base + {"time": 0, "datetime2": 3}.get(kind.name, 5)
    return Typed(f"(CASE WHEN {a[0].sql} IS NOT NULL THEN {size} END)", INT)


@define("LEFT", 2)
def _left(c: Expressions, a: list[Typed]) -> Typed:
    return _same(c, a[0], f"mssql.side({{}}, {c.integer(a[1])}, 'left')", _limit(c, a[0], a[1]))


@define("RIGHT", 2)
def _right(c: Expressions, a: list[Typed]) -> Typed:
    return _same(c, a[0], f"mssql.side({{}}, {c.integer(a[1])}, 'right')", _limit(c, a[0], a[1]))


def _limit(c: Expressions, value: Typed, size: Typed) -> int:
    kind = c.text(value).type
    assert kind is not None
    whole = text_length(kind)
    if isinstance(size.constant, int) and size.constant > 0:
        return (
            size.constant
            if whole == MAX and size.constant <= 4000
            else min(whole, size.constant)
            if whole != MAX
            else MAX
        )
    return whole


@define("SUBSTRING", 2, 3)
def _substring(c: Expressions, a: list[Typed]) -> Typed:
    size = c.integer(a[2]) if len(a) > 2 else "2147483647"
    if a[0].type is not None and family(a[0].type) == "binary":
        return Typed(f"mssql.subbytes({a[0].sql}, {c.integer(a[1])}, {size})", a[0].type)
    limit = _limit(c, a[0], a[2]) if len(a) > 2 else None
    return _same(c, a[0], f"mssql.substring({{}}, {c.integer(a[1])}, {size})", limit)


@define("CHARINDEX", 2, 3)
def _charindex(c: Expressions, a: list[Typed]) -> Typed:
    start = c.integer(a[2]) if len(a) > 2 else "1"
    big = a[1].type is not None and a[1].type.length == MAX
    sql = f"mssql.charindex({c.text(a[0]).sql}, {c.text(a[1]).sql}, {start})"
    return Typed(sql + ("::int8" if big else ""), BIGINT if big else INT)


@define("PATINDEX", 2)
def _patindex(c: Expressions, a: list[Typed]) -> Typed:
    return Typed(f"mssql.patindex({c.text(a[0]).sql}, {c.text(a[1]).sql})", INT)


@define("REPLACE", 3)
def _replace(c: Expressions, a: list[Typed]) -> Typed:
    unicode = any(v.type is not None and family(v.type) == "ntext" for v in a)
    kinds = [c.text(v) for v in a]
    big = any(k.type is not None and k.type.length == MAX for k in kinds)
    kind = (NMAX if big else nvarchar(4000)) if unicode else (VMAX if big else varchar(8000))
    function = "replace" if any(k.binary for k in kinds) else "mssql.replace_ci"
    return Typed(f"{function}({kinds[0].sql}, {kinds[1].sql}, {kinds[2].sql})", kind, binary=kinds[0].binary)


@define("TRANSLATE", 3)
def _translate(c: Expressions, a: list[Typed]) -> Typed:
    return _same(c, a[0], f"translate({{}}, {c.text(a[1]).sql}, {c.text(a[2]).sql})")


@define("STUFF", 4)
def _stuff(c: Expressions, a: list[Typed]) -> Typed:
    return _same(
        c,
        a[0],
        f"mssql.stuff({{}}, {c.integer(a[1])}, {c.integer(a[2])}, {c.text(a[3]).sql})",
        MAX if c.text(a[0]).type == NMAX or c.text(a[0]).type == VMAX else 4000,
    )


@define("REPLICATE", 2)
def _replicate(c: Expressions, a: list[Typed]) -> Typed:
    text = c.text(a[0])
    assert text.type is not None
    n = c.integer(a[1])
    if text.type.length == MAX:
        return _same(c, a[0], f"(CASE WHEN {n} >= 0 THEN repeat({{}}, {n}) END)")
    unicode = family(text.type) == "ntext"
    limit = 4000 if unicode else 8000
    return _same(c, a[0], f"(CASE WHEN {n} >= 0 THEN left(repeat({{}}, least({n}, {limit})), {limit}) END)", limit)


@define("SPACE", 1)
def _space(c: Expressions, a: list[Typed]) -> Typed:
    n = c.integer(a[0])
    return Typed(f"(CASE WHEN {n} >= 0 THEN repeat(' ', least({n}, 8000)) END)", varchar(8000))


@define("CONCAT", 2, 254)
def _concat(c: Expressions, a: list[Typed]) -> Typed:
    unicode = any(v.type is not None and family(v.type) == "ntext" for v in a)
    texts = [c.text(v) for v in a]
    sizes = [text_length(t.type) for t in texts if t.type is not None]
    limit = 4000 if unicode else 8000
    size = (
        MAX
        if MAX in [t.type.length for t, v in zip(texts, a, strict=True) if t.type and v.type and is_text(v.type)]
        else min(sum(s if s != MAX else 40 for s in sizes), limit)
    )
    return Typed(
        f"concat({', '.join(t.sql for t in texts)})", SqlType("nvarchar" if unicode else "varchar", length=size), False
    )


@define("CONCAT_WS", 3, 254)
def _concat_ws(c: Expressions, a: list[Typed]) -> Typed:
    unicode = any(v.type is not None and family(v.type) == "ntext" for v in a)
    texts = ", ".join(c.text(v).sql for v in a[1:])
    kind = (
        NMAX
        if any(v.type == NMAX for v in a)
        else VMAX
        if any(v.type == VMAX for v in a)
        else (nvarchar(4000) if unicode else varchar(8000))
    )
    return Typed(f"concat_ws(COALESCE({c.text(a[0]).sql}, ''), {texts})", kind, False)


@define("QUOTENAME", 1, 2)
def _quotename(c: Expressions, a: list[Typed]) -> Typed:
    quote = c.text(a[1]).sql if len(a) > 1 else "'['"
    return Typed(f"mssql.quotename({c.text(a[0]).sql}, left({quote}, 1))", nvarchar(258))


@define("ASCII", 1)
def _ascii(c: Expressions, a: list[Typed]) -> Typed:
    text = c.text(a[0]).sql
    return Typed(f"(CASE WHEN {text} <> '' THEN get_byte(mssql.text_bytes(left({text}, 1)), 0) END)", INT)


@define("UNICODE", 1)
def _unicode(c: Expressions, a: list[Typed]) -> Typed:
    text = c.text(a[0]).sql
    return Typed(
        f"(CASE WHEN {text} <> '' THEN get_byte(mssql.ntext_bytes({text}),"
        f" 0) + 256 * get_byte(mssql.ntext_bytes({text}), 1) END)",
        INT,
    )


@define("CHAR", 1)
def _char(c: Expressions, a: list[Typed]) -> Typed:
    n = c.integer(a[0])
    return Typed(
        f"(CASE WHEN {n} BETWEEN 0 AND 255 THEN mssql.bytes_text(set_byte('\\x00', 0, {n})) END)",
        SqlType("char", length=1),
    )


@define("NCHAR", 1)
def _nchar(c: Expressions, a: list[Typed]) -> Typed:
    n = c.integer(a[0])
    return Typed(
        f"(CASE WHEN {n} BETWEEN 0 AND 65535 THEN mssql.bytes_ntext(decode(mssql.unit_hex({n}), 'hex')) END)",
        SqlType("nchar", length=1),
    )


@define("STR", 1, 3)
def _str(c: Expressions, a: list[Typed]) -> Typed:
    width = c.integer(a[1]) if len(a) > 1 else "10"
    digits = c.integer(a[2]) if len(a) > 2 else "0"
    return Typed(f"mssql.str({convert(a[0], FLOAT).sql}, {width}, {digits})", varchar(10 if len(a) < 2 else 8000))


@define("PARSENAME", 2)
def _parsename(c: Expressions, a: list[Typed]) -> Typed:
    parts = f"mssql.parse_name({c.text(a[0]).sql})"
    return Typed(f"NULLIF(({parts})[cardinality({parts}) + 1 - {c.integer(a[1])}], '')", nvarchar(128))


@define("STRING_ESCAPE", 2)
def _string_escape(c: Expressions, a: list[Typed]) -> Typed:
    text = c.text(a[0]).sql
    return Typed(f"replace(regexp_replace(to_json({text})::text, '^\"|\"$', '', 'g'), '/', '\\/')", NMAX)


@define("ISNUMERIC", 1)
def _isnumeric(c: Expressions, a: list[Typed]) -> Typed:
    if a[0].type is not None and is_number(a[0].type):
        return Typed(f"(CASE WHEN {a[0].sql} IS NULL THEN 0 ELSE 1 END)", INT)
    if a[0].type is None or not is_text(a[0].type):
        return Typed("0", INT)
    return Typed(f"COALESCE(mssql.isnumeric({a[0].sql}), 0)", INT)


@define("ISDATE", 1)
def _isdate(c: Expressions, a: list[Typed]) -> Typed:
    conversion = literal("mssql.dt(mssql.str_ts($1, 'datetime'))")
    return Typed(f"(CASE WHEN mssql.attempt({c.text(a[0]).sql}, {conversion}) IS NULL THEN 0 ELSE 1 END)", INT)


# --- JSON, hashes, identifiers ---------------------------------------------------------------------------------------


@define("ISJSON", 1)
def _isjson(c: Expressions, a: list[Typed]) -> Typed:
    return Typed(f"mssql.isjson({c.text(a[0]).sql})", INT)


@define("JSON_VALUE", 2)
def _json_value(c: Expressions, a: list[Typed]) -> Typed:
    return Typed(f"mssql.json_value({c.text(a[0]).sql}, {c.text(a[1]).sql})", nvarchar(4000))


@define("JSON_QUERY", 1, 2)
def _json_query(c: Expressions, a: list[Typed]) -> Typed:
    path = c.text(a[1]).sql if len(a) > 1 else "'$'"
    return Typed(f"mssql.json_query({c.text(a[0]).sql}, {path})", NMAX)


@define("NEWID NEWSEQUENTIALID", 0)
def _newid(c: Expressions, a: list[Typed]) -> Typed:
    return Typed("gen_random_uuid()", GUID, False)


@define("HASHBYTES", 2)
def _hashbytes(c: Expressions, a: list[Typed]) -> Typed:
    value = a[1] if a[1].type is not None and family(a[1].type) == "binary" else convert(c.text(a[1]), BMAX, "cast")
    return Typed(f"mssql.hashbytes({c.text(a[0]).sql}, {value.sql})", SqlType("varbinary", length=8000))


@define("CHECKSUM BINARY_CHECKSUM", 1, -1)
def _checksum(c: Expressions, a: list[Typed]) -> Typed:
    texts = ", ".join(f"COALESCE({c.text(v).sql}, '')" for v in a)
    return Typed(f"mssql.checksum(mssql.f(concat_ws(E'\\x01', {texts})))", INT)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _number(c: Expressions, value: Typed) -> Typed:
    if value.type is None:
        return Typed("NULL::int4", INT)
    return value if is_number(value.type) else convert(value, FLOAT)


def _keeps(name: str, template: str) -> None:
    def implementation(c: Expressions, a: list[Typed]) -> Typed:
        value = _number(c, a[0])
        assert value.type is not None
        kind = INT if value.type.name in ("bit", "tinyint", "smallint") else value.type
        return Typed(f"({template.format(value.sql)})::{storage(kind)}", kind)

    define(name, 1)(implementation)


_keeps("ABS", "abs({})")
_keeps("CEILING", "ceil({})")
_keeps("FLOOR", "floor({})")
_keeps("SIGN", "sign({})")


def _floating(name: str, template: str, count: int = 1) -> None:
    def implementation(c: Expressions, a: list[Typed]) -> Typed:
        return Typed(template.format(*(convert(value, FLOAT).sql for value in a)), FLOAT)

    define(name, count)(implementation)


for _name, _template in (
    ("SQRT", "sqrt({})"),
    ("SQUARE", "power({0}, 2)"),
    ("EXP", "exp({})"),
    ("LOG10", "log10({})"),
    ("SIN", "sin({})"),
    ("COS", "cos({})"),
    ("TAN", "tan({})"),
    ("ASIN", "asin({})"),
    ("ACOS", "acos({})"),
    ("ATAN", "atan({})"),
    ("COT", "cot({})"),
    ("DEGREES", "degrees({})"),
    ("RADIANS", "radians({})"),
):
    _floating(_name, _template)
_floating("ATN2", "atan2({}, {})", 2)
_floating("PI", "pi()", 0)


@define("LOG", 1, 2)
def _log(c: Expressions, a: list[Typed]) -> Typed:
    value = convert(a[0], FLOAT).sql
    return Typed(f"(ln({value}) / ln({convert(a[1], FLOAT).sql}))" if len(a) > 1 else f"ln({value})", FLOAT)


@define("POWER", 2)
def _power(c: Expressions, a: list[Typed]) -> Typed:
    value = _number(c, a[0])
    kind = INT if value.type is not None and value.type.name in ("bit", "tinyint", "smallint") else value.type or INT
    inner = f"power(({value.sql})::numeric, ({_number(c, a[1]).sql})::numeric)"
    if family(kind) == "float":
        inner = f"power({value.sql}, ({_number(c, a[1]).sql})::float8)"
    return convert(
        Typed(inner, SqlType("numeric", precision=38, scale=10) if family(kind) != "float" else FLOAT), kind, "cast"
    )


@define("ROUND", 2, 3)
def _round(c: Expressions, a: list[Typed]) -> Typed:
    value = _number(c, a[0])
    kind = value.type or INT
    digits = c.integer(a[1])
    function = "round"
    if len(a) > 2:
        if not isinstance(a[2].constant, int):
            raise SqlError(40517, "ROUND with a variable third argument is not supported by the local server.")
        function = "trunc" if a[2].constant else "round"
    return Typed(f"{function}(({value.sql})::numeric, {digits})::{storage(kind)}", kind)


@define("RAND", 0, 1)
def _rand(c: Expressions, a: list[Typed]) -> Typed:
    if a:
        return Typed(f"(abs(hashint4({c.integer(a[0])})::float8) / 2147483648.0)", FLOAT)
    return Typed("random()", FLOAT, False)


@define("FORMAT FORMATMESSAGE SOUNDEX DIFFERENCE COMPRESS DECOMPRESS GENERATE_SERIES JSON_MODIFY", 0, -1)
def _refused(c: Expressions, a: list[Typed]) -> Typed:
    raise SqlError(
        40517,
        "FORMAT, FORMATMESSAGE, SOUNDEX, DIFFERENCE, COMPRESS, JSON_MODIFY are not supported by the local server.",
    )


def moment(value: Typed, default: SqlType = DATETIME) -> Typed:
    """An argument where a date is expected; text becomes ``default``."""
    if value.type is None or is_text(value.type) or is_number(value.type):
        return convert(value, default, "cast")
    if not is_moment(value.type):
        raise SqlError(8116, f"Argument data type {value.type.name} is invalid for argument 1 of the date function.")
    return value
