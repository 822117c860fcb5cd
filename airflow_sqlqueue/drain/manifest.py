"""The manifest of a batch: what a drain hands to the readers of its files.

It is JSON-safe and final once the batch is sealed, so it can lie in a file beside the parts, and travel through XCom,
where that file stands for the paths of a batch that has many. This module imports nothing heavy: Spark executors and
the scheduler read manifests too.

Source: docs/design.md, "The batch is what the ledger lists" and "Manifests".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.stores import is_staged
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, ConfigurationError

STATES = ("open", "sealed", "consumed", "requeued")
"""The life of a batch: it gathers parts, is closed to them, and then is either read for good or put back."""

UNFINISHED, FINISHED = STATES[:2], STATES[2:]
"""States of batches that somebody has still to work on or to read, and of those that are done with."""

STAGES = ("files", "table")
"""Where a batch's messages are until they are read: in Parquet files, or in a table beside the queue."""

LISTED_BYTES = 8 * 1024
"""Of paths, as JSON, that XCom carries. Beyond it one path stands for them all: XCom then has less than 16 kB."""

GUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The text of a batch's or a part's id, as a regular expression."""

_PART = re.compile(rf"part-({GUID})\.parquet")
_BODY = re.compile(rf"body-({GUID})-[0-9]{{6,}}\.bin")
_MANIFEST = re.compile(r"manifest-[0-9a-f]{64}\.json")
_FROZEN = ("batch_id", "queue", "stage", "kept", "messages", "expired", "quarantined", "bytes", "parts", "paths")
"""What the name of a manifest file vouches for. The order is part of it, and what is added later is not."""


@dataclass(frozen=True)
class Batch(Counts):
    """One batch as the ledger knows it.

    :param batch_id: the batch's id, the same for every attempt of one task.
    :param queue: the canonical address of the queue it was drained from.
    :param state: ``open``, ``sealed``, ``consumed`` or ``requeued``. Only a sealed batch's paths are final.
    :param paths: the part files, each exactly once: a path given twice would be read twice. None where the messages are
        staged in a table.
    :param messages: the number of messages staged.
    :param expired: the number of messages that had expired and were dropped when drained. They are not staged.
    :param bytes: the size of the bodies and headers that are staged, in bytes, before compression.
    :param parts: the number of parts that hold messages: of files, where the batch has files.
    :param quarantined: the number of messages that no file can keep and that stand in the quarantine table instead.
    :param stage: ``files`` or ``table``.
    :param kept: whether the messages were copied and stayed in the queue; those that had expired or that no file can
        keep were left out and counted.

    Raises :class:`ConfigurationError` where the fields contradict each other or have the wrong type.
    """

    batch_id: str
    queue: str
    state: str
    paths: tuple[str, ...]
    parts: int
    stage: str = "files"
    kept: bool = False

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
        if not isinstance(self.paths, tuple) or not all(isinstance(path, str) and path for path in self.paths):
            raise ConfigurationError("A batch's paths are a tuple of texts, none of them empty.")
        for name, value in {"parts": self.parts, **self.counters}.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ConfigurationError(f"A batch's {name} is a whole number of zero or more, not {value!r}.")
        if len(self.paths) != len(set(self.paths)):
            raise ConfigurationError(f"Batch {self.batch_id} names a file twice, which would be read twice.")
        files = self.parts if self.stage == "files" else 0
        if files != len(self.paths):
            raise ConfigurationError(f"Batch {self.batch_id} has {files} files but names {len(self.paths)}.")
        if self.messages and not self.parts:
            raise ConfigurationError(f"Batch {self.batch_id} has {self.messages} messages but no part.")

    def to_dict(self) -> dict[str, Any]:
        """The batch as JSON values only: what a manifest file holds. :meth:`from_dict` reads it."""
        own = {name: value for name, value in vars(self).items() if name not in self.counters}
        return {**own, "paths": list(self.paths), **self.counters}

    def to_reference(self) -> dict[str, Any]:
        """What XCom has: :meth:`to_dict`, less than 16 kB, whatever the number of parts.

        Where the paths take more than 8 kB, :attr:`manifest_path` stands for them under ``manifest``. Such a dictionary
        is read by :func:`airflow_sqlqueue.spark.load_batch` and :meth:`.client.batches.BatchManager.load`.
        """
        values = self.to_dict()
        if self.is_listed:
            return values
        del values["paths"]
        return {**values, "manifest": self.manifest_path}

    @property
    def is_listed(self) -> bool:
        """Whether :meth:`to_reference` has all paths, so that there is no manifest file."""
        return sum(len(json.dumps(path)) for path in self.paths) <= LISTED_BYTES

    @property
    def manifest_path(self) -> str:
        """The URI of the manifest file of a batch with many paths, beside its parts.

        Its name is a hash of what was frozen at the seal, so it is the same for everyone who asks the ledger, and an
        edited file is noticed.
        """
        frozen = json.dumps([vars(self)[name] for name in _FROZEN])
        folder = self.paths[0].rpartition("/")[0]
        return f"{folder}/manifest-{hashlib.sha256(frozen.encode()).hexdigest()}.json"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Batch:
        """The batch that :meth:`to_dict` wrote.

        Raises :class:`ConfigurationError` for a missing or an unknown key (a manifest of another version), for a
        reference to a manifest file (:meth:`to_reference`), and as the constructor does.
        """
        cls.check_names(values)
        if "manifest" in values:
            raise ConfigurationError(
                "The paths of this batch stand in its manifest file: read it by load_batch of airflow_sqlqueue, or by "
                "client.batches.load."
            )
        paths = values["paths"]
        return cls(**{**values, "paths": tuple(paths) if isinstance(paths, (list, tuple)) else paths})

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` for a missing or an unknown key; ``manifest`` may stand for ``paths``."""
        if not isinstance(values, Mapping):
            raise ConfigurationError(f"A manifest is a JSON object, not {type(values).__name__}.")
        given = {"paths" if name == "manifest" else name for name in values}
        known = {field.name for field in fields(cls)}
        needed = known - {"quarantined", "stage", "kept"}
        for problem, names in (("does not know", given - known), ("misses", needed - given)):
            if names:
                listed = ", ".join(sorted(map(str, names)))
                raise ConfigurationError(f"This version {problem} the manifest's {listed}: does it come from another?")

    def check_same(self, values: Mapping[str, Any]) -> None:
        """Raise :class:`BatchMismatchError` where a dictionary, with paths or with ``manifest``, is of another batch.

        The batch is what the ledger or its manifest file says, and the dictionary comes from where others may write. It
        may be older: states are not compared.
        """
        known: dict[str, Any] = {**self.to_dict(), "state": values.get("state")}
        if "manifest" in values:
            del known["paths"]
            known["manifest"] = self.manifest_path if self.paths else None
        elif isinstance(values.get("paths"), tuple):
            known["paths"] = self.paths
        if any(name not in known or known[name] != value for name, value in values.items()):
            raise BatchMismatchError(
                f"What was given as the manifest of batch {self.batch_id} is not what its drain wrote: it was changed, "
                "or is another database's; do not use it."
            )

    def check_readable(self) -> None:
        """Raise :class:`BatchError` for a batch that is open or was put back."""
        check_readable(self.batch_id, self.state)

    def check_files(self, body_files: Iterable[str] = ()) -> None:
        """Raise :class:`BatchMismatchError` for a file that cannot be this batch's, as a drain names them.

        The part files stand in one folder, on a disk or a store, that has the batch's id for its name, and each of
        ``body_files`` beside the part that it belongs to. A manifest and the rows of a part come from where others may
        write.
        """
        folders, parts = set(), set()
        for path in self.paths:
            folder, _, name = path.rpartition("/")
            found = _PART.fullmatch(name)
            steps = folder.split("/")
            if not found or steps[-1] != self.batch_id or {"..", "."} & set(steps) or not is_staged(path):
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
    """The manifest file that a dictionary of :meth:`Batch.to_reference` names.

    Raises :class:`BatchMismatchError` for a name that cannot be that of a manifest file in the batch's folder.
    """
    path, batch_id = values["manifest"], values.get("batch_id")
    steps = path.split("/") if isinstance(path, str) else [""]
    if not is_manifest(steps[-1]) or steps[-2:-1] != [batch_id] or {"..", "."} & set(steps) or not is_staged(path):
        raise BatchMismatchError(
            f"The manifest file of batch {batch_id} is not one that its drain wrote: what names it was changed; do not "
            "use it."
        )
    return str(path)


def is_manifest(name: str) -> bool:
    """Whether a file's name is that of a manifest file which a drain writes."""
    return _MANIFEST.fullmatch(name) is not None
