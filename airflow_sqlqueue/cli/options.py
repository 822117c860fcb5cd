"""Options that commands share: the server by URL or Airflow connection, the queue, JSON, and lengths of time."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli import output
from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import not_installed
from airflow_sqlqueue.options import option

PASSWORD_VARIABLE = "SQLQUEUE_PASSWORD"  # noqa: S105 - the name of a variable
_ASKED_FOR = "-"


def _url(context: typer.Context, url: Optional[str]) -> Optional[str]:
    """Return the value of ``--url``; a named connection wins over the environment's URL."""
    source = context.get_parameter_source("url")
    if source is not None and source.name == "ENVIRONMENT" and context.params.get("conn_id") is not None:
        return None
    return url


QueueArgument = Annotated[
    str, typer.Argument(help="The queue's address: table, table@[schema] or table@[schema]@[catalog].")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


@dataclass(frozen=True)
class Common:
    """Options of every command: the server, and JSON instead of tables."""

    url: Annotated[
        Optional[str],
        typer.Option(
            envvar="SQLQUEUE_URL",
            show_envvar=True,
            callback=_url,
            help="mssql://user:-@host:port/database?Encrypt=yes, or a connection string of .NET.",
        ),
    ] = None
    conn_id: str | None = option(
        None, "a connection that Airflow knows (its environment, database or secrets), instead of --url"
    )
    as_json: bool = option(False, "print JSON for machines", form="--json")

    def connect(self) -> QueueClient:
        """Return the client of the server that ``--url`` or ``--conn-id`` names. Raises ConfigurationError."""
        if (self.url is None) == (self.conn_id is None):
            raise ConfigurationError("Name the server with one of --url (or SQLQUEUE_URL) and --conn-id.")
        return client_of_url(self.url) if self.url is not None else client_of_connection(str(self.conn_id))

    def show(self, values: Mapping[str, Any] | list[dict[str, Any]], title: str = "") -> None:
        """Print one record or a list of records, as :func:`.output.show`."""
        output.show(values, as_json=self.as_json, title=title)


@dataclass(frozen=True, kw_only=True)
class QueueOptions(Common):
    """Options of a command on one queue, which may be named by its endpoint."""

    queue: QueueArgument
    endpoint: bool = option(False, "the argument is an endpoint: use its queue, by the routing settings")

    def address(self, client: QueueClient) -> str:
        """Return the address that the argument QUEUE gives, or that of the endpoint that it names."""
        return client.resolver.address_of(*((None, self.queue) if self.endpoint else (self.queue, None)))

    def connect_queue(self) -> Queue:
        """Return the queue that the argument QUEUE names, of the client of the server."""
        client = self.connect()
        return client.queue(self.address(client))


def client_of_url(url: str) -> QueueClient:
    """Return the client of a URL or of a connection string of .NET. Raises ConfigurationError.

    The password ``-`` is replaced by the value of ``SQLQUEUE_PASSWORD``, or by one that is typed on the terminal.
    """
    client = QueueClient.from_url(url)
    if client.settings.password != _ASKED_FOR:
        return client
    password = os.environ.get(PASSWORD_VARIABLE) or _asked(client)
    return QueueClient(replace(client.settings, password=password), client.resolver)


def _asked(client: QueueClient) -> str:
    """Return the password that is typed on the terminal."""
    try:
        # Not standard input, which may hold a body.
        with open("/dev/tty", "rb"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"The password is - and there is no terminal to ask for it on: set {PASSWORD_VARIABLE}."
        ) from error
    return getpass.getpass(f"Password of {client.settings.user} on {client.settings.host}: ")


def client_of_connection(conn_id: str) -> QueueClient:
    """Return the client of a connection as ``airflow connections get`` finds it. Raises ConfigurationError."""
    # Airflow's own commands set this: without it, outside a task, Airflow searches only the environment.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    # Airflow logs to standard output, which is for the command's answer.
    with redirect_stdout(sys.stderr):
        try:
            from airflow_sqlqueue.hooks import SqlQueueHook
        except ModuleNotFoundError as error:
            if error.name not in ("airflow", "airflow_sqlqueue.hooks"):
                raise
            raise not_installed("--conn-id", "apache-airflow", "airflow-sqlqueue") from error
        return SqlQueueHook(conn_id).client
