"""Manifest of a batch: the drain's result for the readers of its files.

It has JSON values only and is final once the batch is sealed, so it can be a file beside the parts, and travel through
XCom; a batch with many paths has the path of that file in XCom instead. This module imports nothing heavy: Spark
executors and the scheduler read manifests too.

Source: docs/design.md, "The batch is what the ledger lists" and "Manifests".
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.stores import is_staged
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, ConfigurationError
from airflow_sqlqueue.untrusted import quoted

STATES = ("open", "sealed", "consumed", "requeued")
"""States of a batch: it gathers parts, is closed to them, and then is either read for good or put back."""

UNFINISHED, FINISHED = STATES[:2], STATES[2:]
"""States of batches that still have to be drained or read, and of finished batches."""

STAGES = ("files", "table")
"""Stages, which hold a batch's messages until they are read: Parquet files, or a table beside the queue."""

LISTED_BYTES = 8 * 1024
"""Maximum bytes of paths, as JSON, in XCom; above it XCom has the path of the manifest file. XCom stays below 16 kB."""

GUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Regular expression for the id of a batch or a part."""

_PART = re.compile(rf"part-({GUID})\.parquet")
_BODY = re.compile(rf"body-({GUID})-[0-9]{{6,}}\.bin")
_FOLDER = re.compile(rf"({GUID})(-[0-9a-f]{{8}})?")
_HASH = re.compile(r"[0-9a-f]{64}")
_MANIFEST = re.compile(r"manifest-[0-9a-f]{64}\.json")
_UNERASED = ("batch_id", "queue", "stage", "kept", "redacted")
"""Fields that stay the same when messages are erased from a batch."""

_FROZEN = ("batch_id", "queue", "stage", "kept", "messages", "expired", "quarantined", "bytes", "parts", "paths")
"""Fields in the hash that names a manifest file. The order is part of it; fields that were added later are not."""


@dataclass(frozen=True)
class Batch(Counts):
    """Manifest of a batch: its id, its state and its parts, as the ledger lists them.

    :param batch_id: the batch's id, the same for every attempt of one task.
    :param queue: the canonical address of the drained queue.
    :param state: ``open``, ``sealed``, ``consumed`` or ``requeued``. Only a sealed batch's paths are final.
    :param paths: the part files, each exactly once: a path given twice would be read twice. Empty if the messages are
        staged in a table.
    :param messages: the number of messages staged.
    :param expired: the number of expired messages, which were dropped when drained. They are not staged.
    :param bytes: the size of the staged bodies and headers, in bytes, before compression.
    :param parts: the number of parts that hold messages; if the batch has files, the number of files.
    :param quarantined: the number of messages that no file can keep, which are in the quarantine table instead.
    :param stage: ``files`` or ``table``.
    :param kept: True if the messages were copied and stayed in the queue; expired messages and those that no file can
        keep were left out and counted.
    :param redacted: the fingerprint of the rules that changed the messages before they were staged, None without rules.
    :param erased: the number of messages that were removed from the batch after the seal; its files are others then.

    Raises :class:`ConfigurationError` if the fields contradict each other or have the wrong type.
    """

    batch_id: str
    queue: str
    state: str
    paths: tuple[str, ...]
    parts: int
    stage: str = "files"
    kept: bool = False
    redacted: str | None = None
    erased: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_id", "queue"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigurationError(f"A batch's {name} is text that is not empty.")
        if self.state not in STATES:
            raise ConfigurationError(f"A batch's state is one of {', '.join(STATES)}, not {self.state!r}.")
        if self.stage not in STAGES:
            raise ConfigurationError(f"A batch's stage is one of {', '.join(STAGES)}, not {self.stage!r}.")
        if not isinstance(self.kept, bool):
            raise ConfigurationError(f"A batch's kept is true or false, not {self.kept!r}.")
        if self.redacted is not None and not (isinstance(self.redacted, str) and _HASH.fullmatch(self.redacted)):
            raise ConfigurationError("A batch's redacted is the fingerprint of rules, or null.")
        if not isinstance(self.paths, tuple) or not all(isinstance(path, str) and path for path in self.paths):
            raise ConfigurationError("A batch's paths are a tuple of texts, none of them empty.")
        for name, value in {"parts": self.parts, "erased": self.erased, **self.counters}.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ConfigurationError(f"A batch's {name} is a whole number of zero or more, not {value!r}.")
        if len(self.paths) != len(set(self.paths)):
            raise ConfigurationError(f"Batch {self.batch_id} names a file twice, which would be read twice.")
        files = self.parts if self.stage == "files" else 0
        if files != len(self.paths):
            raise ConfigurationError(f"Batch {self.batch_id} has {files} files but names {len(self.paths)}.")
        if self.messages and not self.parts:
            raise ConfigurationError(f"Batch {self.batch_id} has {self.messages} messages but no part.")

    @property
    def folder(self) -> str:
        """Name of the folder with the batch's files; a batch without files has none."""
        return self.paths[0].split("/")[-2]

    @property
    def uuid(self) -> UUID:
        """Batch id as a UUID. Raises :class:`ConfigurationError` for another text."""
        try:
            return UUID(self.batch_id)
        except ValueError:
            raise ConfigurationError(
                f"The batch id {quoted(self.batch_id)} is no UUID: give the manifest that a drain wrote."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only, the content of a manifest file. :meth:`from_dict` reads them."""
        own = {name: value for name, value in vars(self).items() if name not in self.counters}
        return {**own, "paths": list(self.paths), **self.counters}

    def to_reference(self) -> dict[str, Any]:
        """Return the values for XCom: :meth:`to_dict`, less than 16 kB for any number of parts.

        If the paths take more than 8 kB, the dictionary has :attr:`manifest_path` under ``manifest`` instead.
        :func:`airflow_sqlqueue.spark.load_batch` and :meth:`.client.batch_manager.BatchManager.load` read it.
        """
        values = self.to_dict()
        if self.is_listed:
            return values
        del values["paths"]
        return {**values, "manifest": self.manifest_path}

    @property
    def is_listed(self) -> bool:
        """True if :meth:`to_reference` has all paths, so that no manifest file is written."""
        return sum(len(json.dumps(path)) for path in self.paths) <= LISTED_BYTES

    @property
    def manifest_path(self) -> str:
        """URI of the manifest file of a batch with many paths, beside its parts.

        Its name is a hash of the fields that are final at the seal, so every reader of the ledger gets the same name,
        and an edited file does not match its name.
        """
        frozen = json.dumps([vars(self)[name] for name in _FROZEN])
        folder = self.paths[0].rpartition("/")[0]
        return f"{folder}/manifest-{hashlib.sha256(frozen.encode()).hexdigest()}.json"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Batch:
        """Make the batch from the dictionary of :meth:`to_dict`.

        Raises :class:`ConfigurationError` for a missing or an unknown key (a manifest of another version), for a
        reference to a manifest file (:meth:`to_reference`), and as the constructor does.
        """
        cls.check_names(values)
        if "manifest" in values:
            raise ConfigurationError(
                "The paths of this batch are in its manifest file: read it by load_batch of airflow_sqlqueue, or by "
                "client.batches.load."
            )
        paths = values["paths"]
        return cls(**{**values, "paths": tuple(paths) if isinstance(paths, (list, tuple)) else paths})

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` for a missing or an unknown key; ``manifest`` may replace ``paths``."""
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A manifest is a JSON object, not {type(values).__name__}.")
        given = {"paths" if name == "manifest" else name for name in values}
        known = {field.name for field in fields(cls)}
        needed = known - {"quarantined", "stage", "kept", "redacted", "erased"}
        for problem, names in (("does not know", given - known), ("misses", needed - given)):
            if names:
                listed = ", ".join(sorted(map(str, names)))
                raise ConfigurationError(f"This version {problem} the manifest's {listed}: does it come from another?")

    def check_same(self, values: Mapping[str, Any]) -> None:
        """Raise :class:`BatchMismatchError` if a dictionary, with paths or with ``manifest``, is of another batch.

        The batch comes from the ledger or its manifest file, the dictionary from a place where others may write. The
        dictionary may be older: states are not compared, and neither are files and counts if messages were erased
        since.
        """
        known: dict[str, Any] = {**self.to_dict(), "state": values.get("state")}
        earlier = values.get("erased", 0)
        if isinstance(earlier, int) and earlier < self.erased:
            values = {name: values[name] for name in values if name in _UNERASED}
        if "manifest" in values:
            del known["paths"]
            known["manifest"] = self.manifest_path if self.paths else None
        elif isinstance(values.get("paths"), tuple):
            known["paths"] = self.paths
        if any(name not in known or known[name] != value for name, value in values.items()):
            raise BatchMismatchError(
                f"The given manifest of batch {self.batch_id} is not what its drain wrote: it was changed, or belongs "
                "to another database; do not use it."
            )

    def check_readable(self) -> None:
        """Raise :class:`BatchError` for a batch that is open or was put back."""
        check_readable(self.batch_id, self.state)

    def check_files(self, body_files: Iterable[str] = ()) -> None:
        """Raise :class:`BatchMismatchError` for a file whose name a drain of this batch cannot have given.

        The part files are in one folder, on a disk or a store, whose name has the batch's id; each of ``body_files``
        is beside the part that it belongs to. A manifest and the rows of a part come from places where others may
        write.
        """
        folders, parts = set(), set()
        for path in self.paths:
            folder, _, name = path.rpartition("/")
            found = _PART.fullmatch(name)
            steps = folder.split("/")
            if not found or not is_folder_of(self.batch_id, steps[-1]) or not is_staged(path):
                raise self._foreign("A part file")
            folders.add(folder)
            parts.add(found[1])
        if len(folders) > 1:
            raise self._foreign("A part file")
        for path in body_files:
            folder, _, name = path.rpartition("/")
            found = _BODY.fullmatch(name)
            if not found or folder not in folders or found[1] not in parts:
                raise self._foreign("The file of a body")

    def _foreign(self, what: str) -> BatchMismatchError:
        return BatchMismatchError(
            f"{what} of batch {self.batch_id} is not one that its drain wrote: the manifest or a file was changed; do "
            "not use the batch."
        )


def check_readable(batch_id: object, state: str) -> None:
    """Raise :class:`BatchError` for a batch that is open or was put back."""
    if state not in ("sealed", "consumed"):
        reason = "; this one was put back into its queue" if state == "requeued" else ""
        raise BatchError(f"Batch {batch_id} is {state}: only a sealed or a consumed one can be read{reason}.")


def manifest_of(values: Mapping[str, Any]) -> str:
    """Return the path of the manifest file that a dictionary of :meth:`Batch.to_reference` names.

    Raises :class:`BatchMismatchError` for a name that no manifest file in the batch's folder can have.
    """
    path, batch_id = values["manifest"], values.get("batch_id")
    folder, name = ["", "", *(path.split("/") if isinstance(path, str) else [])][-2:]
    if not is_manifest(name) or not is_folder_of(batch_id, folder) or not is_staged(path):
        raise BatchMismatchError(
            f"The manifest file of batch {batch_id} is not one that its drain wrote: the reference was changed; do not "
            "use it."
        )
    return str(path)


def new_folder(batch_id: UUID) -> str:
    """Return a name for the folder of a new batch: its id, and eight random digits.

    Two databases have a batch with the same id where two environments run the same DAG. In one staging folder neither
    may write to the batch of the other, and no sweep may remove it.
    """
    return f"{batch_id}-{secrets.token_hex(4)}"


def batch_of(folder: str) -> str | None:
    """Return the id of the batch whose folder has a name, with or without the digits; None for other folders."""
    found = _FOLDER.fullmatch(folder)
    return found and found[1]


def is_folder_of(batch_id: object, folder: str) -> bool:
    """Return whether a drain can have given this name to the folder of the batch."""
    return folder == batch_id or batch_of(folder) == batch_id


def is_manifest(name: str) -> bool:
    """Return whether a file has the name of a manifest file."""
    return _MANIFEST.fullmatch(name) is not None
