"""Staging folders, data buses and redactors of DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.stores import names_connection
from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import ObjectStoragePath

    from airflow_sqlqueue.bodies.redaction.redactor import Redactor
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus


def staging_folder(location: str | PathLike[str] | ObjectStoragePath) -> StagingFolder:
    """Return the staging folder of a path or a URL, also with an Airflow connection (``s3://connection@bucket/...``)."""
    # It loads fsspec, which parsing a DAG does not need.
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    return StagingFolder.of(_with_connection(location))


def data_bus_at(location: str | PathLike[str] | ObjectStoragePath) -> DataBus:
    """Return the data bus of a path or a URL, also with an Airflow connection, as for :func:`staging_folder`."""
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

    return DataBus(_with_connection(location))


def _with_connection(location: str | PathLike[str] | ObjectStoragePath) -> str | PathLike[str] | ObjectStoragePath:
    if isinstance(location, str) and names_connection(location):
        from airflow.sdk import ObjectStoragePath

        return ObjectStoragePath(location)
    return location


def redactor_of(rules: Any, conn_id: str | None) -> Redactor | None:
    """Return the redactor of rules (:meth:`.RedactionRules.of`), with a connection's password as the key of hashes."""
    if rules is None:
        return None
    from airflow_sqlqueue.bodies.redaction.redactor import Redactor

    return Redactor.of(rules, None if conn_id is None else redaction_key(conn_id))


def redaction_key(conn_id: str) -> str:
    """Return the key of a connection, its password, which Airflow hides in logs. Raises ConfigurationError without."""
    from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

    try:
        key = BaseHook.get_connection(conn_id).password
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"Airflow has no connection {conn_id!r}, whose password is the key of the redaction: create it."
        ) from error
    if not key:
        raise ConfigurationError(f"The connection {conn_id!r} has no password, which is the key of the redaction.")
    return str(key)
