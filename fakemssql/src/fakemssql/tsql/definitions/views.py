# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Views and synonyms."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.metadata import add_columns, add_object
from fakemssql.tsql.names import bracketed, literal
from fakemssql.tsql.parser import nodes

_OF_READER = {"@@user", "@@user_id", "@@login", "@@login_id", "@@original_login"}
"""Values of the user that a view may use, because it is compiled for each user."""


def create_synonym(d: Definer, node: nodes.CreateSynonym) -> None:
    place = d.place(node.name)
    d.check_new(place)
    text = ".".join(bracketed(part) if part else "" for part in node.target)
    add_object(d, place, "SN", definition=text, extra={"target": list(node.target)})


def create_view(d: Definer, node: nodes.CreateView) -> None:
    place = d.place(node.name)
    found, known = d.catalog.find(node.name, d.session.database), ""
    if found is not None and found.type == "V" and node.mode != "create":
        known = str(found.object_id)
    elif node.mode == "alter":
        raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.", state=6)
    else:
        d.check_new(place)
    for source in walk(node.query):
        if isinstance(source, nodes.TableSource) and source.name[-1].startswith("#"):
            raise SqlError(
                4508,
                "Views or functions are not allowed on temporary tables. Table names that begin with '#' denote"
                " temporary tables.",
            )
    compiler = compilation(d.environment())
    with d.session.security.module(place.database, 0, place.schema):
        compiled = compiler.query(node.query, None)
    names = node.columns or [column.name for column in compiled.columns]
    if set(compiler.parameters) - _OF_READER:
        raise SqlError(40517, "A view that depends on the session is not supported by fakemssql.")
    if len(names) != len(compiled.columns):
        number, more = (8158, "more") if len(compiled.columns) > len(names) else (8159, "fewer")
        raise SqlError(number, f"'{place.name}' has {more} columns than were specified in the column list.")
    infos = []
    for number, (name, value) in enumerate(zip(names, compiled.columns, strict=True), 1):
        if not name:
            raise SqlError(
                4511, f"Create View or Function failed because no column name was specified for column {number}."
            )
        assert value.type is not None
        info = ColumnInfo(name, f"c{number}", value.type, value.nullable, column_id=number)
        infos.append((info, nodes.ColumnDefinition(name, value.type)))
    text = node.text if node.mode != "alter" else node.text.replace("ALTER", "CREATE", 1)
    object_id = known or add_object(d, place, "V", definition=text)
    if known:
        # The view keeps its id and permissions.
        d.run(f"DELETE FROM mssql.columns WHERE object_id = {known}")
        d.run(
            f"UPDATE mssql.objects SET definition = {literal(text)}, modified = mssql.utcnow_dt()"
            f" WHERE object_id = {known}"
        )
    add_columns(d, object_id, infos)
