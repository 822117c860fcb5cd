"""Queues as assets: ``mssql+queue://host:port/database/schema/table``.

DAGs are scheduled by them, and lineage names the same table as for SQL operators. The path has the names
percent-encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from airflow.sdk import Asset

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.providers.common.compat.openlineage.facet import Dataset

__all__ = ["SCHEME", "convert_to_openlineage", "create_asset", "sanitize_uri"]

SCHEME = "mssql+queue"
_DEFAULT_PORT = 1433


def create_asset(
    *,
    host: str,
    database: str,
    table: str,
    schema: str = "dbo",
    port: int = _DEFAULT_PORT,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """The asset of a queue table. ``SqlQueueHook.asset`` makes it of an address."""
    path = "/".join(quote(name, safe="") for name in (database, schema, table))
    return Asset(uri=f"{SCHEME}://{host}:{port}/{path}", extra=extra or {})


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """The URI with its port. Raises ValueError, as Airflow wants it, for one that is no queue's."""
    if not uri.hostname:
        raise ValueError(f"A queue's URI names a host: {SCHEME}://host:port/database/schema/table.")
    parts = uri.path.split("/")[1:]
    if len(parts) != 3 or not all(unquote(part).strip() for part in parts):
        raise ValueError(f"A queue's URI names database, schema and table: {SCHEME}://host:port/database/schema/table.")
    if uri.query:
        raise ValueError("A queue's URI has no query.")
    return uri._replace(netloc=uri.netloc.rpartition("@")[2] if uri.port else f"{uri.hostname}:{_DEFAULT_PORT}")


def convert_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:
    """The dataset that OpenLineage has for the table, which is that of ``mssql://`` as well."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = sanitize_uri(urlsplit(asset.uri))
    return Dataset(namespace=f"mssql://{uri.netloc}", name=".".join(map(unquote, uri.path.split("/")[1:])))
