"""Folder of schemas: one JSON file for each message type, on a disk or in an object store.

Source: docs/guides/bodies.md, "Schemas".
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from airflow_sqlqueue.bodies.extension import EMPTY, extended
from airflow_sqlqueue.bodies.patterns import NO_HINTS, Hints
from airflow_sqlqueue.bodies.schemas import Struct, read_schema, write_schema
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.drain.stores import store_at
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError, StagingError
from airflow_sqlqueue.untrusted import is_text, quoted

_SUFFIX = ".json"
_LONGEST = 100
_TYPE = "message_type"
_HINTS = "_hints"
_ANY: Any = object()
_CHANGED = re.compile("precondition|ConditionNotMet|ConditionalRequestConflict|AlreadyExists", re.IGNORECASE)
"""Errors of stores for a file that another process has written meanwhile."""
_WRITES = 20
_OTHERS = re.compile(r"[^A-Za-z0-9._-]")
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
"""Names of devices in Windows, which no file has there, whatever follows a dot."""


def file_stem(message_type: str) -> str:
    """Return the name of a type for files and folders, which stores, file systems and readers of URIs take as it is.

    No two types have the same: other characters are ``!60`` and the like, and a long name is cut and gets a hash.
    """
    if not message_type or not is_text(message_type):
        raise ConfigurationError(f"{quoted(message_type)} is no name of a message type.")
    stem = _OTHERS.sub(lambda found: _escaped(found[0]), message_type)
    if len(stem) > _LONGEST:
        stem = f"{stem[:_LONGEST]}-{hashlib.sha256(message_type.encode()).hexdigest()[:16]}"
    if stem[0] in "._-" or _DEVICES.match(stem):
        stem = _escaped(stem[0]) + stem[1:]
    return stem.removesuffix(".") + _escaped(".") if stem.endswith(".") else stem


def _escaped(text: str) -> str:
    return "".join(f"!{byte:02X}" for byte in text.encode())


def type_of(stem: str) -> str:
    """Return the type of a file that names none."""
    return unquote(stem.replace("!", "%"))


def _stem_of_file(stem: str) -> str:
    """Return the name that a file has to have: a person may have called it as its type, ``Shop.Orders+Placed``."""
    is_ours = not _OTHERS.search(stem.replace("!", "")) or not is_text(stem)
    return stem if is_ours else file_stem(type_of(stem))


class SchemaFolder:
    """Folder of schemas: the columns of each message type.

    :param location: a path or a URI, as a staging folder's; see :class:`.StagingFolder`.
    """

    def __init__(self, location: str | os.PathLike[str] | StagingFolder) -> None:
        self._folder = StagingFolder.of(location)

    def _path(self, stem: str) -> str:
        return f"{self._folder.root.rstrip('/')}/{stem}{_SUFFIX}"

    def get(self, message_type: str) -> Struct | None:
        """Return the schema of a type, None without a file. Raises :class:`ConfigurationError` for an unusable file."""
        found = self._read(file_stem(message_type))
        return found and found[1]

    def all(self, unusable: dict[str, str] | None = None) -> dict[str, Struct]:
        """Return all schemas by message type, in the order of their names.

        :param unusable: gets the reason for each file that cannot be used, by the name that it has to have, without the
            suffix; without it the first such file raises :class:`ConfigurationError`. Other files are read all the
            same.
        """
        filesystem = self._folder.filesystem
        filesystem.invalidate_cache()
        try:
            # An object store may have a folder and a file of one name: the file counts.
            entries = sorted(filesystem.ls(self._folder.root, detail=True), key=lambda each: str(each["type"]))
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise_staging_error(f"The schemas in {self._folder.uri} cannot be listed", error)
        found: dict[str, Struct] = {}
        for path, kind in sorted({str(each["name"]): each["type"] for each in entries}.items()):
            stem = path.rpartition("/")[2].removesuffix(_SUFFIX)
            if not path.endswith(_SUFFIX) or stem == _HINTS:
                continue
            try:
                if kind == "directory":
                    raise _folder_error(stem, "schema")
                found.update([each] if (each := self._read(stem)) else [])
            except ConfigurationError as error:
                if unusable is None:
                    raise
                unusable[_stem_of_file(stem)] = str(error)
        return found

    def hints(self) -> Hints:
        """Return the hints of the file ``_hints.json``, none without it. Raises :class:`ConfigurationError`."""
        values = self._json(_HINTS, "file")
        return NO_HINTS if values is None else Hints(values)

    def put(self, message_type: str, schema: Struct, *, expected: Struct | None = _ANY) -> bool:
        """Write the schema of a type; readers see the old file or the new one. Return whether it was written.

        :param expected: the schema that :meth:`get` returned: if the file has another one meanwhile, it is not written.
            A local folder is locked for that, on S3 and Azure the write has a condition. On other stores only a new
            file is safe: an existing one is read again after the write.
        """
        stem, text = file_stem(message_type), write_schema({_TYPE: message_type, **read_schema(schema)}).encode()
        put = self._put_on_disk if self._folder.is_local else self._put_in_store
        try:
            self._folder.filesystem.makedirs(self._folder.root, exist_ok=True)
            return put(stem, text, expected)
        except SqlQueueError:
            raise
        except Exception as error:
            raise_staging_error(f"The schema of {message_type} cannot be written", error)

    def extend(self, message_type: str, schema: Struct) -> Struct:
        """Add the fields that the schema of a type has not, and return it; its own keep their types.

        If others write the file meanwhile, what they wrote gets the fields, up to 20 times. Raises
        :class:`StagingError`.
        """
        for attempt in range(_WRITES):
            before = self.get(message_type)
            after = read_schema(extended(before or EMPTY, schema))
            if after == before or self.put(message_type, after, expected=before):
                return after
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))  # noqa: S311 - no secret
        raise StagingError(f"The schema of {message_type} was written by others at each attempt: run this again.")

    def _put_on_disk(self, stem: str, text: bytes, expected: Struct | None) -> bool:
        import fcntl

        # The lock ends with its process; its file stays.
        with _opened(f"{self._folder.root}/.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._has(stem, expected):
                return False
            # A rename is at once; stores write an object at once.
            path = self._path(stem)
            new = Path(f"{path}.new")
            # A killed process of another user may have left it.
            new.unlink(missing_ok=True)
            new.write_bytes(text)
            os.replace(new, path)
            return True

    def _put_in_store(self, stem: str, text: bytes, expected: Struct | None) -> bool:
        filesystem, store, path = self._folder.filesystem, store_at(self._folder.uri), self._path(stem)
        filesystem.invalidate_cache()
        # Before the content: whatever is written after it is refused.
        info = filesystem.info(path) if filesystem.exists(path) else None
        if not self._has(stem, expected):
            return False
        condition: dict[str, Any] = {}
        if info is None:
            condition = {"mode": "create"}
        elif store is not None and store.unchanged is not None:
            condition = store.unchanged(info)
        try:
            filesystem.pipe_file(path, text, **({} if expected is _ANY else condition))
        except Exception as error:
            said = f"{error} {error.__cause__}"
            if isinstance(error, FileExistsError) or _CHANGED.search(said):
                return False
            if "NotImplemented" not in said:
                raise
            condition = {}
            filesystem.pipe_file(path, text)
        return bool(condition) or expected is _ANY or bool(filesystem.cat_file(path) == text)

    def _has(self, stem: str, expected: Struct | None) -> bool:
        if expected is _ANY:
            return True
        found = self._read(stem)
        return (found and found[1]) == (expected and read_schema(expected))

    def _read(self, stem: str) -> tuple[str, Struct] | None:
        values = self._json(stem, "schema")
        if values is None:
            return None
        try:
            schema = read_schema(values)
            named = values.get(_TYPE, type_of(stem))
            if not isinstance(named, str) or file_stem(named) != stem:
                name = f", {file_stem(named)}{_SUFFIX}" if isinstance(named, str) and named and is_text(named) else ""
                raise ConfigurationError(
                    f"its type is {quoted(str(named))}, whose file has another name{name}: rename one."
                )
        except SqlQueueError as error:
            raise ConfigurationError(f"The schema {stem}{_SUFFIX} cannot be used: {error}") from error
        return named, schema

    def _json(self, stem: str, what: str) -> Any:
        """Return the values of a file, None if it is missing."""
        try:
            content = self._folder.filesystem.cat_file(self._path(stem))
        except FileNotFoundError:
            return None
        except IsADirectoryError as error:
            raise _folder_error(stem, what) from error
        except Exception as error:
            raise_staging_error(f"The {what} {stem}{_SUFFIX} cannot be read", error)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"The {what} {stem}{_SUFFIX} is not JSON: mend or remove the file.") from error


def _opened(path: str) -> IO[str]:
    """Open a file for a lock; the one of another user, which a lock on a disk need not write, to read it."""
    try:
        return open(path, "a")
    except PermissionError:
        return open(path)


def _folder_error(stem: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"The {what} {stem}{_SUFFIX} is a folder: rename or remove it.")
