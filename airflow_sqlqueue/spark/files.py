"""What Spark says of files that are not there, as our own error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError


@contextmanager
def missing_files_told(batch: Batch) -> Iterator[None]:
    """Raise :class:`BatchMismatchError` where Spark misses a file of the batch, or cannot read it."""
    try:
        yield
    except Exception as error:  # PySpark's own tree leaves out a task's failure, which stays an error of Py4J
        if not re.search("PATH_NOT_FOUND|FAILED_READ_FILE", str(error)):
            raise
        raise BatchMismatchError(
            f"A file of batch {batch.batch_id} is missing or cannot be read: its messages are nowhere else, "
            "so restore the file."
        ) from error
