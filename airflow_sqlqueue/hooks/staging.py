"""Staging folders and data buses of DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.stores import names_connection

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import ObjectStoragePath

    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus


def staging_folder(location: str | PathLike[str] | ObjectStoragePath) -> StagingFolder:
    """Return the staging folder of a path or a URL, also with an Airflow connection (``s3://connection@bucket/...``).

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an unusable location.
    """
    # It loads fsspec, which parsing a DAG does not need.
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    return StagingFolder.of(_with_connection(location))


def data_bus_at(location: str | PathLike[str] | ObjectStoragePath) -> DataBus:
    """Return the data bus of a path or a URL, also with an Airflow connection, as for :func:`staging_folder`.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an unusable
    location.
    """
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

    return DataBus(_with_connection(location))


def _with_connection(location: str | PathLike[str] | ObjectStoragePath) -> str | PathLike[str] | ObjectStoragePath:
    if isinstance(location, str) and names_connection(location):
        from airflow.sdk import ObjectStoragePath

        return ObjectStoragePath(location)
    return location
