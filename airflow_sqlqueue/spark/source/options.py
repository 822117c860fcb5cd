"""Options of the format ``sqlqueue``, read and checked."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.server.settings import ConnectionSettings

URL_VARIABLE = "SQLQUEUE_URL"
"""The environment variable, on driver and executors, that names the server of reads and writes without a URL."""


class SourceOptions:
    """The options of one read or write; case and underscores of their names do not matter.

    Raises :class:`ConfigurationError` for an option that is not ``known``. No error quotes a value.
    """

    def __init__(self, options: Mapping[str, str], *known: str) -> None:
        self._values = {_plain(name): value for name, value in options.items()}
        if unknown := sorted(name for name in options if _plain(name) not in {_plain(each) for each in known}):
            raise ConfigurationError(
                f"The format sqlqueue has no option {unknown[0]!r} here: remove it, or use one of {', '.join(known)}."
            )

    def text(self, name: str) -> str | None:
        """Return an option's text without blanks around it; None if it is missing or empty."""
        return (self._values.get(_plain(name)) or "").strip() or None

    def required(self, name: str, why: str) -> str:
        """Return the text of a required option. Raises :class:`ConfigurationError` with ``why`` if it is missing."""
        value = self.text(name)
        if value is None:
            raise ConfigurationError(f"The option {name!r} is missing: {why}.")
        return value

    def number(self, name: str, default: int | None, *, least: int = 1, most: int = LAST) -> int | None:
        """Return the whole number of an option; the default if it is missing."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            limits = f"{least} or more" if most == LAST else f"{least} to {most}"
            raise ConfigurationError(f"The option {name!r} must be a whole number, {limits}.")
        return value

    @property
    def partitions(self) -> int:
        """The number of partitions of a read, 8 by default."""
        return self.number("partitions", 8, most=10_000) or 1

    def size(self, name: str) -> int | None:
        """Return the bytes of an option, None if it is missing: a number, with a unit as in Spark (``512m``, ``1g``).

        One ``k`` is 1,024 bytes.
        """
        text = self.text(name)
        if text is None:
            return None
        match = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.lower(), re.ASCII)
        if match is None or not int(match[1]):
            raise ConfigurationError(f"The option {name!r} must be a number of bytes above 0, such as 512m or 1g.")
        return int(match[1]) << 10 * " kmgt".index(match[2] or " ")

    def flag(self, name: str) -> bool:
        """Return whether the option is ``true``; a missing option is ``false``."""
        text = (self.text(name) or "false").lower()
        if text not in ("true", "false"):
            raise ConfigurationError(f"The option {name!r} must be true or false.")
        return text == "true"

    def identifier(self, name: str) -> uuid.UUID | None:
        """Return the UUID of an option; None if it is missing."""
        text = self.text(name)
        try:
            return None if text is None else uuid.UUID(text)
        except ValueError:
            raise ConfigurationError(f"The option {name!r} must be a UUID.") from None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


@dataclass(frozen=True)
class ServerAccess:
    """Access to the server from the driver and from tasks; it can be pickled, and its repr shows no secret.

    Without a URL and settings, the environment of the calling process names the server. ``password`` and
    ``ledger_schema`` replace those of the URL and the settings.
    """

    url: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    settings: ConnectionSettings | None = field(default=None, repr=False)
    ledger_schema: str | None = None

    OPTIONS = ("url", "password", "ledgerSchema")

    @classmethod
    def of(cls, options: SourceOptions, settings: ConnectionSettings | None) -> ServerAccess:
        """Read the options; an option ``url`` replaces ``settings``, those of ``register``. One must name a server."""
        access = cls(options.text("url"), options.text("password"), settings, options.text("ledgerSchema"))
        access.client()
        return access

    def client(self) -> QueueClient:
        """Return the client of the server."""
        url = self.url or (os.environ.get(URL_VARIABLE) if self.settings is None else None)
        if url is not None:
            client = QueueClient.from_url(url)
        elif self.settings is not None:
            client = QueueClient(self.settings)
        else:
            raise ConfigurationError(
                f"No server is named: give the option 'url', pass the connection to register, or set {URL_VARIABLE} "
                "for Spark's driver and executors."
            )
        given: dict[str, Any] = {"password": self.password, "ledger_schema": self.ledger_schema}
        given = {name: value for name, value in given.items() if value is not None}
        return QueueClient(replace(client.settings, **given), client.resolver)

    @contextmanager
    def queue(self, name: str) -> Iterator[QueueTable]:
        """Provide a queue by its address, through a session of its own."""
        client = self.client()
        with client.session() as session:
            yield client.queue(name).open_in(session)


@dataclass(frozen=True)
class PeekOptions:
    """Options of a peek: at most ``limit`` messages with RowVersions ``low`` to ``high``, in ``partitions``."""

    queue: str
    partitions: int
    limit: int | None
    low: int
    high: int

    OPTIONS = ("queue", "partitions", "limit", "minRowVersion", "maxRowVersion", "pushdown")

    @classmethod
    def of(cls, options: SourceOptions) -> PeekOptions:
        return cls(
            queue=options.required("queue", "give the queue's address, or a batch"),
            partitions=options.partitions,
            limit=options.number("limit", None),
            low=options.number("minRowVersion", FIRST, least=FIRST) or 0,
            high=options.number("maxRowVersion", LAST, least=FIRST) or 0,
        )


@dataclass(frozen=True)
class BatchOptions:
    """Options of a read of a batch; ``queue`` names the database whose ledger has the batch."""

    batch_id: uuid.UUID
    queue: str | None
    partitions: int

    OPTIONS = ("batch", "queue", "partitions")

    @classmethod
    def of(cls, options: SourceOptions, batch_id: uuid.UUID) -> BatchOptions:
        """Read the options. Raises :class:`ConfigurationError` for an option of a peek: a batch is read as a whole."""
        for name in PeekOptions.OPTIONS:
            if name not in cls.OPTIONS and options.text(name) is not None:
                raise ConfigurationError(f"A batch is read whole: remove the option {name!r}, and filter its rows.")
        return cls(batch_id, options.text("queue"), options.partitions)


READ_OPTIONS = tuple(dict.fromkeys((*ServerAccess.OPTIONS, *PeekOptions.OPTIONS, *BatchOptions.OPTIONS)))
