"""Errors of Spark, and of our code on its executors, as errors of this package on the driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue import errors
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError, SqlQueueError


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


def error_to_text(error: SqlQueueError) -> str:
    """The class, the sentence and the attributes (``permission``, ``number``) of an error, as JSON."""
    return json.dumps({"type": type(error).__name__, "message": str(error), "attributes": vars(error)}, default=str)


def error_from_text(text: str) -> SqlQueueError:
    """The error that :func:`error_to_text` wrote, with the same class and attributes; it says where it comes from."""
    values = json.loads(text)
    kind = _KINDS.get(values["type"], SqlQueueError)
    error = kind(f"On a Spark executor: {values['message']}")
    vars(error).update(values["attributes"])
    return error


_KINDS: dict[str, type[SqlQueueError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, SqlQueueError)
}
