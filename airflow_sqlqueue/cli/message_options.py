"""A message as it is written on the command line."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.envelope.outgoing import Sender
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames, Message

MessageType = Annotated[str, typer.Option("--type", help="The message's .NET type, with its namespace.")]
Body = Annotated[str, typer.Option(help="The body as text, @FILE, or - for standard input.")]
HeaderOption = Annotated[
    Optional[list[str]],
    typer.Option(help="NAME=VALUE, any number of times."),
]
ContentType = Annotated[str, typer.Option(help="How the body is encoded.")]


def message_from_options(
    body: str, header: list[str] | None, content_type: str, message_type: str, expire_after: float | None = None
) -> Message:
    """The message, with the headers that an endpoint needs. Raises ConfigurationError, MessageError."""
    if not message_type.strip():
        raise ConfigurationError(
            "--type is empty: give the message's .NET type with its namespace, as Shop.PlaceOrder."
        )
    if expire_after is not None and not expire_after > 0:
        raise ConfigurationError(f"--expire-after takes seconds above 0, not {expire_after:g}.")
    headers = header_values(header)
    if HeaderNames.ENCLOSED_MESSAGE_TYPES in headers:
        raise ConfigurationError(f"--type is the header {HeaderNames.ENCLOSED_MESSAGE_TYPES}: say the type once.")
    written = {"headers": headers, "body": read_body(body), "time_to_be_received": expire_after}
    (message,) = Sender(str(uuid.uuid4()), "sqlqueue", content_type, message_type).messages([written])
    return message


def header_values(header: list[str] | None) -> dict[str, str]:
    """Headers given as NAME=VALUE. Raises ConfigurationError."""
    pairs = [pair.partition("=") for pair in header or []]
    for name, equals, _ in pairs:
        if not (name.strip() and equals):
            # Without the value: a message has what nobody else may see.
            raise ConfigurationError(f"--header takes NAME=VALUE, not {name + equals!r}.")
    return {name: value for name, _, value in pairs}


def read_body(text: str) -> bytes:
    """A body given as text, @FILE or -. Raises ConfigurationError."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"The body's file {text[1:]!r} cannot be read: {error.strerror}.") from error
    return text.encode()
