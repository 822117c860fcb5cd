"""Messages for ServiceControl's own queue: start and heartbeats of an endpoint, results of custom checks.

Source: docs/transport/messages.md, "Heartbeats and custom checks".
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message

_NAMESPACE = uuid.UUID("6f0c9a1e-3c0f-5d0e-9d55-3f0a3d1a9b42")


def host_id(endpoint: str) -> uuid.UUID:
    """Return the id of an endpoint's instance on this machine, which stays the same in all runs."""
    return uuid.uuid5(_NAMESPACE, f"{endpoint}\0{socket.gethostname()}")


def endpoint_startup(endpoint: str, lives: timedelta) -> Message:
    """Return the message that registers an endpoint's instance with ServiceControl."""
    machine = socket.gethostname()
    fields = {
        "HostId": str(host_id(endpoint)),
        "Endpoint": endpoint,
        "StartedAt": _now(),
        "HostProperties": {"Machine": machine, "ProcessID": str(os.getpid())},
        "HostDisplayName": machine,
        "Host": machine,
    }
    return _message("Heartbeat", "RegisterEndpointStartup", fields, lives)


def heartbeat(endpoint: str, lives: timedelta) -> Message:
    """Return a heartbeat of an endpoint's instance."""
    fields = {"ExecutedAt": _now(), "EndpointName": endpoint, **_host(endpoint)}
    return _message("Heartbeat", "EndpointHeartbeat", fields, lives)


def custom_check(
    check_id: str,
    *,
    category: str,
    endpoint: str,
    failure_reason: str | None = None,
    lives: timedelta | None = None,
) -> Message:
    """Return the result of a custom check, which ServicePulse shows; send it to the queue of ServiceControl.

    ``client.queue("Particular.ServiceControl").send([custom_check(...)])``. ServiceControl keeps one state for each
    check of an endpoint on a machine, and notifies of changes. Delivery as for the send.

    :param check_id: name of the check, the same for each result.
    :param category: heading under which ServicePulse lists the check.
    :param endpoint: name of the endpoint that the check belongs to.
    :param failure_reason: reason for a failed check, which ServicePulse shows; None: the check has succeeded.
    :param lives: time after which an unread result expires; None: never.

    Raises :class:`MessageError` for a blank name or reason, which ServiceControl does not accept.
    """
    for name, value in (("check_id", check_id), ("category", category), ("endpoint", endpoint)):
        if not value.strip():
            raise MessageError(f"The {name} of a custom check is blank: give one.")
    if failure_reason is not None and not failure_reason.strip():
        raise MessageError("The failure_reason of a custom check is blank: give one, or None for a success.")
    fields = {
        "CustomCheckId": check_id,
        "Category": category,
        "HasFailed": failure_reason is not None,
        "FailureReason": failure_reason,
        "ReportedAt": _now(),
        "EndpointName": endpoint,
        **_host(endpoint),
    }
    return _message("CustomChecks", "ReportCustomCheckResult", fields, lives)


def _host(endpoint: str) -> dict[str, str]:
    return {"HostId": str(host_id(endpoint)), "Host": socket.gethostname()}


def _now() -> str:
    """Return the present time as System.Text.Json writes it."""
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"


def _message(plugin: str, name: str, fields: dict[str, Any], lives: timedelta | None) -> Message:
    headers = {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"ServiceControl.Plugin.{plugin}.Messages.{name}",
        HeaderNames.CONTENT_TYPE: "application/json",
        HeaderNames.MESSAGE_INTENT: "Send",
    }
    return Message(headers, json.dumps(fields).encode(), lives)
