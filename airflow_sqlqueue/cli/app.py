"""The commands, put together. Exit code 0: done; 1: failed; 2: called wrongly."""

from __future__ import annotations

import sys

import typer

from airflow_sqlqueue.cli.batches import abandon, batches, drain, requeue, sweep
from airflow_sqlqueue.cli.delayed import cancel, delayed, move_delayed, send_delayed
from airflow_sqlqueue.cli.errors import errors, return_to_source
from airflow_sqlqueue.cli.messages import depth, generate, peek, send
from airflow_sqlqueue.cli.output import stderr
from airflow_sqlqueue.cli.publishing import publish, subscribe, subscriptions, unsubscribe
from airflow_sqlqueue.cli.purge import purge, purge_expired
from airflow_sqlqueue.cli.quarantine import quarantine
from airflow_sqlqueue.cli.tables import create, drop, inspect
from airflow_sqlqueue.errors import AddressError, ConfigurationError, DriverNotFoundError, MessageError, SqlQueueError

app = typer.Typer(
    help="Queue tables of the NServiceBus SQL Server transport.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(create, inspect, send, depth, peek, drain, purge, purge_expired, drop, generate),
    *(delayed, send_delayed, cancel, move_delayed),
    *(subscribe, unsubscribe, subscriptions, publish),
    *(errors, batches, requeue, abandon, sweep, quarantine),
)
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(command)
app.command("return")(return_to_source)


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error."""
    try:
        app()
    except DriverNotFoundError as error:
        _fail(error, 1)
    except (ConfigurationError, AddressError, MessageError) as error:
        _fail(error, 2)
    except SqlQueueError as error:
        _fail(error, 1)


def _fail(error: SqlQueueError, code: int) -> None:
    stderr.print(f"Error: {error}", style="red", markup=False, highlight=False)
    sys.exit(code)
