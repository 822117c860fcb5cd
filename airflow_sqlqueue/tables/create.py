"""Creating the transport's tables, each once, however many ask for it at the same moment, and dropping queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from airflow_sqlqueue.errors import (
    LockTimeoutError,
    NotAQueueError,
    QueueNotEmptyError,
    QueueNotFoundError,
    StatementError,
)
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress, endpoint_table
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, Query, identifier, literal, query
from airflow_sqlqueue.sql.columns import DELAYED, SUBSCRIPTION, definitions
from airflow_sqlqueue.tables.layout import Layout, column_differences
from airflow_sqlqueue.tables.reading import exists, read_layout
from airflow_sqlqueue.tables.shapes import Shape, shape_of

LEDGER_SCHEMA = "sqlqueue"
"""The schema of the drain's ledger, unless another is set."""

DELAYED_QUALIFIER = "Delayed"
SUBSCRIPTION_TABLE = "SubscriptionRouting"

LOCK_TIMEOUT = 60.0
"""Seconds to wait for others who create the same table."""

_MADE_MEANWHILE = {1913, 2714}
"""The table or its index exists: it was made without the lock, or with a lock in another database."""


@dataclass(frozen=True)
class Definition:
    """A table to make: its kind, the statements, and the columns and indexes to compare an existing one with.

    ``with_schema`` says that its schema is ours and is made with it.
    """

    table: ResolvedAddress
    kind: str
    statements: tuple[Query, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    shape: Shape | None = None
    with_schema: bool = False

    def differences(self, layout: Layout) -> list[str]:
        """How an existing table of this kind differs. Raises :class:`NotAQueueError` for one of another kind."""
        if self.kind == "ledger":
            return []
        layout.require(self.kind)
        if self.shape is not None:
            return layout.differences(self.shape)
        found = column_differences(layout.columns, self.columns)
        if self.kind == "delayed" and layout.index_on("Due") is None:
            found.append("the index on Due is none, not nonclustered")
        return found


@dataclass(frozen=True)
class CreateResult:
    """What became of a request: ``made`` by this call, or there already, with ``differences`` from what was asked."""

    table: ResolvedAddress
    made: bool
    differences: tuple[str, ...] = ()


_ROW_VERSION_INDEXES = {
    "nonclustered": "create.row_version_nonclustered",
    "clustered": "create.row_version_clustered",
}
_EXPIRES_INDEXES = {"plain": "create.expires_plain", "filtered": "create.expires_filtered"}


def queue_definition(
    table: ResolvedAddress, *, layout: str = "modern", legacy_columns: bool = True, body_string: bool = False
) -> Definition:
    """A queue table in one of the layouts of :data:`~airflow_sqlqueue.tables.shapes.SHAPES`.

    ``legacy_columns`` False leaves out CorrelationId, ReplyToAddress and Recoverable, which endpoints of version 7 and
    later do without (unless they move delayed messages: their mover still writes these columns). ``body_string`` adds a
    computed column that shows the body as text. Raises :class:`ConfigurationError`.
    """
    shape = shape_of(layout, legacy_columns=legacy_columns, body_string=body_string)
    statements = [_statement("create.table", table, columns=definitions(shape.columns))]
    indexes = (_ROW_VERSION_INDEXES[shape.row_version_index], _EXPIRES_INDEXES.get(shape.expires_index))
    statements += [_statement(name, table, options=Fragment("")) for name in indexes if name is not None]
    return Definition(table, "queue", tuple(statements), shape.columns, shape)


def delayed_definition(table: ResolvedAddress) -> Definition:
    """A table of delayed messages, as versions 3.1 and later make it beside an endpoint's queue."""
    make = _statement("create.table", table, columns=definitions(DELAYED))
    return Definition(table, "delayed", (make, _statement("create.due", table, options=Fragment(""))), DELAYED)


def subscription_definition(table: ResolvedAddress) -> Definition:
    """A subscription table, as versions 5 and later make it, one for all endpoints."""
    return Definition(
        table,
        "subscription",
        (_statement("create.subscription", table, columns=definitions(SUBSCRIPTION)),),
        SUBSCRIPTION,
    )


def definitions_for(
    resolver: AddressResolver,
    queue_name: str,
    *,
    layout: str = "modern",
    legacy_columns: bool = True,
    body_string: bool = False,
    delayed: bool = False,
    subscriptions: bool = False,
) -> list[Definition]:
    """A queue table, and on request what an endpoint has beside it.

    The table of delayed messages is named after the queue, ``Sales.Delayed``, and routed by that name; the subscription
    table, ``SubscriptionRouting``, stands in the default schema. Arguments as for :func:`queue_definition`.
    """
    table = resolver.resolve(queue_name)
    found = [queue_definition(table, layout=layout, legacy_columns=legacy_columns, body_string=body_string)]
    if delayed:
        found.append(delayed_definition(delayed_address(resolver, queue_name)))
    if subscriptions:
        found.append(subscription_definition(resolver.resolve(SUBSCRIPTION_TABLE)))
    return found


def delayed_address(
    resolver: AddressResolver, queue_name: str, queue: ResolvedAddress | None = None
) -> ResolvedAddress:
    """Where a queue's table of delayed messages stands: named after it, ``Sales.Delayed``, and routed by that name.

    ``queue`` is what ``queue_name`` was found to mean, which decides for an address of versions 1 and 2.
    """
    address = resolver.parse(queue_name)
    if queue is not None and queue != resolver.resolve(address):
        address = resolver.without_machine(queue_name) or address
    return resolver.resolve(replace(address, table=endpoint_table(address.table, DELAYED_QUALIFIER)))


def create(session: Session, definition: Definition, *, create_schema: bool = False) -> CreateResult:
    """Create a table if it is missing; an existing one is left as it is and compared.

    Raises :class:`NotAQueueError` where a table of another kind stands there, :class:`QueueNotFoundError` where the
    schema or the database is missing (``create_schema`` makes a missing schema), and :class:`PermissionDeniedError`.
    """
    try:
        made = _create_missing(session, definition, create_schema)
    except StatementError as error:
        if error.number not in _MADE_MEANWHILE:
            raise
        made = _create_missing(session, definition, create_schema)
    found = () if made else tuple(definition.differences(read_layout(session, definition.table)))
    return CreateResult(definition.table, made, found)


def create_all(
    session: Session, definitions: Sequence[Definition], *, create_schema: bool = False
) -> list[CreateResult]:
    """:func:`create` for several tables. Nothing is made where a schema or the place of one of them is not fit for it.

    Each table is made in a transaction of its own: another error can leave some of them made.
    """
    # The first one's place is looked at when it is made, before anything else is.
    for definition in definitions[1:]:
        _check_place(session, definition, create_schema)
    return [create(session, definition, create_schema=create_schema) for definition in definitions]


def _check_place(session: Session, definition: Definition, create_schema: bool) -> None:
    """Raise what :func:`create` raises for what stands, or is missing, where the table is to be."""
    table = definition.table
    _require_database(session, table)
    if not (create_schema or definition.with_schema or _has_schema(session, table)):
        raise _no_schema(table)
    if exists(session, table):
        definition.differences(read_layout(session, table))


def ensure(session: Session, definition: Definition) -> None:
    """Create a table of this package's own where it is missing, which a login that may not has to find there."""
    if not exists(session, definition.table):
        create(session, definition)


def _create_missing(session: Session, definition: Definition, create_schema: bool) -> bool:
    with create_lock(session, definition.table, create_schema=create_schema or definition.with_schema):
        if exists(session, definition.table):
            return False
        for statement in definition.statements:
            session.run(statement)
    return True


def create_queue(
    session: Session,
    table: ResolvedAddress,
    *,
    layout: str = "modern",
    legacy_columns: bool = True,
    body_string: bool = False,
    create_schema: bool = False,
) -> CreateResult:
    """Create a queue table if it is missing: :func:`queue_definition` and :func:`create` in one."""
    definition = queue_definition(table, layout=layout, legacy_columns=legacy_columns, body_string=body_string)
    return create(session, definition, create_schema=create_schema)


def drop_queue(session: Session, table: ResolvedAddress, *, force: bool = False) -> int:
    """Drop a queue, or a table of delayed messages, and return how many messages went with it.

    Raises :class:`QueueNotFoundError` where there is none, :class:`NotAQueueError` for another table, synonym or view,
    and :class:`QueueNotEmptyError` where it holds messages, those that others have locked included, unless ``force`` is
    set. The table is locked before it is counted, so no message comes in between; :class:`LockTimeoutError` where a
    transaction keeps one locked for too long.
    """
    layout = read_layout(session, table, advice="there is nothing to drop, check the address")
    layout.require("queue", "delayed")
    if layout.object_type != "table":
        raise NotAQueueError(f"{table.canonical} is a {layout.object_type}: drop the table {layout.table.canonical}.")
    with session.transaction():
        holds_messages = session.value(_named("create.lock_whole", table)) is not None
        if holds_messages and not force:
            raise QueueNotEmptyError(
                f"The queue {table.canonical} holds messages: drain or purge it first, or force the drop and lose them."
            )
        count = int(session.value(_named("create.count_whole", table))) if holds_messages else 0
        session.run(_named("create.drop", table))
    return count


def script(definitions: Iterable[Definition], *, create_schema: bool = False) -> str:
    """The same as a script for an administrator, safe to run twice; batches end with GO. Nothing is run."""
    batches = [query("create.script_settings").text]
    for definition in definitions:
        table = definition.table
        if create_schema or definition.with_schema:
            make = query("create.make_schema", schema=identifier(table.schema))
            schema, statement = literal(table.schema), literal(make.text)
            catalog = identifier(table.catalog)
            batches.append(query("create.script_schema", catalog=catalog, schema=schema, statement=statement).text)
        statements = "\n".join(statement.text for statement in definition.statements)
        batches.append(f"IF OBJECT_ID({literal(table.qualified_name)}) IS NULL\nBEGIN\n{statements}\nEND;")
    return "\nGO\n\n".join(dict.fromkeys(batches)) + "\nGO\n"


@contextmanager
def create_lock(session: Session, table: ResolvedAddress, *, create_schema: bool = False) -> Iterator[None]:
    """A transaction that holds the application lock for creating ``table`` and has made sure that its schema exists.

    Endpoints take the same lock when they start (docs/transport/queue-tables.md, "Creating tables"). Raises
    :class:`QueueNotFoundError` where the database or the schema is missing, and :class:`LockTimeoutError` where another
    session holds the lock for too long.
    """
    _require_database(session, table)
    catalog = identifier(table.catalog)
    with session.transaction():
        resource = f"{table.qualified_name}_lock"[:255]
        if session.value(query("create.lock", catalog=catalog), resource, int(LOCK_TIMEOUT * 1000)) < 0:
            raise LockTimeoutError(
                f"Could not create {table.canonical}: another process has held its application lock for "
                f"{LOCK_TIMEOUT:g} seconds; try again later."
            )
        if not _has_schema(session, table):
            if not create_schema:
                raise _no_schema(table)
            make = query("create.make_schema", schema=identifier(table.schema))
            session.run(query("create.run_there", catalog=catalog), make.text)
        yield


def _require_database(session: Session, table: ResolvedAddress) -> None:
    if session.value(query("inspect.database"), table.catalog) is None:
        raise QueueNotFoundError(f"The database {table.catalog!r} does not exist: check the address.")


def _has_schema(session: Session, table: ResolvedAddress) -> bool:
    return bool(session.value(query("create.schema", catalog=identifier(table.catalog)), table.schema))


def _no_schema(table: ResolvedAddress) -> QueueNotFoundError:
    return QueueNotFoundError(
        f"The schema {table.schema!r} does not exist in the database {table.catalog!r}: "
        "create it, or ask for it with create_schema."
    )


def _statement(name: str, table: ResolvedAddress, **fragments: Fragment) -> Query:
    found = query(name, table=identifier(table), **fragments)
    return Query(found.name, f"{found.purpose} of {table.canonical}", found.text)


def _named(name: str, table: ResolvedAddress) -> Query:
    return query(name, table=identifier(table)).naming("the table", table)
