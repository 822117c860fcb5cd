"""Reading of a table's layout from the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from airflow_sqlqueue.errors import QueueNotFoundError
from airflow_sqlqueue.messages.address import as_sql_name
from airflow_sqlqueue.messages.routing import DEFAULT_SCHEMA, AddressResolver, ResolvedAddress, SameName
from airflow_sqlqueue.queue.tables.layout import CREATE_COMMANDS, NAMES, Index, Layout, TableColumn, Trigger
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query, identifier, query

_OBJECT_TYPES = {"U": "table", "SN": "synonym", "V": "view"}
_NOUNS = {"queue": "queue", "delayed": "table of delayed messages", "subscription": "subscription table"}
_triggered: set[tuple[str, ResolvedAddress]] = set()
"""Tables with triggers that this login may not see, known from the server's refusal (error 334)."""


def exists(session: Session, table: ResolvedAddress) -> bool:
    """Return whether the database has an object of that name that the login may see."""
    return session.value(query("inspect.object_id"), table.qualified_name) is not None


def identify(session: Session, table: ResolvedAddress, *, through_synonym: bool = True) -> ResolvedAddress:
    """Return the identity of the table at an address: its names as the server's catalog spells them.

    Two addresses name one table if their identities are equal; only the server knows its collation. The identity of a
    synonym is its base table's; SQL Server follows no second synonym, and two may lead to each other. An address at
    which the login sees no object is returned as it is.
    """
    # OBJECT_ID has no errors, which would end a transaction: the database may be missing, or closed to the login.
    if table.catalog != session.settings.database and not exists(session, table):
        return table
    rows = session.run(_on("inspect.object", table), table.catalog, table.catalog, table.qualified_name)
    if not rows:
        return table
    found, behind = _names(table, rows[0])
    return found if behind is None or not through_synonym else identify(session, behind, through_synonym=False)


def is_allowed(session: Session, resolver: AddressResolver, table: ResolvedAddress) -> bool:
    """Return whether :meth:`.AddressResolver.allows` a table, given by its identity; the server compares the names."""

    def same(statement: Query) -> SameName:
        return lambda name, setting: name == setting or session.value(statement, setting) == name

    return resolver.allows(table, same(query("inspect.database")), same(_on("create.schema", table)))


def read_layout(
    session: Session, table: ResolvedAddress, wanted: str = "queue", *, advice: str | None = None
) -> Layout:
    """Read the layout of the table at an address, or of the base table of a synonym; it may be of another kind.

    Raises :class:`QueueNotFoundError`, with a text for the kind ``wanted`` and with ``advice``, instead of to create
    it.
    """
    advice = advice or f"create it with {CREATE_COMMANDS[wanted]}, or check the address"
    layout = _read(session, table, f"The {_NOUNS[wanted]}", advice)
    if (session.settings.server, table) in _triggered:
        return replace(layout, output_into=True)
    return layout


def remember_trigger(session: Session, table: ResolvedAddress) -> None:
    """Note for this process that the table has a trigger on DELETE that the login may not see."""
    _triggered.add((session.settings.server, table))


def _read(session: Session, table: ResolvedAddress, what: str, advice: str, through: str = "table") -> Layout:
    row, *rest = _parts(session, table, what, advice)
    kind, *_, in_memory, temporal, captured, escalation, columnstore, snapshot = row
    found, behind = _names(table, row)
    if kind == "SN" and through == "table":
        if behind is None:
            raise QueueNotFoundError(f"The synonym {table.canonical} leads to another server: connect to that one.")
        return _read(session, behind, what, advice, "synonym")
    return layout_of(
        found,
        through if kind == "U" else _OBJECT_TYPES.get(kind, "other"),
        (in_memory, temporal, captured, escalation, columnstore),
        snapshot,
        *rest,
    )


def _names(table: ResolvedAddress, row: Sequence[Any]) -> tuple[ResolvedAddress, ResolvedAddress | None]:
    """Return an object's address by the catalog, and for a synonym the address behind it on this server."""
    server, base_catalog, base_schema, base, catalog, schema, name = row[1:8]
    found = ResolvedAddress(name, schema, catalog or table.catalog)
    if server or not base:
        return found, None
    return found, ResolvedAddress(base, base_schema or DEFAULT_SCHEMA, base_catalog or found.catalog)


_SYSTEM_VERSIONED = 2
"""temporal_type of a table with a history table; the history table itself has 1."""


def layout_of(
    table: ResolvedAddress,
    object_type: str,
    properties: Sequence[Any],
    snapshot: object,
    columns: Iterable[Sequence[Any]],
    indexes: Iterable[Sequence[Any]],
    triggers: Iterable[Sequence[Any]],
) -> Layout:
    """Return a layout from the rows of the queries ``inspect.columns``, ``inspect.indexes`` and ``inspect.triggers``.

    ``properties`` are is_memory_optimized, temporal_type, is_tracked_by_cdc and lock_escalation_desc of ``sys.tables``,
    and whether there is a clustered columnstore index; ``snapshot`` is is_read_committed_snapshot_on of the database.
    """
    in_memory, temporal, captured, escalation, columnstore = properties
    fired = _triggers(triggers)
    return Layout(
        table=table,
        object_type=object_type,
        columns=_columns(columns),
        indexes=_indexes(indexes),
        triggers=fired,
        read_committed_snapshot=bool(snapshot),
        memory_optimized=bool(in_memory),
        columnstore=bool(columnstore),
        system_versioned=temporal == _SYSTEM_VERSIONED,
        change_data_capture=bool(captured),
        lock_escalation=escalation or "",
        output_into=any(trigger.event == "DELETE" and not trigger.disabled for trigger in fired),
    )


_PARTS = ("inspect.object", "inspect.columns", "inspect.indexes", "inspect.triggers")


def _parts(session: Session, table: ResolvedAddress, what: str, advice: str) -> list[Any]:
    """Return the row of the table's object, and the rows of its columns, indexes and triggers, in one round trip."""
    names = (table.catalog, table.catalog, *[table.qualified_name] * len(_PARTS))
    parts = [_on(name, table) for name in _PARTS]
    statement = replace(parts[0], text="\n".join(part.text for part in parts))
    try:
        rows, *rest = session.results(statement, *names)
    except QueueNotFoundError as error:
        # The error has ended an open transaction, in which nothing more can be asked.
        if session.in_transaction:
            raise _no_database(table) from error
        rows = []
    if rows:
        return [rows[0], *rest]
    if session.value(query("inspect.database"), table.catalog) is None:
        raise _no_database(table)
    if (other := table_in_sql(session, table)) is not None:
        raise QueueNotFoundError(
            f"{what} {table.canonical} does not exist: an address has no dots between its parts; write "
            f"{other.canonical} for the table that SQL calls {table.table}."
        )
    if '."' in table.table:
        advice = "the address is one of the PostgreSQL transport, which has no tables in SQL Server"
    raise QueueNotFoundError(
        f"{what} {table.canonical} does not exist, or the login has no permission on it: {advice}."
    )


def _no_database(table: ResolvedAddress) -> QueueNotFoundError:
    return QueueNotFoundError(
        f"The database {table.catalog!r} of the queue {table.canonical} does not exist: check the address."
    )


def table_in_sql(session: Session, table: ResolvedAddress) -> ResolvedAddress | None:
    """Return the table that SQL calls ``dbo.MyTable``, for an address with that text; None if it does not exist."""
    address = as_sql_name(table.table)
    if address is None:
        return None
    other = ResolvedAddress(address.table, address.schema or table.schema, address.catalog or table.catalog)
    return other if exists(session, other) else None


def _columns(rows: Iterable[Sequence[Any]]) -> dict[str, TableColumn]:
    return {
        NAMES.get(name.lower(), name): TableColumn(
            type_name, length, bool(nullable), bool(identity), bool(computed), bool(default), encryption is not None
        )
        for name, type_name, length, nullable, identity, computed, default, encryption in rows
    }


def _indexes(rows: Iterable[Sequence[Any]]) -> tuple[Index, ...]:
    return tuple(
        Index(name, NAMES.get(column.lower(), column), type_name == "CLUSTERED", bool(disabled), predicate)
        for name, column, type_name, disabled, predicate in rows
    )


def _triggers(rows: Iterable[Sequence[Any]]) -> tuple[Trigger, ...]:
    return tuple(Trigger(name, event, bool(disabled), bool(instead_of)) for name, event, disabled, instead_of in rows)


def _on(name: str, table: ResolvedAddress) -> Query:
    return query(name, catalog=identifier(table.catalog))
