"""What triggers tell the task that waits for them: that it has come, with numbers alone, or why it never will.

Airflow stores an event in its database and logs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import TriggerEvent

from airflow_sqlqueue import errors


def met(found: Mapping[str, Any]) -> TriggerEvent:
    """It has come; what was found."""
    return TriggerEvent({"status": "met", "found": dict(found)})


def failed(error: Exception) -> TriggerEvent:
    """It cannot be waited for; the error's class and its sentence, which holds no secret."""
    return TriggerEvent({"status": "failed", "error": type(error).__name__, "message": str(error)})


def found_in(event: Any) -> dict[str, Any]:
    """What was found. Raises the error that ended the wait, as the class that it was."""
    if not isinstance(event, Mapping) or event.get("status") not in ("met", "failed"):
        raise AirflowException("The trigger sent no event that this task knows: clear the task to wait again.")
    if event["status"] == "met":
        return dict(event["found"])
    cls = getattr(errors, event["error"], AirflowException)
    raise cls(event["message"])
