"""Data bus: fetches payloads by their keys, with a limit in bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from copy import copy
from datetime import datetime, timezone
from io import BytesIO
from typing import Any, TypeVar

from airflow_sqlqueue import errors
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import call_within, error_text, without_secrets
from airflow_sqlqueue.drain.stores import store_of
from airflow_sqlqueue.endpoint.databus.keys import kept_until, path_of
from airflow_sqlqueue.endpoint.databus.options import PAYLOAD_BYTES
from airflow_sqlqueue.messages.envelope.payloads import label
from airflow_sqlqueue.options.budget import MIB

T = TypeVar("T")

_PIECE = 8 * MIB
"""Bytes of one request to a store, each within the time limit of the folder."""

_WHAT = "data bus"


class DataBus:
    """Data bus (claim check) of NServiceBus: the payloads of messages below one location. Several threads may share it.

    :param location: the data bus of the senders, a folder (a mounted file share) or the URL of a bucket or container,
        with their ``BasePath``: ``/mnt/databus``, ``s3://bucket/databus``,
        ``abfss://databus@account.dfs.core.windows.net/base``. The stores, their packages and credentials are those of
        staging folders.

    Memory holds one payload for each caller. Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an
    unusable location.
    """

    payload_bytes = PAYLOAD_BYTES
    """The largest payload in bytes that is fetched."""

    def __init__(self, location: Any) -> None:
        protocol, separator, _ = location.partition("://") if isinstance(location, str) else ("", "", "")
        if separator and store_of(protocol) is None:
            raise errors.ConfigurationError(
                f"A data bus is not read from {without_secrets(protocol)}: give a folder, or a URL of S3, Google Cloud "
                "Storage, Azure (abfss) or HDFS."
            )
        self._folder = StagingFolder.of(location, _WHAT)

    @classmethod
    def of(cls, location: Any) -> DataBus:
        """Return a data bus as it is, or make one of a location."""
        return location if isinstance(location, cls) else cls(location)

    def limited(self, payload_bytes: int) -> DataBus:
        """Return this data bus with another limit of one payload."""
        limited = copy(self)
        limited.payload_bytes = payload_bytes
        return limited

    def __repr__(self) -> str:
        return f"DataBus({without_secrets(self._folder.uri)!r})"

    def fetch(self, key: str | None, property_name: str | None = None, *, limit: int | None = None) -> bytes:
        """Return the bytes of a payload, the serialized value of a property. Nothing is changed on the data bus.

        ``property_name`` is for the texts of errors, which do not show the key. ``limit`` in bytes replaces
        ``payload_bytes``; a larger payload is not read.

        Raises :class:`~airflow_sqlqueue.errors.PayloadKeyError` for a key that may lead out of the location,
        :class:`~airflow_sqlqueue.errors.PayloadGoneError`, :class:`~airflow_sqlqueue.errors.PayloadTooLargeError`, and
        :class:`~airflow_sqlqueue.errors.DataBusUnreachableError` for a store that does not answer or refuses the login,
        and for a share that is not mounted; :class:`~airflow_sqlqueue.errors.PayloadUnreadableError` where the data bus
        answers, but this payload cannot be opened.
        """
        path = path_of(key, property_name)
        most = self.payload_bytes if limit is None else limit
        read = self._read_file if self._folder.is_local else self._read_object
        again = False
        while True:
            try:
                return read(path, property_name, most)
            except FileNotFoundError:
                self._require_location()
                raise _gone(path, property_name) from None
            except (errors.SqlQueueError, MemoryError):
                raise
            except Exception as error:
                if isinstance(error, (NotADirectoryError, IsADirectoryError)):
                    raise _not_a_file(property_name) from None
                answers = not isinstance(error, (TimeoutError, ConnectionError)) and self._answers()
                if answers and not again:
                    # It may have been away for a moment.
                    again = True
                    continue
                text = error_text(error)
                if path.rpartition("/")[2] in text:
                    text = type(error).__name__
                # The cause would show the key, and give access to the payload.
                raise (errors.PayloadUnreadableError if answers else errors.DataBusUnreachableError)(
                    f"{label(property_name)} cannot be read from the data bus {self._shown}: {text}."
                ) from None

    def _read_file(self, path: str, property_name: str | None, most: int) -> bytes:
        root = os.path.realpath(self._folder.root)
        file = os.path.realpath(f"{root}/{path}", strict=True)
        # A link on the share may lead elsewhere; a named pipe would keep the reader waiting.
        if not file.startswith(f"{root.rstrip('/')}/"):
            raise _not_a_file(property_name)
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _not_a_file(property_name)
            _check_size(found.st_size, property_name, most)
            content = BytesIO()
            while piece := stream.read(min(_PIECE, most + 1 - content.tell())):
                content.write(piece)
                # A file that grows meanwhile is not one of the data bus, which writes files before it sends messages.
                _check_size(content.tell(), property_name, most)
            return content.getvalue()

    def _read_object(self, path: str, property_name: str | None, most: int) -> bytes:
        filesystem, name = self._folder.filesystem, f"{self._folder.root}/{path}"
        # A listing that was cached before the payload was written would hide it.
        filesystem.invalidate_cache()
        found = self._within_timeout(lambda: filesystem.info(name))
        if found["type"] != "file":
            raise _not_a_file(property_name)
        size = int(found["size"])
        _check_size(size, property_name, most)
        content = BytesIO()
        for start in range(0, size, _PIECE):
            end = min(start + _PIECE, size)
            content.write(self._within_timeout(lambda: filesystem.cat_file(name, start=start, end=end)))  # noqa: B023
        if content.tell() != size:
            raise errors.DataBusUnreachableError(f"{label(property_name)} was changed while it was read: try again.")
        return content.getvalue()

    def _answers(self) -> bool:
        try:
            self._require_location()
        except errors.DataBusUnreachableError:
            return False
        return True

    def _require_location(self) -> None:
        """Raise :class:`DataBusUnreachableError` if the location itself is missing, so that no payload counts as gone.

        The folder of a share that is not mounted exists as a rule, and is empty.
        """
        filesystem, root = self._folder.filesystem, self._folder.root
        missing = f"The data bus {self._shown} is missing or empty: check the location, and that its share is mounted."
        try:
            if not self._folder.is_local:
                self._within_timeout(lambda: filesystem.info(root if root.startswith("/") else root.partition("/")[0]))
                return
            with os.scandir(root) as entries:
                is_empty = next(entries, None) is None
        except FileNotFoundError:
            raise errors.DataBusUnreachableError(missing) from None
        except PermissionError:
            return
        except Exception as error:
            raise errors.DataBusUnreachableError(
                f"The data bus {self._shown} cannot be reached: {error_text(error)}."
            ) from None
        if is_empty:
            raise errors.DataBusUnreachableError(missing)

    def _within_timeout(self, call: Callable[[], T]) -> T:
        return call_within(call, self._folder.timeout)

    @property
    def _shown(self) -> str:
        return without_secrets(self._folder.uri)


def _check_size(size: int, property_name: str | None, most: int) -> None:
    if size > most:
        raise errors.PayloadTooLargeError(
            f"{label(property_name)} has {size} bytes or more, and the limit is {most}: raise payload_bytes.", size
        )


def _not_a_file(property_name: str | None) -> errors.PayloadKeyError:
    return errors.PayloadKeyError(
        f"{label(property_name)} has a key that was not used: it names no file of the data bus."
    )


def _gone(path: str, property_name: str | None) -> errors.PayloadGoneError:
    until = kept_until(path)
    if until is None:
        reason = "the data bus removes payloads after the time to live that the sender or its clean-up gives"
    elif until > datetime.now(timezone.utc):
        reason = "although its time to live has not passed: check that this is the data bus of the sender"
        return errors.PayloadGoneError(f"{label(property_name)} is not on the data bus, {reason}.")
    else:
        reason = f"its sender gave it a time to live until {until:%Y-%m-%d %H:00} UTC"
    return errors.PayloadGoneError(f"{label(property_name)} is gone: {reason}.")
