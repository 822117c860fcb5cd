"""Resolution of addresses and endpoint names to tables, by the routing settings of the transport.

Schema and catalog are resolved independently. The first of these counts: queue setting, endpoint setting (logical
routing only), address, default, and last ``dbo`` or the connection's database (docs/transport/addresses.md,
"Resolution").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from operator import eq

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.messages.address import (
    LEGACY_VERSIONS,
    QueueAddress,
    check_identifier,
    quote,
    text_of,
    unquote,
    without_machine,
)
from airflow_sqlqueue.untrusted import quoted

DEFAULT_SCHEMA = "dbo"
SameName = Callable[[str, str], bool]
"""Comparison of a name in the server's catalog with a setting."""

DELAYED_SUFFIX = "Delayed"
"""Suffix of a table of delayed messages, the transport's default."""

SUBSCRIPTION_TABLE = "SubscriptionRouting"
"""Name of the subscription table, the transport's default."""


@dataclass(frozen=True)
class ResolvedAddress:
    """Resolved address of a table, with its schema and its catalog."""

    table: str
    schema: str
    catalog: str

    def __post_init__(self) -> None:
        for name in (self.table, self.schema, self.catalog):
            check_identifier(name)
        if "@" in self.table:
            raise AddressError(
                f"The queue {quoted(self.table)} has an '@' in its name, so it has no address: rename it."
            )
        if self.table.startswith("#"):
            raise AddressError(
                f"The queue {quoted(self.table)} begins with '#', which SQL Server takes for a temporary table: "
                "rename it."
            )

    @property
    def qualified_name(self) -> str:
        """The name in statements, safely quoted: ``[catalog].[schema].[table]``."""
        return f"{quote(self.catalog)}.{quote(self.schema)}.{quote(self.table)}"

    @property
    def canonical(self) -> str:
        """The full address, as in ``NServiceBus.ReplyToAddress``: ``table@[schema]@[catalog]``."""
        return str(QueueAddress(self.table, self.schema, self.catalog))

    def __str__(self) -> str:
        return self.canonical


def endpoint_table(name: str, qualifier: str | None = None, discriminator: str | None = None) -> str:
    """Return the table of a logical endpoint: its non-empty parts joined with dots, ``Sales.Delayed.instance-1``."""
    if not text_of("endpoint name", name).strip():
        raise AddressError("The endpoint name is blank: give one.")
    return ".".join(part for part in (name, qualifier, discriminator) if part)


def check_named_once(queue_name: object, endpoint: str | None, parameters: str = "queue_name or endpoint") -> None:
    """Raise :class:`AddressError` unless exactly one of a queue's address and endpoint is given.

    ``parameters`` names the caller's parameters in the error.
    """
    if (queue_name is None) == (endpoint is None):
        raise AddressError(f"Name the queue by its address or by its endpoint: give {parameters}.")


@dataclass(frozen=True)
class AddressResolver:
    """Resolver of addresses and endpoint names to tables.

    ``queue_schemas`` and ``queue_catalogs`` are keyed by table name, ``endpoint_schemas`` and ``endpoint_catalogs`` by
    endpoint name; keys are case-sensitive. ``default_catalog`` is normally the connection's database. Settings may have
    brackets or not: ``[my schema]`` and ``my schema`` are the same. The transport itself takes the brackets of a queue
    setting as part of the name, and so does ``verbatim_settings=True``.

    ``transport_version`` is ``"1"``, ``"2"`` or ``"3.0"`` for addresses of endpoints of that version, which read them
    in another way: :meth:`.QueueAddress.parse_as`.

    ``allowed_catalogs`` and ``allowed_schemas`` limit the tables that headers of messages may name (:meth:`allows`).
    Unless given, these are the default catalog and every schema in it.

    ``delayed_suffix`` is the last part of the names of tables of delayed messages, ``Sales.Delayed``. It is the setting
    ``TableSuffix`` of the endpoints' delayed delivery. ``subscription_table`` is the address of the subscription table,
    which endpoints may name otherwise too.

    Raises :class:`AddressError` if a queue's own setting is blank, no catalog is known, or the suffix is blank or has
    an ``@``.
    """

    default_schema: str | None = None
    default_catalog: str | None = None
    queue_schemas: Mapping[str, str] = field(default_factory=dict)
    queue_catalogs: Mapping[str, str] = field(default_factory=dict)
    endpoint_schemas: Mapping[str, str] = field(default_factory=dict)
    endpoint_catalogs: Mapping[str, str] = field(default_factory=dict)
    verbatim_settings: bool = False
    allowed_catalogs: Collection[str] | None = None
    allowed_schemas: Collection[str] | None = None
    transport_version: str | None = None
    delayed_suffix: str = DELAYED_SUFFIX
    subscription_table: str = SUBSCRIPTION_TABLE

    def __post_init__(self) -> None:
        if not self.delayed_suffix.strip() or "@" in self.delayed_suffix:
            raise AddressError(
                f"The delayed_suffix {quoted(self.delayed_suffix)} is blank or has an '@': give the endpoints' table "
                "suffix of delayed delivery, or leave it out."
            )
        if self.transport_version not in {None, *LEGACY_VERSIONS}:
            raise AddressError(
                f"There is no transport_version {self.transport_version!r}: give one of {', '.join(LEGACY_VERSIONS)}, "
                "or none for later versions."
            )
        for name in ("allowed_catalogs", "allowed_schemas"):
            if (given := getattr(self, name)) is None:
                continue
            if isinstance(given, str):
                raise AddressError(f"{name} is a list of names, not one text.")
            # A generator would allow its names once.
            object.__setattr__(self, name, tuple(given))

    @property
    def catalogs(self) -> list[str]:
        """Databases that the settings name, the default one first; a name may come several times."""
        own = (self.default_catalog or "", *self.queue_catalogs.values(), *(self.allowed_catalogs or ()))
        names = (*map(self._setting, own), *map(unquote, self.endpoint_catalogs.values()))
        return [name for name in names if name.strip()]

    def allows(self, table: ResolvedAddress, same_catalog: SameName = eq, same_schema: SameName = eq) -> bool:
        """Return whether an address in a message's headers may lead to this table; an address from the user may lead to
        any.

        The sender of a message chooses its headers, and the login of this program may reach more tables than the
        sender. The schema and catalog of the queue's own settings are allowed. Only the server knows whether two
        spellings are one name: :func:`.tables.reading.is_allowed` asks it.
        """
        catalogs = [self.default_catalog or ""] if self.allowed_catalogs is None else self.allowed_catalogs
        catalogs = (*catalogs, self.queue_catalogs.get(table.table, ""))
        if not any(same_catalog(table.catalog, self._setting(allowed)) for allowed in catalogs):
            return False
        if self.allowed_schemas is None:
            return True
        schemas = (*self.allowed_schemas, self.queue_schemas.get(table.table, ""))
        return any(same_schema(table.schema, self._setting(allowed)) for allowed in schemas)

    def resolve(self, address_text: str | QueueAddress) -> ResolvedAddress:
        """Return the table of a physical address. Endpoint settings have no effect."""
        address = address_text if isinstance(address_text, QueueAddress) else self.parse(address_text)
        return ResolvedAddress(
            address.table,
            self._schema(address.table, address.schema),
            self._catalog(address.table, address.catalog),
        )

    def parse(self, text: str) -> QueueAddress:
        """Read an address as endpoints of the ``transport_version`` do.

        An address of versions 1 and 2 has the table alone: the schema comes from the endpoint's own setting. So does
        the catalog, which no address of version 3.0 has either. A table of delayed messages is beside its queue.
        """
        if self.transport_version is None:
            return QueueAddress.parse(text)
        address = QueueAddress.parse_as(text, self.transport_version)
        names = (address.table, address.table.removesuffix(f".{self.delayed_suffix}"))
        schema, catalog = (
            next((unquote(settings[name]) for name in names if settings.get(name)), None)
            for settings in (self.endpoint_schemas, self.endpoint_catalogs)
        )
        return replace(address, schema=address.schema if self.transport_version == "3.0" else schema, catalog=catalog)

    def without_machine(self, text: str) -> QueueAddress | None:
        """Return :func:`.address.without_machine`, but None for endpoints of versions 1 and 2: these drop it."""
        return None if self.transport_version in {"1", "2"} else without_machine(text)

    def address_of(
        self, queue_name: str | ResolvedAddress | None, endpoint: str | None, instance: str | None = None
    ) -> str:
        """Return the address of a queue from its address or its endpoint, or that of one ``instance`` of the endpoint.

        Raises :class:`AddressError` unless exactly one of them is given, for an instance without its endpoint, and for
        one whose schema or catalog no address of the ``transport_version`` has.
        """
        check_named_once(queue_name, endpoint)
        if instance is not None and (endpoint is None or not text_of("instance", instance).strip() or "@" in instance):
            raise AddressError(
                "An instance is the last part of a name, as WEB01 of Sales.WEB01: give it with the endpoint, or give "
                "the address of its queue alone."
            )
        if endpoint is None:
            return str(queue_name) if isinstance(queue_name, ResolvedAddress) else text_of("queue address", queue_name)
        found = self.resolve_endpoint(endpoint, discriminator=instance)
        address = QueueAddress(found.table, found.schema, found.catalog)
        if self.transport_version is None:
            return str(address)
        text = address.text_for(self.transport_version)
        if self.resolve(text) != found:
            raise AddressError(
                f"An address of version {self.transport_version} cannot say that {quoted(found.table)} is an instance "
                f"of {quoted(endpoint)}: give {quoted(found.table)} the same endpoint_schemas and endpoint_catalogs."
            )
        return text

    def resolve_endpoint(
        self, name: str, qualifier: str | None = None, discriminator: str | None = None
    ) -> ResolvedAddress:
        """Return the table of a logical endpoint's queue. Endpoint settings are keyed by ``name`` alone."""
        table = endpoint_table(name, qualifier, discriminator)
        schema = self.endpoint_schemas.get(name)
        catalog = self.endpoint_catalogs.get(name)
        return ResolvedAddress(
            table,
            self._schema(table, unquote(schema) if schema else None),
            self._catalog(table, unquote(catalog) if catalog else None),
        )

    def _setting(self, value: str) -> str:
        return value if self.verbatim_settings else unquote(value)

    def _schema(self, table: str, given: str | None) -> str:
        if table in self.queue_schemas:
            return self._queue_setting("schema", table, self.queue_schemas[table])
        default = self._setting(self.default_schema or "")
        return given or (default if default.strip() else DEFAULT_SCHEMA)

    def _catalog(self, table: str, given: str | None) -> str:
        if table in self.queue_catalogs:
            return self._queue_setting("catalog", table, self.queue_catalogs[table])
        default = self._setting(self.default_catalog or "")
        if not given and not default.strip():
            raise AddressError(
                f"No database is known for the queue {quoted(table)}: name one in the connection or in the address."
            )
        return given or default

    def _queue_setting(self, kind: str, table: str, value: str) -> str:
        name = self._setting(value)
        if not name.strip():
            raise AddressError(
                f"The {kind} set for the queue {quoted(table)} is blank: name one or remove the setting."
            )
        return name
