"""Whether what a batch lists is there still: a consumed batch may have been swept."""

from __future__ import annotations

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder, locate
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import StagingError


def check_files(batch: Batch, staging: StagingFolder | None = None) -> None:
    """Raise :class:`StagingError` where a file of the batch is gone. Rows of a table are counted when they are read."""
    for path in batch.paths:
        # A batch may have been drained to another folder than the task has now.
        under = staging if staging is not None and path.startswith(f"{staging.uri}/") else None
        filesystem, name = locate(path, under)
        try:
            filesystem.invalidate_cache()
            is_there = filesystem.exists(name)
        except Exception as error:
            raise_staging_error(f"The part file {path} cannot be looked for", error)
        if not is_there:
            raise StagingError(
                f"The part file {path} of batch {batch.batch_id} is gone, as after a sweep: the job cannot run on the "
                "batch again; drain a new one (renew)."
            )
