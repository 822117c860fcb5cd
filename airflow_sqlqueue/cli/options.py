"""Arguments that commands share."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.errors import ConfigurationError

Queue = Annotated[str, typer.Argument(help="The queue's address: table, table@[schema] or table@[schema]@[catalog].")]
Url = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation at run time, on Python 3.10 too
    typer.Option(
        envvar="SQLQUEUE_URL",
        show_envvar=True,
        help="mssql://user:password@host:port/database?Encrypt=yes, or a connection string of .NET.",
    ),
]
ConnId = Annotated[Optional[str], typer.Option(help="An Airflow connection, instead of --url.")]  # noqa: UP045
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

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
