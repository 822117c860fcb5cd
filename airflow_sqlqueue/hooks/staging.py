"""Staging folders of DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.stores import names_connection

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import ObjectStoragePath

    from airflow_sqlqueue.drain.storage.folder import StagingFolder


def staging_folder(location: str | PathLike[str] | ObjectStoragePath) -> StagingFolder:
    """Return the staging folder of a path or a URL, also with an Airflow connection (``s3://connection@bucket/...``).

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an unusable location.
    """
    # It loads fsspec, which parsing a DAG does not need.
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if isinstance(location, str) and names_connection(location):
        from airflow.sdk import ObjectStoragePath

        return StagingFolder.of(ObjectStoragePath(location))
    return StagingFolder.of(location)
