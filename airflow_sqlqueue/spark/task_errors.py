"""Errors of this package on their way from a Spark executor to the driver, as text in a row that a task returns."""

from __future__ import annotations

import json

from airflow_sqlqueue import errors
from airflow_sqlqueue.errors import SqlQueueError


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
