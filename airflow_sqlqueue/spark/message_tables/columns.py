"""Columns of a table, compared with the schema of its type before a batch is written.

Source: docs/guides/bodies.md, "Mend a table".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.extension import EMPTY
from airflow_sqlqueue.bodies.names import PREFIX, Path, column_key, column_names, is_own_column, path_text
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, item_of, struct, with_item
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from airflow_sqlqueue.spark.message_tables.table_formats import TableFormat


def as_fields(columns: Struct, schema: Struct) -> Struct:
    """Return the fields of a table's columns, called as in the schema; columns of our own are left out."""
    names = field_names([each["name"] for each in columns["fields"]], schema)
    return struct({names[name]: kind for name, kind in fields_of(columns).items() if name in names})


def field_names(columns: list[str], schema: Struct) -> dict[str, str]:
    """Return the field of each column; one that the schema has not any more is called by what leads to the column."""
    known = {column_key(column): name for name, column in column_names(schema, ()).items()}
    found: dict[str, str] = {}
    for column in columns:
        if not is_own_column(column):
            plain = column.removeprefix(PREFIX)
            leads_to = column_names(struct({plain: "string"}), ())[plain] if plain else ""
            name = known.get(column_key(column), plain if leads_to == column else column)
            found[column] = column if name in found.values() else name
    return found


def differences(
    has: Type, wanted: Type, same: Collection[tuple[str, str]] = (), path: Path = (), *, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """Yield the fields whose type in a table is not that of the schema, with both types; ``same`` ones are equal.

    With ``exact`` it yields those as well whose name has another case there, with both names.
    """
    one, other = (kind if isinstance(kind, str) else str(kind["type"]) for kind in (has, wanted))
    if one != other and (one, other) not in same:
        yield path_text(path), one, other
    elif isinstance(has, str) or isinstance(wanted, str):
        return
    elif one == "struct":
        known = {column_key(name): (name, kind) for name, kind in fields_of(has).items()}
        for name, kind in fields_of(wanted).items():
            if column_key(name) in known:
                old, old_kind = known[column_key(name)]
                if exact and old != name:
                    yield path_text((*path, name)), old, name
                yield from differences(old_kind, kind, same, (*path, name), exact=exact)
    else:
        yield from differences(item_of(has) or "", item_of(wanted) or "", same, (*path, None), exact=exact)


def refusal(lake: TableFormat, message_type: str, schema: Struct) -> tuple[SqlQueueError | None, Struct]:
    """Why the table of a type does not take rows of its schema, None if it does; and the fields that the table has."""
    try:
        columns = lake.columns(lake.table(message_type))
    except SqlQueueError as error:
        return error, EMPTY
    except Exception:
        # The write of a table that Spark cannot read has the better error.
        return None, EMPTY
    has_fields = as_fields(columns or EMPTY, schema)
    found = list(differences(has_fields, schema, lake.same_types, exact=lake.has_exact_names))
    if not found:
        return None, has_fields
    (path, has, wanted), more = found[0], f" and {len(found) - 1} other columns differ" if len(found) > 1 else ""
    differs = ConfigurationError(
        f"The table {quoted(lake.table(message_type))} has the column {quoted(path)} as {has}, the schema of "
        f"{quoted(message_type)} has it as {wanted}{more}: run `sqlqueue tables rewrite` for the type, or set it "
        "back, and run this again. The messages of this type are not written, those of other types are."
    )
    return differs, has_fields


def with_former(schema: Struct, table: Struct) -> Struct:
    """Return the schema with the fields of a table that it has no more, which stay null: none gets a second type."""
    own, has = (
        {column_key(name) for name in fields_of(schema)},
        {column_key(each["name"]): each for each in table["fields"]},
    )
    fields = [
        {**each, "type": _with_former(each["type"], has.get(column_key(each["name"]), each)["type"])}
        for each in schema["fields"]
    ]
    return {"type": "struct", "fields": [*fields, *(each for key, each in has.items() if key not in own)]}


def _with_former(kind: Type, old: Type) -> Type:
    if isinstance(kind, str) or isinstance(old, str) or kind["type"] != old["type"]:
        return kind
    item, old_item = item_of(kind), item_of(old)
    if item is None or old_item is None:
        return with_former(kind, old)
    return with_item(kind, _with_former(item, old_item))


def adopted(schema: Struct, known: Struct, table: Struct, *, within: bool = False) -> Struct:
    """Return the schema, whose new fields have the types of the table's columns where it has them.

    A run that was killed, or that a person undid in the schema's file, may have made them. Those within a column have
    its names as well.
    """
    before, has = fields_of(known), {column_key(name): (name, kind) for name, kind in fields_of(table).items()}
    types: dict[str, Type] = {}
    for name, kind in fields_of(schema).items():
        own, (old, inner) = before.get(name), has.get(column_key(name), (name, kind))
        if all(isinstance(each, dict) and each["type"] == "struct" for each in (kind, inner, own or EMPTY)):
            kind = adopted(kind, own or EMPTY, inner, within=True)  # type: ignore[arg-type]
        elif own is None:
            kind = inner
        types[old if within and own is None else name] = kind
    return struct(types, {each["name"]: each["metadata"] for each in schema["fields"]})
