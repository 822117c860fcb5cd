"""The client of the server that a command is for: by URL, its password asked for, or by an Airflow connection."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import redirect_stdout
from dataclasses import replace

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errors import ConfigurationError

PASSWORD_VARIABLE = "SQLQUEUE_PASSWORD"  # noqa: S105 - the name of a variable
_ASKED_FOR = "-"


def client_of_url(url: str) -> QueueClient:
    """The client of a URL or of a connection string of .NET. The password ``-`` stands for one that is not in it.

    That one is in ``SQLQUEUE_PASSWORD``, or is asked for on the terminal. Raises ConfigurationError.
    """
    client = QueueClient.from_url(url)
    if client.settings.password != _ASKED_FOR:
        return client
    password = os.environ.get(PASSWORD_VARIABLE) or _asked(client)
    return QueueClient(replace(client.settings, password=password), client.resolver)


def _asked(client: QueueClient) -> str:
    try:
        # Not standard input, which may be a body's.
        with open("/dev/tty", "rb"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"The password is - and there is no terminal to ask for it on: set {PASSWORD_VARIABLE}."
        ) from error
    return getpass.getpass(f"Password of {client.settings.user} on {client.settings.host}: ")


def client_of_connection(conn_id: str) -> QueueClient:
    """The client of a connection as ``airflow connections get`` finds it. Raises ConfigurationError."""
    # What Airflow's own commands set: without it, outside a task, only the environment is searched.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    # Airflow logs to standard output, which belongs to the answer.
    with redirect_stdout(sys.stderr):
        from airflow_sqlqueue.hooks import SqlQueueHook

        return SqlQueueHook(conn_id).client
