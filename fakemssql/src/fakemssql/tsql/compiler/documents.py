# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""FOR JSON PATH and FOR XML PATH: the rows of a query as one text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions.registry import define
from fakemssql.tsql.compiler.sources import Compiled
from fakemssql.tsql.compiler.typed import Names, Typed
from fakemssql.tsql.datatypes.sqltypes import NMAX, family, is_number, is_text
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.compiler.expressions import Expressions
    from fakemssql.tsql.compiler.queries import Queries

_JSON = "JSON_F52E2B61-18A1-11d1-B105-00805F49916B"
_XML = "XML_F52E2B61-18A1-11d1-B105-00805F49916B"


def compile_document(c: Queries, query: nodes.Query, parent: Names | None) -> Compiled:
    """The query with its FOR clause: no row at all for no rows, else one."""
    options = query.for_options
    body = query.body
    if options["MODE"] == "AUTO" and not (
        isinstance(body, nodes.Select)
        and all(isinstance(s, nodes.TableSource) for s in body.sources[:2])
        and len(body.sources) == 1
    ):
        raise SqlError(40517, "FOR JSON AUTO of more than one table is not supported by fakemssql.")
    plain = replace(query, for_clause="", for_options={})
    depth, c.depth = c.depth, 0  # an ORDER BY has its meaning here
    compiled = c.compile_query(plain, parent)
    c.depth = depth
    alias = c.fresh("d")
    values = [value.with_(sql=f"{alias}.c{i}", constant=None) for i, value in enumerate(compiled.columns, 1)]
    if query.for_clause == "JSON":
        row, separator, kind = _object(c, values, _documents(query.body, "JSON"), options), ",", NMAX
    else:
        row, separator, kind = _element(c, values, _documents(query.body, "XML"), options), "", NMAX
    text = f"string_agg({row}, '{separator}')"
    root = options.get("ROOT")
    name = _XML
    if query.for_clause == "JSON":
        name = _JSON
        if "WITHOUT_ARRAY_WRAPPER" not in options:
            text = f"'[' || {text} || ']'"
        if root is not None:
            text = f"{literal('{' + _key(root or 'root') + ':')} || {text} || '}}'"
    else:
        if root is not None:
            root = root or "root"
            text = f"{literal(f'<{root}>')} || {text} || {literal(f'</{root}>')}"
        if "TYPE" in options:
            kind, name = SqlType("xml"), ""
    sql = f"SELECT {text} AS c1 FROM ({compiled.sql}) AS {alias} HAVING count(*) > 0"
    return Compiled(sql, [Typed("c1", kind, True, name=name)])


def _documents(body: Any, clause: str) -> list[bool]:
    """Which items of a select list are documents themselves, which stand in the text as they are."""
    if not isinstance(body, nodes.Select) or any(isinstance(item.value, nodes.Star) for item in body.items):
        return []

    def is_document(node: nodes.Expr) -> bool:
        if isinstance(node, nodes.Function):
            return clause == "JSON" and node.name[-1].upper() == "JSON_QUERY"
        if not isinstance(node, nodes.Subquery) or node.query.for_clause != clause:
            return False
        return clause == "JSON" or "TYPE" in node.query.for_options

    return [is_document(item.value) for item in body.items]


def _key(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False).replace("/", "\\/")


def _plain(c: Expressions, value: Typed) -> str:
    """A value as text: dates and times as ISO 8601 has them, binary as base64."""
    assert value.type is not None
    if family(value.type) == "binary":
        return f"translate(encode({value.sql}, 'base64'), E'\\n', '')"
    if value.type.name in ("datetime", "datetime2"):
        digits = 3 if value.type.name == "datetime" else min(value.type.scale or 0, 6)
        zeros = 0 if value.type.name == "datetime" else (value.type.scale or 0) - digits
        whole = f"to_char({value.sql}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
        part = f"to_char({value.sql}, '.US')"
        fraction = f"CASE WHEN {part} = '.000000' THEN '' ELSE left({part}, {digits + 1}) || '{'0' * zeros}' END"
        return f"({whole} || {fraction})"
    if value.type.name in ("smalldatetime", "date", "time", "datetimeoffset"):
        return f"(to_json({value.sql}) #>> '{{}}')"
    return convert(value, NMAX, "cast").sql


def _json_value(c: Expressions, value: Typed, document: bool) -> str:
    if value.type is None:
        return "NULL::text"
    if document:
        return value.sql
    if value.type.name == "bit":
        return f"({convert(value, SqlType('int')).sql} <> 0)::text"
    if value.type.name in ("float", "real"):
        text = f"trim(to_char({value.sql}, '9.{'9' * 15 if value.type.name == 'float' else '9' * 7}EEEE'))"
        return f"regexp_replace({text}, 'e([+-])(\\d\\d)$', 'e\\10\\2')"
    if is_number(value.type):
        return _plain(c, value)
    return f"replace(to_json({_plain(c, value)}::text)::text, '/', '\\/')"


def _object(c: Expressions, values: list[Typed], documents: list[bool], options: dict[str, str]) -> str:
    """A JSON object; ``a.b`` in a column's name makes an object in the object."""
    nulls = "INCLUDE_NULL_VALUES" in options
    tree: dict[str, Any] = {}
    for i, value in enumerate(values):
        if not value.name:
            raise SqlError(
                13605,
                "Column expressions and data sources without names or aliases cannot be formatted as JSON text using"
                " FOR JSON clause. Add alias to the unnamed column or table.",
            )
        path = value.name.split(".") if options.get("MODE") == "PATH" else [value.name]
        place = tree
        for step in path[:-1]:
            place = place.setdefault(step, {})
        if not isinstance(place, dict) or path[-1] in place:
            raise SqlError(
                13601,
                f"Property '{value.name}' cannot be generated in JSON output due to a conflict with another column name"
                " or alias. Use different names and aliases for each column in SELECT list.",
            )
        place[path[-1]] = _json_value(c, value, bool(documents) and documents[i])

    def render(place: dict[str, Any], outermost: bool) -> str:
        parts = []
        for key, item in place.items():
            inner = render(item, False) if isinstance(item, dict) else item
            if nulls and not isinstance(item, dict):
                inner = f"COALESCE({inner}, 'null')"
            parts.append(f"{literal(_key(key) + ':')} || {inner}")
        joined = f"concat_ws(',', {', '.join(parts)})"
        return f"('{{' || {joined if outermost else f'NULLIF({joined}, $$$$)'} || '}}')"

    return render(tree, True)


def _escaped(text: str) -> str:
    return f"replace(replace(replace({text}, '&', '&amp;'), '<', '&lt;'), '>', '&gt;')"


def _element(c: Expressions, values: list[Typed], documents: list[bool], options: dict[str, str]) -> str:
    """An XML element for a row: columns are elements, ``@name`` an attribute, without a name text."""
    row = options["ELEMENT"]
    attributes, parts = [], []
    for i, value in enumerate(values):
        if value.type is None:
            continue
        raw = bool(documents) and documents[i]
        text = value.sql if raw else _escaped(_plain(c, value))
        name = value.name
        if options["MODE"] == "RAW":
            name = "@" + name
        if name.startswith("@"):
            if not row:
                raise SqlError(
                    6864,
                    "Row tag omission (empty row tag name) cannot be used with attribute-centric FOR XML"
                    " serialization.",
                )
            quoted_text = f"replace({text}, '\"', '&quot;')"
            attributes.append(f"{literal(f' {name[1:]}=')} || '\"' || {quoted_text} || '\"'")
        elif name.lower() in ("", "text()", "data()", "*", "node()"):
            parts.append(text)
        elif "/" in name:
            raise SqlError(40517, "A path in a column's name of FOR XML is not supported by fakemssql.")
        else:
            parts.append(f"{literal(f'<{name}>')} || {text} || {literal(f'</{name}>')}")
    inner = f"concat({', '.join(parts)})" if parts else "''"
    if not row:
        return inner
    head = f"concat({', '.join([literal('<' + row), *attributes])})"
    return f"({head} || CASE WHEN {inner} = '' THEN '/>' ELSE '>' || {inner} || {literal(f'</{row}>')} END)"


@define("XML.VALUE", 1)
def _xml_value(c: Expressions, a: list[Typed]) -> Typed:
    """The text of an XML fragment, as ``.value('.', ...)`` has it."""
    if a[0].type is not None and a[0].type.name != "xml" and not is_text(a[0].type):
        raise SqlError(258, f"Cannot call methods on {a[0].type.name}.", severity=15)
    text = f"regexp_replace({a[0].sql}, '<[^>]*>', '', 'g')"
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x0D;", "\r"), ("&amp;", "&")):
        text = f"replace({text}, {literal(entity)}, {literal(character)})"
    return Typed(text, NMAX)
