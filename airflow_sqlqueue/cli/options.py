"""Arguments that commands share."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.server import PASSWORD_VARIABLE, client_of_connection, client_of_url
from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.client.queues import Queue as ClientQueue
from airflow_sqlqueue.errors import ConfigurationError


def _url(context: typer.Context, url: Optional[str]) -> Optional[str]:
    """``--url``; the environment's gives way to a connection that is named."""
    source = context.get_parameter_source("url")
    if source is not None and source.name == "ENVIRONMENT" and context.params.get("conn_id") is not None:
        return None
    return url


def _folder(staging: Optional[str]) -> Optional[str]:
    """A staging folder that exists: a wrong name would be an empty folder."""
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if staging is not None:
        folder = StagingFolder.of(staging)
        if folder.is_local and not folder.filesystem.isdir(folder.root):
            raise ConfigurationError(f"There is no staging folder {staging!r}: name the one that drains were given.")
    return staging


Queue = Annotated[str, typer.Argument(help="The queue's address: table, table@[schema] or table@[schema]@[catalog].")]
IsEndpoint = Annotated[
    bool,
    typer.Option(
        "--endpoint", help="The queue of an endpoint of that name, by the routing settings of the connection."
    ),
]
Url = Annotated[
    Optional[str],
    typer.Option(
        envvar="SQLQUEUE_URL",
        show_envvar=True,
        callback=_url,
        help="mssql://user:password@host:port/database?Encrypt=yes, or a connection string of .NET. It shows in the "
        f"list of processes: write - for the password and it is taken from {PASSWORD_VARIABLE}, or asked for.",
    ),
]
ConnId = Annotated[
    Optional[str],
    typer.Option(help="A connection that Airflow knows (its environment, database or secrets), instead of --url."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SweptFolder = Annotated[
    Optional[str],
    typer.Argument(
        callback=_folder, help="The folder or object store URL of the batches' files; without it they stay."
    ),
]


def queue_address(client: QueueClient, queue: str, is_endpoint: bool) -> str:
    """The address that the argument QUEUE gives, or that of the endpoint that it names."""
    return client.resolver.address_of(*((None, queue) if is_endpoint else (queue, None)))


def connect_queue(queue: str, is_endpoint: bool, url: str | None, conn_id: str | None) -> ClientQueue:
    """:func:`connect`, and the queue that the argument QUEUE names."""
    client = connect(url, conn_id)
    return client.queue(queue_address(client, queue, is_endpoint))


def connect(url: str | None, conn_id: str | None) -> QueueClient:
    """The client of the server that ``--url`` or ``--conn-id`` names. Raises ConfigurationError unless it is one."""
    if (url is None) == (conn_id is None):
        raise ConfigurationError("Name the server with one of --url (or SQLQUEUE_URL) and --conn-id.")
    return client_of_url(url) if url is not None else client_of_connection(str(conn_id))


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhd])")


def age(option: str, text: str) -> timedelta:
    """A length of time as an option has it: ``90s``, ``30m``, ``12h``, ``7d``. Raises :class:`ConfigurationError`."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(f"{option} takes a number and a unit, as 90s, 30m, 12h or 7d, not {text!r}.")
    try:
        return timedelta(**{_UNITS[match["unit"]]: float(match["number"])})
    except OverflowError as error:
        raise ConfigurationError(f"{option} {text} is too long a time: give fewer days.") from error
