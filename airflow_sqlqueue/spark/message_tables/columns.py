"""Columns of a table, compared with the schema of its type before a batch is written.

Source: docs/guides/bodies.md, "Mend a table".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.names import PREFIX, Path, column_key, column_names, is_own_column, path_text
from airflow_sqlqueue.bodies.schemas import Struct, Type, decimal_of, fields_of, item_of, read_schema, struct
from airflow_sqlqueue.bodies.values import BITS
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from airflow_sqlqueue.spark.message_tables.lakes import Lake


def columns_of(schema: Struct) -> Struct:
    """The columns of a schema's fields."""
    names = column_names(schema, ())
    return struct({names[name]: kind for name, kind in fields_of(schema).items()})


def as_fields(columns: Struct, schema: Struct) -> Struct:
    """The fields of a table's columns, called as in the schema; columns of our own are left out."""
    names = field_names([each["name"] for each in columns["fields"]], schema)
    return struct({names[name]: kind for name, kind in fields_of(columns).items() if name in names})


def field_names(columns: list[str], schema: Struct) -> dict[str, str]:
    """The field of each column; one that the schema has no more is called by the name that leads to the column."""
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
    has: Type, wanted: Type, takes: Callable[[str, str], bool], path: Path = ()
) -> Iterator[tuple[str, str, str]]:
    """The fields whose type in a table is not that of the schema, with both types.

    :param takes: whether the format changes a column from one simple type to another.
    """
    if isinstance(has, str) and isinstance(wanted, str):
        if has != wanted and not takes(has, wanted):
            yield path_text(path), has, wanted
    elif isinstance(has, str) or isinstance(wanted, str) or has["type"] != wanted["type"]:
        yield path_text(path), _short(has), _short(wanted)
    elif has["type"] == "struct":
        known = {column_key(name): kind for name, kind in fields_of(has).items()}
        for name, kind in fields_of(wanted).items():
            if column_key(name) in known:
                yield from differences(known[column_key(name)], kind, takes, (*path, name))
    else:
        yield from differences(item_of(has) or "", item_of(wanted) or "", takes, (*path, None))


def _short(kind: Type) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def refusal(lake: Lake, message_type: str, schema: Struct) -> SqlQueueError | None:
    """Why the table of a type does not take rows of its schema; None if it does."""
    table, columns = lake.table(message_type), columns_of(schema)

    def different(has: Struct) -> list[tuple[str, str, str]]:
        return list(differences(as_fields(has, schema), schema, lambda old, new: lake.takes(table, old, new)))

    try:
        # What differs is not claimed.
        found = different(lake.columns(message_type) or columns) or different(lake.claim(message_type, columns))
    except SqlQueueError as error:
        return error
    except Exception:
        # The write of a table that Spark cannot read has the better error.
        return None
    if not found:
        return None
    (path, has, wanted), more = found[0], f" and {len(found) - 1} other columns differ" if len(found) > 1 else ""
    return ConfigurationError(
        f"The table {quoted(table)} has the column {quoted(path)} as {has}, the schema of {quoted(message_type)} "
        f"has it as {wanted}{more}: run `sqlqueue tables rewrite` for the type, or set the type back, and run this "
        "again. The messages of this type are not written, those of other types are."
    )


def is_wider(old: str, new: str) -> bool:
    """Whether Delta Lake, with type widening, and Iceberg widen a column in place: to a larger number of its kind."""
    small, large = decimal_of(old), decimal_of(new)
    if small and large:
        return small[1] == large[1] and large[0] > small[0]
    return (old, new) == ("float", "double") or BITS.get(old, 99) < BITS.get(new, 0)


def adopted(schema: Struct, known: Struct, table: Struct) -> Struct:
    """The schema, whose new fields have the types of the table's columns where it has them.

    A run that was killed, or that a person undid in the schema's file, may have made them.
    """
    before, has = fields_of(known), {column_key(name): kind for name, kind in fields_of(table).items()}
    types: dict[str, Type] = {}
    for name, kind in fields_of(schema).items():
        own, inner = before.get(name), has.get(column_key(name))
        if inner is not None and _is_struct(kind) and _is_struct(inner) and (own is None or _is_struct(own)):
            types[name] = adopted(kind, own or struct({}), inner)  # type: ignore[arg-type]
        else:
            types[name] = inner if own is None and inner is not None and _is_type(inner) else kind
    return struct(types, {each["name"]: each["metadata"] for each in schema["fields"]})


def _is_struct(kind: Type) -> bool:
    return isinstance(kind, dict) and kind["type"] == "struct"


def _is_type(kind: Type) -> bool:
    """Whether a schema can have the type: a table may have columns that others added."""
    try:
        read_schema(struct({"field": kind}))
    except ConfigurationError:
        return False
    return True
