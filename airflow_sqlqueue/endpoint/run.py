"""Run of a consumer, shared by its handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.endpoint.endpoint import Endpoint
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.endpoint.receiver import Receiver
from airflow_sqlqueue.endpoint.recoverability import FailureStorage
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings

Handle = Callable[[Envelope], Any]
"""The function that handles a message; its result is ignored, and an exception makes the message fail."""


@dataclass(frozen=True)
class Run:
    """Run of a consumer, as all of its handlers share it. ``what`` names the work in the log and in errors.

    ``stop``, when set, ends each handler after its current message. ``pause`` waits for a server that is away, and
    ``on_contact`` is called with True after each receive.
    """

    connect: Callable[[], Session]
    what: str
    settings: ConnectionSettings
    endpoint: Endpoint
    resolver: AddressResolver
    handlers: MessageHandlers
    options: ConsumeOptions
    failures: FailureStorage
    receiver: Receiver
    stop: threading.Event
    pause: Callable[[float], None]
    on_contact: Callable[[bool], None]
