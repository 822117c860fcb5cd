"""Event payloads of the triggers for a waiting task: a result, only numbers and names, or an error.

Airflow stores an event in its database and logs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException
from airflow.triggers.base import TriggerEvent

from airflow_sqlqueue import errors


def met(found: Mapping[str, Any]) -> TriggerEvent:
    """Return the event of a result."""
    return TriggerEvent({"status": "met", "found": dict(found)})


def failed(error: Exception) -> TriggerEvent:
    """Return the event of an error that ends the wait: its class and its sentence, which holds no secret."""
    return TriggerEvent({"status": "failed", "error": type(error).__name__, "message": str(error)})


def found_in(event: Any) -> dict[str, Any]:
    """Result in an event. Raises the error that ended the wait, of its own class."""
    if not isinstance(event, Mapping) or event.get("status") not in ("met", "failed"):
        raise AirflowException("The trigger sent an event that this task does not know: clear the task to wait again.")
    if event["status"] == "met":
        return dict(event["found"])
    cls = getattr(errors, event["error"], AirflowException)
    raise cls(event["message"])
