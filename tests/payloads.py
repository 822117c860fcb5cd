"""Helpers of the tests on payloads: a data bus in a folder, messages that name payloads, and batches of them."""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.stages.part_file import PartFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.row import Row

KEY = "2020-01-31_08\\b43dfae2-02b8-4e72-89a2-1281bfaded5b"
"""Key of a file share, as Windows writes it, whose time to live has passed."""

SECRET = b64encode(b"the payload of a customer").decode()


def new_key() -> str:
    return f"2020-01-31_08\\{uuid.uuid4()}"


def put(folder: Path, key: str, content: bytes) -> str:
    """Write a payload as a file share has it, and return its key."""
    path = folder.joinpath(*key.split("\\"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return key


def names(**keys: str | None) -> dict[str, str | None]:
    """Headers of a message of the type Shop.Order that names payloads of its properties."""
    headers = {f"{HeaderNames.DATA_BUS_PREFIX}Shop.Order.{name}": key for name, key in keys.items()}
    return {HeaderNames.MESSAGE_ID: "id-1", HeaderNames.DATA_BUS_CONTENT_TYPE: "application/json", **headers}


def as_json(content: bytes) -> bytes:
    """Bytes as System.Text.Json writes them."""
    return json.dumps(b64encode(content).decode()).encode()


def staged(
    staging: StagingFolder, messages: Sequence[Mapping[str, str | None]], row_id: str | None = None
) -> tuple[Batch, list[Part]]:
    """A sealed batch of messages with these headers, in one part, and that part; with one Id or with their own."""
    batch_id, part_id = uuid.uuid4(), uuid.uuid4()
    rows = [
        Row(row_id or str(uuid.uuid4()), None, None, True, None, json.dumps(headers), b"{}", number, False)
        for number, headers in enumerate(messages, 1)
    ]
    file = PartFile(staging, str(batch_id), part_id)
    size = file.write(rows)
    file.close()
    part = Part(part_id, file.path, messages=len(rows), bytes=size, min_row_version=1, max_row_version=len(rows))
    paths = () if file.path is None else (file.path,)
    batch = Batch(str(batch_id), "q@[dbo]@[shop]", "sealed", paths, len(paths), messages=len(rows), bytes=size)
    return batch, [part]
