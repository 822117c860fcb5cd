"""Arguments that commands share."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

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
