"""The commands, put together. Exit code 0: done; 1: failed; 2: called wrongly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from airflow_sqlqueue.cli.batches import abandon, batches, drain, requeue, sweep
from airflow_sqlqueue.cli.commands import Command, Group
from airflow_sqlqueue.cli.consumers import consumers, release
from airflow_sqlqueue.cli.delayed import cancel, delayed, move_delayed, send_delayed
from airflow_sqlqueue.cli.errors import errors, return_to_source
from airflow_sqlqueue.cli.messages import depth, forward, generate, peek, send
from airflow_sqlqueue.cli.output import stderr, stdout
from airflow_sqlqueue.cli.publishing import publish, subscribe, subscriptions, unsubscribe
from airflow_sqlqueue.cli.purge import purge, purge_expired
from airflow_sqlqueue.cli.quarantine import quarantine
from airflow_sqlqueue.cli.tables import create, drop, inspect
from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    DriverNotFoundError,
    MessageError,
    SqlQueueError,
    UntrustedServerError,
)
from airflow_sqlqueue.untrusted import printable

COMMANDS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "Queues": (send, depth, peek, forward, purge, purge_expired, generate),
    "Batches": (drain, batches, requeue, abandon, sweep, quarantine, consumers, release),
    "Error queues": (errors, return_to_source),
    "Delayed messages": (delayed, send_delayed, cancel, move_delayed),
    "Events": (subscribe, unsubscribe, subscriptions, publish),
    "Tables": (create, inspect, drop),
}
"""Commands under the headings of the help."""

_NAMES = {"return_to_source": "return"}

app = typer.Typer(
    cls=Group,
    help="Queue tables of the NServiceBus SQL Server transport.",
    epilog="Name the server by SQLQUEUE_URL, --url or --conn-id. To keep a password out of the list of processes, set "
    "SQLQUEUE_URL, name an Airflow connection, or write - for it: mssql://user:-@host:port/database takes it from "
    "SQLQUEUE_PASSWORD, or asks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain text: rich would take the brackets of an address for markup.
    rich_markup_mode=None,
)
for heading, commands in COMMANDS.items():
    for command in commands:
        name = _NAMES.get(command.__name__, command.__name__.replace("_", "-"))
        app.command(name, cls=Command, rich_help_panel=heading)(command)


def _version(wanted: bool) -> None:
    if wanted:
        from airflow_sqlqueue import __version__

        stdout.out(f"sqlqueue {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options of no command."""


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error."""
    try:
        app()
    except (DriverNotFoundError, UntrustedServerError) as error:
        _fail(error, 1)
    except (ConfigurationError, AddressError, MessageError) as error:
        _fail(error, 2)
    except SqlQueueError as error:
        _fail(error, 1)


def _fail(error: SqlQueueError, code: int) -> None:
    stderr.print(f"Error: {printable(str(error))}", style="red", markup=False, highlight=False)
    sys.exit(code)
