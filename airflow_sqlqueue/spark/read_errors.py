"""What Spark says of files, or rows of a table, that are not there, as our own error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError


def is_read_error(error: Exception) -> bool:
    """Whether Spark says that a file is missing or cannot be read."""
    return re.search("PATH_NOT_FOUND|FAILED_READ_FILE", str(error)) is not None


@contextmanager
def translate_read_errors(batch: Batch) -> Iterator[None]:
    """Raise :class:`BatchMismatchError` where Spark misses a file or rows of the batch, or cannot read a file."""
    try:
        yield
    except Exception as error:  # PySpark's own tree leaves out a task's failure, which stays an error of Py4J
        if batch.stage == "table" and BatchMismatchError.__name__ in str(error):
            raise BatchMismatchError(
                f"Messages of batch {batch.batch_id} are not in its table any more: it was swept, or the database was "
                "changed."
            ) from error
        if not is_read_error(error):
            raise
        raise BatchMismatchError(
            f"A file of batch {batch.batch_id} is missing or cannot be read: its messages are nowhere else, "
            "so restore the file."
        ) from error
