"""Discovery of the transport's tables in a database, and of the table of an ambiguous address."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.tables.layout import NAMES, kind_of
from airflow_sqlqueue.queue.tables.reading import exists, identify
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import identifier, query
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

SATELLITES = frozenset({"retries", "timeouts", "timeoutsdispatcher"})
"""Last parts of the names of internal queues that versions up to 5 of NServiceBus made beside an endpoint's queue."""


@dataclass(frozen=True)
class FoundTable:
    """Table of the transport. ``kind`` is queue, delayed or subscription; ``rows`` is the catalog's row count."""

    table: ResolvedAddress
    kind: str
    rows: int


def list_tables(session: Session, catalog: str) -> list[FoundTable]:
    """Return the transport's tables in a database that the login may see, by schema and name."""
    types: dict[tuple[str, str], dict[str, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for schema, table, column, type_name, rows in session.run(query("inspect.tables", catalog=identifier(catalog))):
        types.setdefault((schema, table), {})[NAMES.get(column.lower(), column)] = type_name
        counts.setdefault((schema, table), int(rows or 0))
    found = []
    for (schema, table), columns in types.items():
        if (kind := kind_of(columns)) == "other":
            continue
        if "@" in table:
            log.warning("The table %s has no address, because its name contains an '@': it is left out", quoted(table))
        else:
            found.append(FoundTable(ResolvedAddress(table, schema, catalog), kind, counts[schema, table]))
    return found


def secondary_queues(tables: Iterable[FoundTable], primary: ResolvedAddress) -> list[ResolvedAddress]:
    """Return the queues of an endpoint's instances and machines, such as ``Sales.WEB01`` of ``Sales``.

    The names of these queues have one more part than the primary queue, in the same schema. Satellites are left out,
    and so are queues with queues of their own, which belong to endpoints with a longer name (``Sales.Api`` with
    ``Sales.Api.Delayed``). An endpoint with the same first part in its name cannot be distinguished from an instance.
    """
    tables = list(tables)
    names = {found.table.table for found in tables if found.table.schema == primary.schema}
    prefix = f"{primary.table}."
    return [
        found.table
        for found in tables
        if found.kind == "queue"
        and found.table.schema == primary.schema
        and found.table.table.startswith(prefix)
        and _is_instance(found.table.table.removeprefix(prefix))
        and not any(name.startswith(f"{found.table.table}.") for name in names)
    ]


def find_secondary_queues(session: Session, primary: ResolvedAddress) -> list[ResolvedAddress]:
    """Return the secondary queues of a queue that are in its database now, as :func:`secondary_queues`."""
    return secondary_queues(list_tables(session, primary.catalog), primary)


def _is_instance(part: str) -> bool:
    return bool(part) and "." not in part and part.lower() not in SATELLITES


def find_queue(
    session: Session, resolver: AddressResolver, address_text: str, machines: Collection[str] = ()
) -> ResolvedAddress:
    """Find the table of an address, by :func:`find_address`, and return its identity (:func:`.reading.identify`)."""
    return identify(session, find_address(session, resolver, address_text, machines))


def find_address(
    session: Session, resolver: AddressResolver, address_text: str, machines: Collection[str] = ()
) -> ResolvedAddress:
    """Resolve an address, as it is spelled, to its table on this server, without creating it.

    Only ``queue@NAME`` is ambiguous. It is an address of versions 1 or 2 and means the bare queue if NAME is one of
    ``machines`` (the originating and processing machines of the message with the address), or if the server has the
    bare queue and no schema NAME; the log has a warning then.
    """
    bare = queue_of_machine(session, resolver, address_text, machines)
    if bare is None:
        return resolver.resolve(address_text)
    names = (quoted(address_text), quoted(bare.canonical), quoted(address_text.partition("@")[2]))
    log.warning("Took %s for the queue %s: %s is a machine's name, not a schema's", *names)
    return bare


def queue_of_machine(
    session: Session, resolver: AddressResolver, address_text: str, machines: Collection[str] = ()
) -> ResolvedAddress | None:
    """Return the bare queue that an address ``queue@NAME`` of versions 1 or 2 means; None for any other address."""
    resolved = resolver.resolve(address_text)
    bare_address = resolver.without_machine(address_text)
    if bare_address is None:
        return None
    bare = resolver.resolve(bare_address)
    machine = address_text.partition("@")[2]
    if machine not in machines:
        schemas = query("create.schema", catalog=identifier(resolved.catalog))
        if bare == resolved or session.value(schemas, machine) or not exists(session, bare):
            return None
    return bare
