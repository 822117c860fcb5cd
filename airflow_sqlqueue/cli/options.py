"""Arguments that commands share."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errors import ConfigurationError

Queue = Annotated[str, typer.Argument(help="The queue's address: table, table@[schema] or table@[schema]@[catalog].")]
Url = Annotated[
    Optional[str],
    typer.Option(
        envvar="SQLQUEUE_URL",
        show_envvar=True,
        help="mssql://user:password@host:port/database?Encrypt=yes, or a connection string of .NET.",
    ),
]
ConnId = Annotated[Optional[str], typer.Option(help="An Airflow connection, instead of --url.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def connect(url: str | None, conn_id: str | None) -> QueueClient:
    """The client of the server that ``--url`` or ``--conn-id`` names. Raises ConfigurationError unless it is one."""
    if (url is None) == (conn_id is None):
        raise ConfigurationError("Name the server with one of --url (or SQLQUEUE_URL) and --conn-id.")
    if url is not None:
        return QueueClient.from_url(url)
    # Airflow logs to standard output, which belongs to the answer.
    with redirect_stdout(sys.stderr):
        from airflow_sqlqueue.hooks import SqlQueueHook

        return SqlQueueHook(str(conn_id)).client


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
