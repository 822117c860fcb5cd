"""Addresses in requests of the page: a user sees and writes to the databases that the connection names, no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from pydantic import BeforeValidator

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.messages.routing import ResolvedAddress

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.server.session import Session


class DatabaseNotShownError(AddressError):
    """The page does not show the database: a user may see less than the connection's login."""


class Address(str):
    """Address of a queue in a request or an order: checked when it is read, and opened by :func:`shown_queue` alone."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


PathAddress = Annotated[Address, BeforeValidator(unquote)]
"""Address in a path, encoded once more: else no path could hold a line feed or a slash of a queue's name."""


def address_of(client: QueueClient, address: str) -> ResolvedAddress:
    """Resolve an address by the settings alone. Raises :class:`AddressError` and :class:`DatabaseNotShownError`."""
    return _shown(client, client.resolve(address))


def shown_queue(client: QueueClient, session: Session, address: str) -> QueueTable:
    """Return the queue at an address, in a database that the page shows, also if a synonym leads to it."""
    address_of(client, address)  # Before the server could tell whether there is such a table.
    queue = client.queue(address).open_in(session)
    _shown(client, queue.address)  # A synonym's is that of its base table.
    return queue


def _shown(client: QueueClient, found: ResolvedAddress) -> ResolvedAddress:
    if found.catalog.casefold() not in {name.casefold() for name in catalogs_of(client)}:
        raise DatabaseNotShownError(
            f"The connection does not name the database {found.catalog!r}: see allowed_catalogs."
        )
    return found


def catalogs_of(client: QueueClient) -> list[str]:
    """Return the databases that the connection's settings name, its own first."""
    found: dict[str, str] = {}
    for name in (client.settings.database, *client.resolver.catalogs):
        found.setdefault(name.casefold(), name)
    return list(found.values())
