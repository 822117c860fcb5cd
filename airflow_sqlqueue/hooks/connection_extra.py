"""Extra of an Airflow connection, which users write as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def extra_of(connection: Connection) -> dict[str, Any]:
    """Return the extra of a connection, whose secrets Airflow then masks.

    Raises :class:`ConfigurationError` for a text that is no JSON object: Airflow itself takes it for an empty extra, so
    that encryption, the ledger or the schemas of queues would silently be others.
    """
    try:
        whole = isinstance(json.loads(connection.extra), dict) if connection.extra else True
    except ValueError:
        whole = False
    if not whole:
        raise ConfigurationError(
            f"Connection {connection.conn_id!r}: its extra is not a JSON object, such as {{}}: correct it."
        )
    return dict(connection.extra_dejson)
