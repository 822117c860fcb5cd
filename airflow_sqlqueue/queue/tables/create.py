"""Creation of the transport's tables, each once even for concurrent callers, and dropping of queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from airflow_sqlqueue import errors
from airflow_sqlqueue.messages.address import QueueAddress, has_valid_length
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress, endpoint_table
from airflow_sqlqueue.queue.tables.layout import Layout, Shape, column_differences, shape_of
from airflow_sqlqueue.queue.tables.reading import exists, read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, literal, query
from airflow_sqlqueue.server.sql.columns import DELAYED, SUBSCRIPTION, definitions

LOCK_TIMEOUT = 60.0
"""Seconds to wait for others that create the same table."""

_MADE_MEANWHILE = {1913, 2714}
"""Errors for a table or an index that exists: another session made it without the lock, or with a lock in another
database."""


@dataclass(frozen=True)
class Definition:
    """Definition of a table: its kind, the CREATE statements, and the columns and indexes to compare a table with.

    ``with_schema``: the schema is this package's own, and is created too.
    """

    table: ResolvedAddress
    kind: str
    statements: tuple[Query, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    shape: Shape | None = None
    with_schema: bool = False

    @property
    def additions(self) -> Query:
        """Statements that add, one by one, the columns which a table of this package lacks; empty for other tables.

        An older version made the table. Its rows get NULL or the default, so a column without either is not added.
        """
        columns = self.columns if self.kind == "ledger" else {}
        found = [
            query(
                "create.add_column",
                own_table=literal(self.table.qualified_name),
                table=identifier(self.table),
                column=literal(name),
                definition=Fragment(f"{identifier(name)} {kind}"),
            )
            for name, kind in columns.items()
            if "NOT NULL" not in kind or "DEFAULT" in kind
        ]
        text = "\n".join(each.text for each in found)
        return Query("create.add_column", f"add columns to {self.table.canonical}", text, ours=True)

    def differences(self, layout: Layout) -> list[str]:
        """Return the differences of an existing table. Raises :class:`NotAQueueError` for a table of another kind."""
        if self.kind == "ledger":
            return [f"the column {name} is missing" for name in self.columns if name not in layout.columns]
        layout.require(self.kind)
        if self.shape is not None:
            return layout.differences(self.shape)
        found = column_differences(layout.columns, self.columns)
        if self.kind == "delayed" and layout.index_on("Due") is None:
            found.append("the index on Due is missing")
        return found


@dataclass(frozen=True)
class CreateResult:
    """Result of creating a table: ``made`` by this call, or else how the existing one differs (``differences``)."""

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
    """Return the definition of a queue table in a layout of :data:`~airflow_sqlqueue.queue.tables.layout.SHAPES`.

    ``legacy_columns`` False leaves out CorrelationId, ReplyToAddress and Recoverable, which endpoints of version 7 and
    later do not need (unless they move delayed messages: their mover still writes these columns). ``body_string`` adds
    a computed column that shows the body as text.
    """
    shape = shape_of(layout, legacy_columns=legacy_columns, body_string=body_string)
    statements = [_statement("create.table", table, columns=definitions(shape.columns))]
    indexes = (_ROW_VERSION_INDEXES[shape.row_version_index], _EXPIRES_INDEXES.get(shape.expires_index))
    statements += [_statement(name, table, options=Fragment("")) for name in indexes if name is not None]
    return Definition(table, "queue", tuple(statements), shape.columns, shape)


def delayed_definition(table: ResolvedAddress) -> Definition:
    """Return the definition of a table of delayed messages, like those of versions 3.1 and later."""
    make = _statement("create.table", table, columns=definitions(DELAYED))
    return Definition(table, "delayed", (make, _statement("create.due", table, options=Fragment(""))), DELAYED)


def subscription_definition(table: ResolvedAddress) -> Definition:
    """Return the definition of the subscription table of all endpoints, like that of versions 5 and later."""
    make = _statement("create.subscription", table, columns=definitions(SUBSCRIPTION))
    return Definition(table, "subscription", (make,), SUBSCRIPTION)


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
    """Return the definitions of a queue table and, on request, of an endpoint's other tables.

    The table of delayed messages is named after the queue, ``Sales.Delayed``, and routed by that name. The subscription
    table is the resolver's ``subscription_table``. The other arguments are those of :func:`queue_definition`.
    """
    table = resolver.resolve(queue_name)
    found = [queue_definition(table, layout=layout, legacy_columns=legacy_columns, body_string=body_string)]
    if delayed:
        found.append(delayed_definition(resolver.resolve(_delayed(resolver.parse(queue_name), resolver))))
    if subscriptions:
        found.append(subscription_definition(resolver.resolve(resolver.subscription_table)))
    return found


def delayed_address(
    resolver: AddressResolver, queue_name: str, queue: ResolvedAddress | None = None
) -> ResolvedAddress | None:
    """Return the address of a queue's table of delayed messages, which is routed by its own name, ``Sales.Delayed``.

    ``queue`` is the table that was found for ``queue_name``; it decides about an address of versions 1 and 2. The
    result is None where the suffix makes the name too long for the server, so that there is no such table.
    """
    address = resolver.parse(queue_name)
    if queue is not None and queue != resolver.resolve(address):
        address = resolver.without_machine(queue_name) or address
    found = _delayed(address, resolver)
    return resolver.resolve(found) if has_valid_length(found.table) else None


def _delayed(queue: QueueAddress, resolver: AddressResolver) -> QueueAddress:
    return replace(queue, table=endpoint_table(queue.table, resolver.delayed_suffix))


def create(session: Session, definition: Definition, *, create_schema: bool = False) -> CreateResult:
    """Create a table if it is missing; compare an existing table with the definition and do not change it.

    Only a table of this package gets the columns that it lacks. Raises :class:`NotAQueueError` for a table of another
    kind, :class:`QueueNotFoundError` if the schema or the database is missing (``create_schema`` makes a missing
    schema), and :class:`PermissionDeniedError`.
    """
    try:
        made = _create_missing(session, definition, create_schema)
    except errors.StatementError as error:
        if error.number not in _MADE_MEANWHILE:
            raise
        made = _create_missing(session, definition, create_schema)
    found = () if made else tuple(definition.differences(read_layout(session, definition.table)))
    return CreateResult(definition.table, made, found)


def create_all(
    session: Session, definitions: Sequence[Definition], *, create_schema: bool = False
) -> list[CreateResult]:
    """Create several tables with :func:`create`, or none if a schema is missing or an address has an unfit table.

    Each table is made in a transaction of its own: after another error some of them may exist.
    """
    # The creation of the first table checks its address before anything else is made.
    for definition in definitions[1:]:
        _check_place(session, definition, create_schema)
    return [create(session, definition, create_schema=create_schema) for definition in definitions]


def _check_place(session: Session, definition: Definition, create_schema: bool) -> None:
    """Raise the errors of :func:`create` for the table's address: an unfit table, a missing schema or database."""
    table = definition.table
    require_database(session, table.catalog)
    if not (create_schema or definition.with_schema or _has_schema(session, table)):
        raise _no_schema(table)
    if exists(session, table):
        definition.differences(read_layout(session, table))


def ensure(session: Session, definition: Definition) -> None:
    """Create a table of this package if it is missing; a login without that permission needs an existing table."""
    if not exists(session, definition.table):
        create(session, definition)


def _create_missing(session: Session, definition: Definition, create_schema: bool) -> bool:
    with create_lock(session, definition.table, create_schema=create_schema or definition.with_schema):
        if exists(session, definition.table):
            if definition.additions.text:
                session.run(definition.additions)
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
    """Create a queue table if it is missing, by :func:`queue_definition` and :func:`create`."""
    definition = queue_definition(table, layout=layout, legacy_columns=legacy_columns, body_string=body_string)
    return create(session, definition, create_schema=create_schema)


def drop_queue(session: Session, table: ResolvedAddress, *, force: bool = False) -> int:
    """Drop a queue or a table of delayed messages, and return the number of messages in it.

    Raises :class:`QueueNotFoundError` for a missing table, :class:`NotAQueueError` for another table, a synonym or a
    view, and :class:`QueueNotEmptyError` for a table with messages, locked ones included, unless ``force`` is set. The
    table is locked before it is counted, so no message comes in between; :class:`LockTimeoutError` if a transaction
    keeps a row locked for too long.
    """
    layout = read_layout(session, table, advice="there is nothing to drop, check the address")
    layout.require("queue", "delayed")
    if layout.object_type != "table":
        raise errors.NotAQueueError(
            f"{table.canonical} is a {layout.object_type}: drop the table {layout.table.canonical}."
        )
    with session.transaction():
        holds_messages = session.value(_named("create.lock_whole", table)) is not None
        if holds_messages and not force:
            raise errors.QueueNotEmptyError(
                f"The queue {table.canonical} holds messages: drain or purge it first, or force the drop and lose them."
            )
        count = int(session.value(_named("create.count_whole", table))) if holds_messages else 0
        session.run(_named("create.drop", table))
    return count


def script(definitions: Iterable[Definition], *, create_schema: bool = False) -> str:
    """Return a script that creates the tables, for an administrator, safe to run twice. Batches end with GO."""
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
        if definition.additions.text:
            batches.append(definition.additions.text)
    return "\nGO\n\n".join(dict.fromkeys(batches)) + "\nGO\n"


@contextmanager
def create_lock(session: Session, table: ResolvedAddress, *, create_schema: bool = False) -> Iterator[None]:
    """Run the block in a transaction that holds the application lock for creating ``table``, whose schema exists.

    Endpoints take the same lock when they start (docs/transport/queue-tables.md, "Creating tables").
    """
    require_database(session, table.catalog)
    catalog = identifier(table.catalog)
    with session.transaction():
        resource = f"{table.qualified_name}_lock"[:255]
        lock = query("create.lock", catalog=catalog).naming("the table", table)
        session.check_lock(lock, session.value(lock, resource, int(LOCK_TIMEOUT * 1000)))
        if not _has_schema(session, table):
            if not create_schema:
                raise _no_schema(table)
            make = query("create.make_schema", schema=identifier(table.schema))
            session.run(query("create.run_there", catalog=catalog), make.text)
        yield


def require_database(session: Session, catalog: str) -> None:
    """Raise :class:`QueueNotFoundError` for a database that does not exist."""
    if session.value(query("inspect.database"), catalog) is None:
        raise errors.QueueNotFoundError(f"The database {catalog!r} does not exist: check the address.")


def _has_schema(session: Session, table: ResolvedAddress) -> bool:
    return bool(session.value(query("create.schema", catalog=identifier(table.catalog)), table.schema))


def _no_schema(table: ResolvedAddress) -> errors.QueueNotFoundError:
    return errors.QueueNotFoundError(
        f"The schema {table.schema!r} does not exist in the database {table.catalog!r}: "
        "create it, or ask for it with create_schema."
    )


def _statement(name: str, table: ResolvedAddress, **fragments: Fragment) -> Query:
    found = query(name, table=identifier(table), **fragments)
    return Query(found.name, f"{found.purpose} of {table.canonical}", found.text)


def _named(name: str, table: ResolvedAddress) -> Query:
    return query(name, table=identifier(table)).naming("the table", table)
