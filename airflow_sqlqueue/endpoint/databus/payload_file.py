"""Payloads of a batch: the names of their files, their columns, and the manifest that says which file counts.

A try writes its payloads to a file of its own and then, in one step, ``payloads.json``, which names that file: a reader
finds all payloads of one try, or none. This module imports nothing heavy, because Spark's driver uses it too.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import GUID, Batch
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "payloads.json"
"""Name of the manifest of a batch's payloads, beside its parts."""

MAX_MANIFEST = 4_096
"""The most bytes of a manifest of payloads."""

REASONS = ("gone", "too_large", "refused", "unreadable", "over_limit")
GONE, TOO_LARGE, REFUSED, UNREADABLE, OVER_LIMIT = REASONS
"""Reasons for a payload without content."""

COLUMNS = {
    "Id": ("string", "string"),
    "RowVersion": ("int64", "long"),
    "message_id": ("string", "string"),
    "property": ("string", "string"),
    "key": ("string", "string"),
    "content_type": ("string", "string"),
    "content": ("binary", "binary"),
    "reason": ("string", "string"),
}
"""Columns of the file, with their types in Arrow and in Spark."""

_FILE = re.compile(rf"payloads-{GUID}\.parquet")


@dataclass(frozen=True)
class PayloadsResult:
    """Payloads of a batch, fetched: counts, and the name of their file beside the parts, None without payloads.

    ``fetched`` payloads have ``bytes`` of content. The others are in the file without content: ``gone`` from the data
    bus, ``too_large``, ``refused`` because of their keys, ``unreadable`` on a data bus that answers, or left out as the
    batch was ``over_limit``.
    """

    batch_id: str
    file: str | None = None
    fetched: int = 0
    bytes: int = 0
    gone: int = 0
    too_large: int = 0
    refused: int = 0
    unreadable: int = 0
    over_limit: int = 0

    @property
    def payloads(self) -> int:
        """Number of payloads that the messages name."""
        return self.fetched + self.gone + self.too_large + self.refused + self.unreadable + self.over_limit

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only."""
        return asdict(self)


def check_staged(batch: Batch) -> None:
    """Raise :class:`BatchError` for a batch that is open or was put back, :class:`ConfigurationError` for a table's."""
    batch.check_readable()
    if batch.stage != "files":
        raise ConfigurationError("Payloads are staged beside part files: drain with the stage files.")
    batch.check_files()


def read_result(content: bytes, batch_id: str) -> PayloadsResult:
    """Read the manifest of a batch's payloads. Raises :class:`BatchMismatchError` for one of another batch."""
    try:
        values = json.loads(content) if len(content) <= MAX_MANIFEST else None
    except (ValueError, RecursionError):
        values = None
    names = [field.name for field in fields(PayloadsResult)]
    if isinstance(values, dict) and list(values) == names and values["batch_id"] == batch_id:
        counts = [values[name] for name in names[2:]]
        file = values["file"]
        is_file = isinstance(file, str) and _FILE.fullmatch(file) is not None
        if all(type(count) is int and count >= 0 for count in counts) and (
            is_file or (file is None and not any(counts))
        ):
            return PayloadsResult(**values)
    raise BatchMismatchError(
        f"The file {MANIFEST} of batch {batch_id} is not what a fetch of its payloads wrote: it was changed; do not "
        "use the payloads."
    )


def arrow_schema() -> pa.Schema:
    """Arrow schema of the file."""
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}
    return pa.schema([pa.field(name, types[kind]) for name, (kind, _) in COLUMNS.items()])


def spark_schema() -> dict[str, Any]:
    """:func:`arrow_schema` in Spark's types, as JSON for ``StructType.fromJson``."""
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, (_, kind) in COLUMNS.items()
        ],
    }
