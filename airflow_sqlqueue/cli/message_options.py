"""Options of commands that write a message or select messages."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.outgoing import Sender
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.options import option

if TYPE_CHECKING:
    from airflow_sqlqueue.queue.filters import MessageFilter


@dataclass(frozen=True)
class MessageOptions:
    """Options that describe a message to send."""

    message_type: Annotated[str, typer.Option("--type", help="The message's .NET type, with its namespace.")]
    body: str = option("", "the body as text, @FILE, or - for standard input")
    header: list[str] | None = option(None, "NAME=VALUE, any number of times")
    content_type: str = option("application/json", "content type of the body")

    def message(self, expire_after: float | None = None) -> Message:
        """Return the message, with the headers that an endpoint needs. Raises ConfigurationError, MessageError."""
        if not self.message_type.strip():
            raise ConfigurationError(
                "--type is empty: give the message's .NET type with its namespace, as Shop.PlaceOrder."
            )
        if expire_after is not None and not expire_after > 0:
            raise ConfigurationError(f"--expire-after takes seconds above 0, not {expire_after:g}.")
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
    since: str | None = option(None, "only messages sent at this time or later: 2026-01-31, or 2026-01-31T08:00Z")
    until: str | None = option(None, "only messages sent before this time")

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
    return {name: value for name, _, value in pairs}


def read_body(text: str) -> bytes:
    """Return a body given as text, @FILE or -. Raises ConfigurationError."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"The body's file {text[1:]!r} cannot be read: {error.strerror}.") from error
    return text.encode()
