"""Queue assets: ``mssql+queue://host:port/database/schema/table``, or ``mssql+queue://host/instance/database/...``.

They schedule DAGs, and lineage names the same table as for SQL operators. The names in the path are percent-encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from airflow.sdk import Asset

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.providers.common.compat.openlineage.facet import Dataset

__all__ = ["SCHEME", "authority", "convert_to_openlineage", "create_asset", "sanitize_uri"]

SCHEME = "mssql+queue"
_DEFAULT_PORT = 1433


def create_asset(
    *,
    host: str,
    database: str,
    table: str,
    schema: str = "dbo",
    port: int = _DEFAULT_PORT,
    instance: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return the asset of a queue table, as ``SqlQueueHook.asset`` of an address; an ``instance`` ignores the port."""
    return Asset(uri=uri_of(host, port, instance, (database, schema, table)), extra=extra or {})


def uri_of(host: str, port: int, instance: str | None, names: tuple[str, str, str]) -> str:
    """Return the URI of a queue table, by its database, schema and name."""
    parts = names if instance is None else (instance, *names)
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{SCHEME}://{authority(host, port, instance)}/{path}"


def authority(host: str, port: int, instance: str | None) -> str:
    """Server part of a URI: ``host:port``, or only the host with a named instance, which determines the port."""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port}" if instance is None else name


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the URI with its port, unless it names an instance. Raises ValueError, as Airflow expects."""
    if not uri.hostname:
        raise ValueError(f"A queue's URI names a host: {SCHEME}://host:port/database/schema/table.")
    parts = uri.path.split("/")[1:]
    if len(parts) not in (3, 4) or not all(unquote(part).strip() for part in parts):
        raise ValueError(
            f"A queue's URI names database, schema and table: {SCHEME}://host:port/database/schema/table, or "
            f"{SCHEME}://host/instance/database/schema/table."
        )
    if len(parts) == 4 and uri.port:
        raise ValueError("A queue's URI names a port or an instance, not both: with a port, leave the instance out.")
    if uri.query:
        raise ValueError("A queue's URI has no query.")
    host = uri.netloc.rpartition("@")[2]
    return uri._replace(netloc=host if uri.port or len(parts) == 4 else f"{host.rstrip(':')}:{_DEFAULT_PORT}")


def convert_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:
    """OpenLineage's dataset of the table, the same as for ``mssql://``."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = sanitize_uri(urlsplit(asset.uri))
    *instance, database, schema, table = map(unquote, uri.path.split("/")[1:])
    return Dataset(namespace="/".join([f"mssql://{uri.netloc}", *instance]), name=f"{database}.{schema}.{table}")
