"""Messages for ServiceControl's own queue."""

from __future__ import annotations

import json
import re
import socket
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.envelope.monitoring import custom_check, endpoint_startup, heartbeat, host_id
from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import Message

HOST = {"HostId": str(host_id("Shop")), "Host": socket.gethostname()}
LIVES = timedelta(seconds=40)


def fields(message: Message, kind: str, *times: str) -> dict[str, Any]:
    """Fields of the body without those of times, which are checked: System.Text.Json reads no other form."""
    envelope = Envelope.of(message)
    assert envelope.content.message_type == f"ServiceControl.Plugin.{kind}"
    assert (envelope.content.content_type, envelope.routing.intent) == ("application/json", "Send")
    found = json.loads(message.body)
    for name in times:
        written = found.pop(name)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", written)
        passed = datetime.now(timezone.utc) - datetime.fromisoformat(written.replace("Z", "+00:00"))
        assert timedelta(0) <= passed < timedelta(minutes=1)
    assert isinstance(found, dict)
    return found


def test_a_heartbeat() -> None:
    message = heartbeat("Shop", LIVES)
    assert message.time_to_be_received == LIVES
    found = fields(message, "Heartbeat.Messages.EndpointHeartbeat", "ExecutedAt")
    assert found == {"EndpointName": "Shop", **HOST}


def test_the_start_of_an_endpoint() -> None:
    found = fields(endpoint_startup("Shop", LIVES), "Heartbeat.Messages.RegisterEndpointStartup", "StartedAt")
    assert found.pop("HostProperties").keys() == {"Machine", "ProcessID"}
    assert found == {"Endpoint": "Shop", "HostDisplayName": HOST["Host"], **HOST}


@pytest.mark.parametrize("reason", [None, "the lake is empty ☃"])
def test_a_custom_check(reason: str | None) -> None:
    message = custom_check("lake", category="Airflow", endpoint="Shop", failure_reason=reason)
    assert message.time_to_be_received is None
    assert fields(message, "CustomChecks.Messages.ReportCustomCheckResult", "ReportedAt") == {
        "CustomCheckId": "lake",
        "Category": "Airflow",
        "HasFailed": reason is not None,
        "FailureReason": reason,
        "EndpointName": "Shop",
        **HOST,
    }


@pytest.mark.parametrize("blank", ["check_id", "category", "endpoint", "failure_reason"])
def test_a_custom_check_without_a_name_is_refused(blank: str) -> None:
    given = {"check_id": "c", "category": "c", "endpoint": "e", "failure_reason": "r", blank: " "}
    with pytest.raises(MessageError, match=blank):
        custom_check(given.pop("check_id"), **given)


def test_instances_differ_by_their_endpoint() -> None:
    assert host_id("Shop") == host_id("Shop") != host_id("Billing")
