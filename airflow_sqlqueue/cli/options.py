"""Options that commands share: the server, the queue, JSON, a message to write, messages to select."""

from __future__ import annotations

import getpass
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli import output
from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import not_installed
from airflow_sqlqueue.messages.envelope.outgoing import Sender
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.options import option
from airflow_sqlqueue.untrusted import is_text

if TYPE_CHECKING:
    from airflow_sqlqueue.queue.filters import MessageFilter


PASSWORD_VARIABLE = "SQLQUEUE_PASSWORD"  # noqa: S105 - the name of a variable
_ASKED_FOR = "-"


def _url(context: typer.Context, url: Optional[str]) -> Optional[str]:
    """Return the value of ``--url``; a named connection wins over the environment's URL."""
    source = context.get_parameter_source("url")
    if source is not None and source.name == "ENVIRONMENT" and context.params.get("conn_id") is not None:
        return None
    return url


BY_BEGINNING = "the first characters of its id are enough"

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
    as_json: bool = option(False, "print JSON for programs", form="--json")
    as_csv: bool = option(False, "of a list", form=None)

    def __post_init__(self) -> None:
        if self.as_json and self.as_csv:
            raise ConfigurationError("A command prints one of --json and --csv.")

    @property
    def for_programs(self) -> bool:
        """Whether the output is for programs, without lines for people."""
        return self.as_json or self.as_csv

    def connect(self) -> QueueClient:
        """Return the client of the server that ``--url`` or ``--conn-id`` names. Raises ConfigurationError."""
        if (self.url is None) == (self.conn_id is None):
            raise ConfigurationError("Name the server with one of --url (or SQLQUEUE_URL) and --conn-id.")
        return client_of_url(self.url) if self.url is not None else client_of_connection(str(self.conn_id))

    def show(self, values: output.Values, title: str = "", whole: Mapping[str, Any] | None = None) -> None:
        """Print one record or a list of records, as :func:`.output.show`."""
        output.show(values, as_json=self.as_json, as_csv=self.as_csv, title=title, whole=whole)


@dataclass(frozen=True)
class ListOptions(Common):
    """Options of a command that prints a list."""

    as_csv: bool = option(False, "print CSV for a spreadsheet", form="--csv")


@dataclass(frozen=True, kw_only=True)
class QueueOptions(Common):
    """Options of a command on one queue, which may be named by its endpoint."""

    queue: QueueArgument
    endpoint: bool = option(False, "the argument is an endpoint: use its queue, by the routing settings")

    def address(self, client: QueueClient, instance: str | None = None) -> str:
        """Return the address that the argument QUEUE gives, or that of the endpoint that it names, or its instance."""
        return client.resolver.address_of(
            None if self.endpoint else self.queue, self.queue if self.endpoint else None, instance
        )

    def connect_queue(self) -> Queue:
        """Return the queue that the argument QUEUE names, of the client of the server."""
        client = self.connect()
        return client.queue(self.address(client))


@dataclass(frozen=True, kw_only=True)
class QueueListOptions(ListOptions, QueueOptions):
    """Options of a command that prints a list of one queue."""


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


@dataclass(frozen=True)
class MessageOptions:
    """Options that describe a message to send."""

    message_type: Annotated[str, typer.Option("--type", help="The message's .NET type, with its namespace.")]
    body: str = option("", "the body as text, @FILE, or - for standard input")
    header: list[str] | None = option(None, "NAME=VALUE, any number of times")
    content_type: str = option("application/json", "content type of the body")

    def message(self, expire_after: timedelta | None = None) -> Message:
        """Return the message, with the headers that an endpoint needs. Raises ConfigurationError, MessageError."""
        if not self.message_type.strip():
            raise ConfigurationError(
                "--type is empty: give the message's .NET type with its namespace, as Shop.PlaceOrder."
            )
        if expire_after is not None and not expire_after > timedelta(0):
            raise ConfigurationError("--expire-after takes a time above 0.")
        headers = header_values(self.header)
        if HeaderNames.ENCLOSED_MESSAGE_TYPES in headers:
            raise ConfigurationError(f"--type is the header {HeaderNames.ENCLOSED_MESSAGE_TYPES}: say the type once.")
        written = {"headers": headers, "body": read_body(self.body), "time_to_be_received": expire_after}
        (message,) = Sender(str(uuid.uuid4()), "sqlqueue", self.content_type, self.message_type).messages([written])
        return message


@dataclass(frozen=True)
class FilterOptions:
    """Options that select messages by their headers."""

    message_type: str | None = option(None, "only messages of this .NET type, in full, without its assembly")
    from_endpoint: str | None = option(None, "only messages that this endpoint sent")
    header: list[str] | None = option(None, "only messages with this header, NAME=VALUE; any number of times")
    since: datetime | None = option(None, "only messages sent at this time or later: 2026-01-31")
    until: datetime | None = option(None, "only messages sent before this time")

    def filter(self) -> MessageFilter | None:
        """Return the filter of the options that were given; None without any. Raises :class:`ConfigurationError`."""
        from airflow_sqlqueue.queue.filters import MessageFilter

        values: dict[str, Any] = {
            "message_type": self.message_type,
            "endpoint": self.from_endpoint,
            "since": self.since,
            "until": self.until,
            "headers": header_values(self.header) or None,
        }
        given = {name: value for name, value in values.items() if value is not None}
        return MessageFilter.of(given) if given else None


def header_values(header: list[str] | None) -> dict[str, str]:
    """Headers given as NAME=VALUE. Raises ConfigurationError."""
    return named_values(header, "--header takes NAME=VALUE")


def named_values(given: list[str] | None, usage: str) -> dict[str, str]:
    """Return the values of an option by their names. Raises ConfigurationError."""
    pairs = [pair.partition("=") for pair in given or []]
    for name, equals, _ in pairs:
        if not (name.strip() and equals):
            # Without the value, which may be confidential.
            raise ConfigurationError(f"{usage}, not {name + equals!r}.")
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs):
        names = [name for name, *_ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"{usage}, with each name once: {repeated!r} is there twice.")
    return values


def read_body(text: str) -> bytes:
    """Return a body given as text, @FILE or -. Raises ConfigurationError."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"The body's file {text[1:]!r} cannot be read: {error.strerror}.") from error
    if not is_text(text):
        # Python's own error has the whole body.
        raise ConfigurationError("--body is not text: give its bytes as @FILE, or - for standard input.")
    return text.encode()
