"""Errors of Spark, and of this package on executors, translated to errors of this package on the driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue import errors
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError, SqlQueueError


def is_read_error(error: Exception) -> bool:
    """Return whether Spark's error is about a file that is missing or cannot be read."""
    return re.search("PATH_NOT_FOUND|FAILED_READ_FILE", str(error)) is not None


@contextmanager
def translate_read_errors(batch: Batch) -> Iterator[None]:
    """Raise :class:`BatchMismatchError` if Spark misses a file or rows of the batch, or cannot read a file."""
    try:
        yield
    except Exception as error:  # a task's failure is an error of Py4J, not of PySpark
        if batch.stage == "table" and BatchMismatchError.__name__ in str(error):
            raise BatchMismatchError(
                f"Messages of batch {batch.batch_id} are not in its table any more: it was swept, or the database was "
                "changed."
            ) from error
        if not is_read_error(error):
            raise
        raise BatchMismatchError(
            f"A file of batch {batch.batch_id} is missing or cannot be read: its messages are nowhere else, "
            f"so restore the file, or end the batch with 'sqlqueue mark-consumed {batch.batch_id}'."
        ) from error


def error_to_text(error: SqlQueueError) -> str:
    """Write the class, the sentence and the attributes (``permission``, ``number``) of an error as JSON."""
    return json.dumps({"type": type(error).__name__, "message": str(error), "attributes": vars(error)}, default=str)


def error_from_text(text: str) -> SqlQueueError:
    """Read an error from the JSON of :func:`error_to_text`; its text says that it is from an executor."""
    values = json.loads(text)
    kind = _KINDS.get(values["type"], SqlQueueError)
    error = kind(f"On a Spark executor: {values['message']}")
    vars(error).update(values["attributes"])
    return error


_KINDS: dict[str, type[SqlQueueError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, SqlQueueError)
}
