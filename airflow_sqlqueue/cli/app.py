"""Application of the command line, with all commands. Exit code 0: done; 1: failed; 2: called wrongly."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

import typer

from airflow_sqlqueue.cli import (
    batch_commands,
    consume,
    delayed,
    drain,
    errors,
    events,
    queues,
    redaction,
    schemas,
    tables,
)
from airflow_sqlqueue.cli.commands import Command, Group, with_option_groups
from airflow_sqlqueue.cli.output import stderr, stdout
from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    DriverNotFoundError,
    MessageError,
    SqlQueueError,
    UntrustedServerError,
)
from airflow_sqlqueue.untrusted import printable

_CALLED_WRONGLY = (ConfigurationError, AddressError, MessageError)
_OF_THE_MACHINE = (DriverNotFoundError, UntrustedServerError)

COMMANDS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "Queues": (*queues.COMMANDS, *consume.COMMANDS, *tables.COMMANDS),
    "Batches": (*drain.COMMANDS, *batch_commands.COMMANDS, *redaction.COMMANDS),
    "Error queues": errors.COMMANDS,
    "Delayed messages and events": (*delayed.COMMANDS, *events.COMMANDS),
}
"""Commands by their heading in the help."""

app = typer.Typer(
    cls=Group,
    help="Queue tables of the NServiceBus SQL Server transport.",
    epilog="Name the server by SQLQUEUE_URL, --url or --conn-id. With - as the URL's password, a command reads it from "
    "SQLQUEUE_PASSWORD, or asks for it.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    # Plain text: rich would read the brackets of an address as markup.
    rich_markup_mode=None,
)
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(command.__name__.replace("_", "-"), cls=Command, rich_help_panel=heading)(
            with_option_groups(command)
        )
for name, about, commands in (
    ("schemas", "Propose, compare and check schemas of message types.", schemas.COMMANDS),
    ("tables", "Mend tables of message types.", schemas.TABLE_COMMANDS),
):
    group = typer.Typer(cls=Group, help=about, no_args_is_help=True, rich_markup_mode=None)
    for command in commands:
        group.command(command.__name__, cls=Command, rich_help_panel="Commands")(with_option_groups(command))
    app.add_typer(group, name=name, rich_help_panel="Batches")


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
    """Take the options of the program itself."""


_OF_THE_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""Errors of a standard output that takes no more: its reader has ended, or its disk is full."""


@cache
def _command() -> Any:
    """Return the whole command line, which takes 30 ms to make."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; print an error of this package as one sentence on standard error."""
    # Python has None for a stream that the parent has closed.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the life of the process
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks must not end a command whose work is done.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            _command()()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OF_THE_OUTPUT:
            raise
        if error.errno != errno.EPIPE:
            stderr.print(f"Error: The output cannot be written: {error.strerror}.", style="red", highlight=False)
        # Python writes at its end what is left, and would fail again ("Note on SIGPIPE" in its documentation).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SqlQueueError as error:
        stderr.print(f"Error: {printable(str(error))}", style="red", markup=False, highlight=False)
        is_called_wrongly = isinstance(error, _CALLED_WRONGLY) and not isinstance(error, _OF_THE_MACHINE)
        sys.exit(2 if is_called_wrongly else 1)
