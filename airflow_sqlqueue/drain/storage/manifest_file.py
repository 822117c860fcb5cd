"""The manifest file of a batch whose paths are too many for XCom, in the batch's folder."""

from __future__ import annotations

import json

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.durable_file import replace_file
from airflow_sqlqueue.drain.storage.folder import PRIVATE, StagingFolder


def write_manifest(staging: StagingFolder, batch: Batch, mode: int = PRIVATE) -> None:
    """Write the manifest file of a sealed batch where it needs one, durably.

    Every try of the drain writes the same one. It is not written for a batch that lies in another folder: an earlier
    try drained there. ``mode`` are its permissions on a local disk. Raises :class:`StagingError`.
    """
    if batch.state != "sealed" or batch.is_listed:
        return
    folder, _, name = batch.manifest_path.partition(f"{staging.uri}/")
    if not folder:
        replace_file(staging, name, json.dumps(batch.to_dict()).encode(), mode)
