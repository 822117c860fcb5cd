# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling expressions and predicates to PostgreSQL, with T-SQL's types, conversions and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.catalog import Catalog, TableInfo, is_binary_collation
from airflow_sqlqueue.localdb.tsql.compiler.convert import attempt, convert
from airflow_sqlqueue.localdb.tsql.compiler.typed import Names, Scope, Typed
from airflow_sqlqueue.localdb.tsql.datatypes import sqltypes
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import (
    BIT,
    INT,
    family,
    is_moment,
    is_number,
    is_text,
    oid,
    storage,
    wider,
)
from airflow_sqlqueue.localdb.tsql.names import fold, literal
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.tsql.parser.nodes import Expr
from airflow_sqlqueue.localdb.types import MAX, SqlType

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.parser.nodes import Query

SYSTEM_VARIABLES = {
    "@@rowcount": INT,
    "@@error": INT,
    "@@trancount": INT,
    "@@spid": SqlType("smallint"),
    "@@options": INT,
    "@@lock_timeout": INT,
    "@@identity": SqlType("numeric", precision=38, scale=0),
    "@@version": SqlType("nvarchar", length=300),
    "@@servername": SqlType("nvarchar", length=128),
    "@@servicename": SqlType("nvarchar", length=128),
    "@@language": SqlType("nvarchar", length=128),
    "@@langid": SqlType("smallint"),
    "@@datefirst": SqlType("tinyint"),
    "@@max_precision": SqlType("tinyint"),
    "@@max_connections": INT,
    "@@nestlevel": INT,
    "@@procid": INT,
    "@@fetch_status": INT,
    "@@microsoftversion": INT,
    "@@textsize": INT,
    "@@dbts": SqlType("varbinary", length=8),
    "@@cpu_busy": INT,
    "@@connections": INT,
    "@@cursor_rows": INT,
    "@@timeticks": INT,
}


def _literal_size(value: Typed, own: SqlType, other: SqlType) -> SqlType:
    """An integer literal beside a decimal counts with the digits it has, not with those of int."""
    if isinstance(value.constant, int) and other.name in ("decimal", "numeric"):
        return SqlType("decimal", precision=len(str(abs(value.constant))), scale=0)
    return own


@dataclass
class Environment:
    """What the meaning of a statement depends on besides its text."""

    catalog: Catalog
    database: str
    variables: dict[str, SqlType] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    isolation: str = "READ COMMITTED"
    in_transaction: bool = False
    identity_insert: str = ""
    errors: bool = False


class Expressions:
    """Expression compiler; one instance compiles one statement."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.parameters: list[str] = []
        self.oids: list[int] = []
        self.kinds: list[SqlType] = []
        self.serial = 0

    # --- names and parameters --------------------------------------------------------------------------------------

    def fresh(self, prefix: str = "t") -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def parameter(self, name: str, kind: SqlType) -> str:
        """The ``$n`` of a variable or of a value that the session provides."""
        if name not in self.parameters:
            self.parameters.append(name)
            self.oids.append(oid(kind))
            self.kinds.append(kind)
        return f"${self.parameters.index(name) + 1}"

    def _variable(self, name: str) -> Typed:
        kind = self.env.variables.get(name)
        if kind is None:
            if name.startswith("@@"):
                kind = SYSTEM_VARIABLES.get(name)
                if kind is None:
                    raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
            elif name in self.env.tables:
                raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
            else:
                raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
        return Typed(self.parameter(name, kind), kind)

    def column(self, node: nodes.Column, names: Names) -> Typed:
        """Look a column up in the scopes, innermost first."""
        parts = node.name
        wanted = fold(parts[-1])
        level: Names | None = names
        while level is not None:
            found: list[Typed] = []
            for scope in level.scopes:
                if len(parts) > 1 and not self._qualifies(parts[:-1], scope):
                    continue
                found += scope.find(wanted)
                if len(parts) > 1 and not found:
                    raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=node.line)
            if len(found) > 1:
                raise SqlError(209, f"Ambiguous column name '{parts[-1]}'.", line=node.line)
            if found:
                if level.grouped is not None and not level.in_aggregate and level is names:
                    return self._grouped(found[0], level, node)
                return found[0]
            level = level.parent
        if len(parts) > 1:
            raise SqlError(4104, f'The multi-part identifier "{".".join(parts)}" could not be bound.', line=node.line)
        raise SqlError(207, f"Invalid column name '{parts[0]}'.", line=node.line)

    def _grouped(self, column: Typed, names: Names, node: nodes.Column) -> Typed:
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

    @staticmethod
    def _qualifies(qualifier: tuple[str, ...], scope: Scope) -> bool:
        last = fold(qualifier[-1])
        if last != scope.alias:
            return False
        if len(qualifier) == 1:
            return True
        exposed = tuple(fold(part) for part in scope.exposed)
        wanted = tuple(fold(part) for part in qualifier)
        return all(
            not want or not have or want == have
            for want, have in zip(reversed(wanted), reversed(exposed), strict=False)
        ) and bool(exposed)

    # --- scalars ---------------------------------------------------------------------------------------------------

    def scalar(self, node: Expr, names: Names) -> Typed:
        """Compile an expression that has a value."""
        method = getattr(self, "_scalar_" + type(node).__name__.lower(), None)
        if method is None:
            raise SqlError(102, "Incorrect syntax near a condition where an expression is expected.", severity=15)
        if names.group_expressions and names.grouped and not names.in_aggregate and not isinstance(node, nodes.Column):
            # An expression that is grouped by as a whole, before its columns are looked at one by one.
            grouped, names.grouped = names.grouped, None
            try:
                whole: Typed = method(node, names)
            finally:
                names.grouped = grouped
            if whole.sql in grouped:
                return whole.with_(sql=f"any_value({whole.sql})") if grouped[whole.sql] else whole
        result = method(node, names)
        assert isinstance(result, Typed)
        return result

    def _scalar_literal(self, node: nodes.Literal, names: Names) -> Typed:
        kind, value = node.kind, node.value
        if kind == "null":
            return Typed("NULL", None)
        if kind == "int":
            return Typed(str(value), INT, False, constant=value)
        if kind in ("varchar", "nvarchar"):
            size = max(len(value.encode("utf-16-le", "surrogatepass")) // 2, 1)
            if kind == "varchar":
                from airflow_sqlqueue.localdb.text import from_cp1252, to_cp1252

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
                raise SqlError(
                    1007, f"The number '{value}' is out of the range for numeric representation.", severity=15
                )
            text = (whole or "0") + ("." + fraction if fraction else "")
            return Typed(f"{text}::numeric", SqlType("numeric", precision=max(digits, 1), scale=len(fraction)), False)
        if kind == "float":
            return Typed(f"{value}::float8", SqlType("float"), False)
        if kind == "money":
            return Typed(f"{value}::numeric(19,4)", SqlType("money"), False)
        raise SqlError(156, "Incorrect syntax near the keyword 'DEFAULT'.", severity=15)

    def _scalar_variable(self, node: nodes.Variable, names: Names) -> Typed:
        return self._variable(node.name)

    def _scalar_column(self, node: nodes.Column, names: Names) -> Typed:
        return self.column(node, names)

    def _scalar_cast(self, node: nodes.Cast, names: Names) -> Typed:
        value = self.scalar(node.value, names)
        style = ""
        if node.style is not None:
            given = self.scalar(node.style, names)
            style = str(given.constant) if isinstance(given.constant, int) else f"({convert(given, INT).sql})"
        if node.attempt and value.type is not None:
            return attempt(value, node.type, style)
        result = convert(value, node.type, "cast", style)
        return result.with_(name="", identity=False, constant=None, origin="")

    def _scalar_collate(self, node: nodes.Collate, names: Names) -> Typed:
        value = self.scalar(node.value, names)
        if value.type is not None and not is_text(value.type):
            raise SqlError(447, f"Expression type {value.type.name} is invalid for COLLATE clause.")
        name = node.collation.upper()
        if name not in ("DATABASE_DEFAULT", "CATALOG_DEFAULT") and not any(
            part in name for part in ("_CI", "_CS", "_BIN")
        ):
            raise SqlError(448, f"Invalid collation '{node.collation}'.")
        return value.with_(binary=is_binary_collation(name))

    def _scalar_attimezone(self, node: nodes.AtTimeZone, names: Names) -> Typed:
        value, zone = self.scalar(node.value, names), self.scalar(node.zone, names)
        if not isinstance(zone.constant, str) or zone.constant.upper() != "UTC":
            raise SqlError(40517, "AT TIME ZONE other than 'UTC' is not supported by the local server.")
        scale = value.type.scale if value.type is not None and value.type.scale is not None else 7
        return convert(value, SqlType("datetimeoffset", scale=scale), "cast")

    def _scalar_nextvalue(self, node: nodes.NextValue, names: Names) -> Typed:
        table = self.env.catalog.find(node.name, self.env.database)
        if table is None or table.type != "SO":
            raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.")
        kind = SqlType(table.extra.get("type", "bigint"))
        return Typed(f"nextval({literal(table.pg)})::{storage(kind)}", kind, False)

    def _scalar_unary(self, node: nodes.Unary, names: Names) -> Typed:
        if node.op == "not":
            raise SqlError(156, "Incorrect syntax near the keyword 'NOT'.", severity=15)
        value = self.scalar(node.value, names)
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
            return Typed(f"(~{value.sql})", value.type)
        if isinstance(value.constant, int):
            return Typed(f"(-{value.constant})", INT, False, constant=-value.constant)
        if isinstance(node.value, nodes.Literal) and node.value.kind == "numeric" and node.value.value == "2147483648":
            return Typed("(-2147483648)::numeric", value.type, False)
        return Typed(f"(-{value.sql})", value.type)

    def _scalar_binary(self, node: nodes.Binary, names: Names) -> Typed:
        if node.op not in ("+", "-", "*", "/", "%", "&", "|", "^"):
            raise SqlError(102, f"Incorrect syntax near '{node.op}'.", severity=15)
        return self.operate(node.op, self.scalar(node.left, names), self.scalar(node.right, names))

    def operate(self, op: str, left: Typed, right: Typed) -> Typed:
        """``left op right`` for the arithmetic, bit and concatenation operators."""
        if left.type is None and right.type is None:
            return Typed("NULL::int4", INT)
        a, b = left.type or right.type, right.type or left.type
        assert a is not None
        assert b is not None
        if op == "+" and (
            (is_text(a) and is_text(b)) or ((is_text(a) or is_text(b)) and family(wider(a, b)) in ("text", "ntext"))
        ):
            return self._concatenate(left, right, a, b)
        if op == "+" and family(a) == "binary" and family(b) == "binary":
            length = MAX if MAX in (a.length or MAX, b.length or MAX) else min((a.length or 0) + (b.length or 0), 8000)
            return Typed(f"({convert(left, a).sql} || {convert(right, b).sql})", SqlType("varbinary", length=length))
        if is_moment(a) or is_moment(b):
            return self._moment_arithmetic(op, left, right, a, b)
        if op in ("&", "|", "^"):
            return self._bits(op, left, right, a, b)
        kind = wider(a, b)
        if not is_number(kind):
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
            sql = (
                f"({x} {op} {y})"
                if family(result) != "float" or op != "%"
                else f"mod(({x})::numeric, ({y})::numeric)::float8"
            )
            if result.name == "tinyint":
                sql = f"mssql.tinyint({sql}::int8)"
            elif result.name.endswith("money"):
                sql = f"({sql})::numeric(19,4)"
            return Typed(sql, result)
        sql = f"(({x})::numeric {op} ({y})::numeric)"
        if op == "/":
            digits = min((result.scale or 0) + 8, 40)
            quotient = f"trunc(({x})::numeric(60,{digits}) / ({y})::numeric, {result.scale})"
            sql = f"{quotient}::numeric({result.precision},{result.scale})"
        elif result.precision == 38:
            sql = f"{sql}::numeric(38,{result.scale})"
        return Typed(sql, result)

    def _concatenate(self, left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
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
            binary=left.binary or right.binary,
            constant=constant,
        )

    def _moment_arithmetic(self, op: str, left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
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

    def _bits(self, op: str, left: Typed, right: Typed, a: SqlType, b: SqlType) -> Typed:
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

    def _scalar_case(self, node: nodes.Case, names: Names) -> Typed:
        branches = [self.scalar(value, names) for _, value in node.whens]
        otherwise = self.scalar(node.otherwise, names) if node.otherwise is not None else Typed("NULL", None)
        kind = self.common([*branches, otherwise])
        parts = []
        for (when, _), value in zip(node.whens, branches, strict=True):
            if node.operand is None:
                condition = self.predicate(when, names)
            else:
                condition = self.compare("=", self.scalar(node.operand, names), self.scalar(when, names))
            parts.append(f"WHEN {condition} THEN {convert(value, kind).sql}")
        binary = any(value.binary for value in [*branches, otherwise])
        sql = f"(CASE {' '.join(parts)} ELSE {convert(otherwise, kind).sql} END)"
        return Typed(sql, kind, binary=binary)

    def common(self, values: list[Typed]) -> SqlType:
        """The type of a result that is one of ``values``."""
        kind: SqlType | None = None
        for value in values:
            if value.type is not None:
                kind = value.type if kind is None else wider(kind, value.type)
        return kind or INT

    def _scalar_subquery(self, node: nodes.Subquery, names: Names) -> Typed:
        sql, columns = self.subquery(node.query, names)
        if len(columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select"
                " list when the subquery is not introduced with EXISTS.",
            )
        return columns[0].with_(sql=f"({sql})", name="", nullable=True, identity=False, constant=None, origin="")

    def subquery(self, query: Query, names: Names) -> tuple[str, list[Typed]]:
        """A nested query; implemented by the query compiler."""
        raise NotImplementedError

    def _scalar_function(self, node: nodes.Function, names: Names) -> Typed:
        from airflow_sqlqueue.localdb.tsql.compiler.functions.registry import call

        return call(self, node, names)

    # --- predicates ------------------------------------------------------------------------------------------------

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

    def compare(self, op: str, left: Typed, right: Typed) -> str:
        a, b, _ = self.comparable(left, right)
        return f"({a} {op} {b})"

    def comparable(self, left: Typed, right: Typed) -> tuple[str, str, SqlType]:
        """Both sides in their common type, text folded as the collation compares it."""
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
            binary = left.binary or right.binary
            return self.folded(left, binary), self.folded(right, binary), kind
        if is_number(kind) and is_number(a) and is_number(b):
            # PostgreSQL compares numbers of different types by itself, and then an index still serves.
            return left.sql if left.type else "NULL::int4", right.sql if right.type else "NULL::int4", kind
        if kind.name in ("datetime", "smalldatetime", "datetime2") and family(a) == family(b) == "timestamp":
            return left.sql if left.type else "NULL::timestamp", right.sql if right.type else "NULL::timestamp", kind
        return convert(left, kind).sql, convert(right, kind).sql, kind

    def folded(self, value: Typed, binary: bool | None = None) -> str:
        """A text as the collation compares it: without case (unless binary) and without trailing blanks."""
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

    # --- helpers for functions -------------------------------------------------------------------------------------

    def text(self, value: Typed) -> Typed:
        """A value as text of its natural kind (varchar for what is no text)."""
        if value.type is None:
            return Typed("NULL::text", sqltypes.varchar(1))
        if is_text(value.type):
            return value
        return convert(value, SqlType("varchar", length=MAX), "cast")

    def integer(self, value: Typed, kind: SqlType = INT) -> str:
        return convert(value, kind).sql

    def order_key(self, value: Typed) -> str:
        if value.type is not None and is_text(value.type):
            return self.folded(value.with_(constant=None))
        return value.sql

    def constant(self, value: Any) -> Typed:
        """A Python value as a literal."""
        if isinstance(value, int):
            return Typed(f"{value}::int4", INT, False)
        return Typed(literal(str(value)) + "::text", sqltypes.nvarchar(max(len(str(value)), 1)), False)
