"""Folder of schemas: one JSON file for each message type, on a disk or in an object store.

Source: docs/guides/bodies.md, "Schemas".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any
from urllib.parse import unquote

from airflow_sqlqueue.bodies.schemas import Struct, read_schema, write_schema
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.untrusted import is_text, quoted

_SUFFIX = ".json"
_LONGEST = 100
_TYPE = "message_type"
_OTHERS = re.compile(r"[^A-Za-z0-9._+-]")


def file_stem(message_type: str) -> str:
    """Return the name of a type for files and folders: its own, with ``%20`` and the like for other characters.

    A long name is cut and gets a hash, so that no name is longer than file systems allow.
    """
    if not message_type or not is_text(message_type):
        raise ConfigurationError(f"{quoted(message_type)} is no name of a message type.")
    stem = _OTHERS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), message_type)
    # A name of dots alone is a folder's, and a leading underscore or dot hides a folder from Spark.
    stem = re.sub(r"^[._]", lambda found: f"%{ord(found[0]):02X}", stem)
    if len(stem) <= _LONGEST:
        return stem
    return f"{stem[:_LONGEST]}-{hashlib.sha256(message_type.encode()).hexdigest()[:16]}"


class SchemaFolder:
    """The schemas of a folder, by message type.

    :param location: a path or a URI, as a staging folder's; see :class:`~airflow_sqlqueue.StagingFolder`.
    """

    def __init__(self, location: str | os.PathLike[str] | StagingFolder) -> None:
        self._folder = StagingFolder.of(location)

    def _path(self, message_type: str) -> str:
        return f"{self._folder.root.rstrip('/')}/{file_stem(message_type)}{_SUFFIX}"

    def get(self, message_type: str) -> Struct | None:
        """Return the schema of a type, None without a file. Raises :class:`ConfigurationError` for an unusable file."""
        found = self._read(self._path(message_type))
        return None if found is None else found[1]

    def all(self) -> dict[str, Struct]:
        """Return all schemas by message type, in the order of their names."""
        filesystem = self._folder.filesystem
        filesystem.invalidate_cache()
        try:
            names = sorted(filesystem.ls(self._folder.root, detail=False))
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise_staging_error(f"The schemas in {self._folder.uri} cannot be listed", error)
        found = (self._read(name) for name in names if str(name).endswith(_SUFFIX))
        return dict(each for each in found if each is not None)

    def put(self, message_type: str, schema: Struct) -> None:
        """Write the schema of a type; readers see the old file or the new one."""
        filesystem, path = self._folder.filesystem, self._path(message_type)
        text = write_schema({_TYPE: message_type, **read_schema(schema)}).encode()
        try:
            filesystem.makedirs(self._folder.root, exist_ok=True)
            if self._folder.is_local:
                # A rename is at once; stores write an object at once.
                filesystem.pipe_file(f"{path}.new", text)
                os.replace(f"{path}.new", path)
            else:
                filesystem.pipe_file(path, text)
        except Exception as error:
            raise_staging_error(f"The schema of {message_type} cannot be written", error)

    def _read(self, path: str) -> tuple[str, Struct] | None:
        filesystem = self._folder.filesystem
        filesystem.invalidate_cache()
        name = path.rpartition("/")[2]
        try:
            content = filesystem.cat_file(path)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise_staging_error(f"The schema {name} cannot be read", error)
        try:
            values: Any = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"The schema {name} is not JSON: mend or remove the file.") from error
        try:
            schema = read_schema(values)
        except SqlQueueError as error:
            raise ConfigurationError(f"The schema {name} cannot be used: {error}") from error
        named = values.get(_TYPE) if isinstance(values, dict) else None
        return (named if isinstance(named, str) else unquote(name.removesuffix(_SUFFIX))), schema
