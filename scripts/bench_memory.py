"""Memory of a drain with the default settings, for bodies between 1 byte and 64 MiB.

The drain runs in a process of its own, this module as a program; the figure is the peak of its resident memory. Every
body is then compared with the sent one, by its hash.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import pyarrow.parquet as pq
from bench_report import Comparison

from airflow_sqlqueue import AddressResolver, ConnectionSettings, Message
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import load_pyodbc

MB, MIB = 1_000_000, 1024 * 1024
_READ = 4 * MIB


class BodiesDifferError(Exception):
    """A drained body is not the one that was sent."""


def compare_memory(
    queue: QueueTable, *, total: int = 2_000 * MB, largest: int = 64 * MIB, limit: int = 600 * MB
) -> list[Comparison]:
    """Compare the peak of a drain of ``total`` bytes of bodies with a limit, all in bytes.

    Raises :class:`BodiesDifferError`.
    """
    sizes = body_sizes(total, largest)
    sent: dict[str, str] = {}
    queue.send(_messages(sizes, sent))
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        started = time.monotonic()
        drained = _drain_apart(queue, folder)
        seconds = time.monotonic() - started
        check_bodies(drained["paths"], sent)
    note = (
        f"{len(sizes):,} bodies of {min(sizes)} to {max(sizes):,} bytes in {seconds:.0f} s; "
        f"{drained['imported'] / MB:.0f} MB after the imports"
    )
    name = f"drain of {sum(sizes) / MB:,.0f} MB"
    return [Comparison(name, drained["peak"] / MB, "limit", limit / MB, 1.0, limit=True, unit="MB", note=note)]


def body_sizes(total: int, largest: int) -> list[int]:
    """Sizes whose sum is ``total``, the same in every run: as many bodies of 1 to 2 bytes as of 1 to 2 megabytes.

    They include one of a byte and some of the largest size.
    """
    rng = Random(7)  # noqa: S311 - repeatable on purpose
    sizes = [1, *[largest] * max(2, total // (8 * largest))]
    left = total - sum(sizes)
    while left > 0:
        sizes.append(min(left, int(largest ** rng.random())))
        left -= sizes[-1]
    rng.shuffle(sizes)
    return sizes


def _messages(sizes: Sequence[int], sent: dict[str, str]) -> Iterator[Message]:
    """Yield the messages with incompressible bodies; ``sent`` gets their ids and hashes."""
    rng = Random(11)  # noqa: S311 - repeatable on purpose
    for size in sizes:
        body, identity = rng.randbytes(size), uuid.UUID(int=rng.getrandbits(128))
        sent[str(identity)] = hashlib.sha256(body).hexdigest()
        yield Message({"NServiceBus.MessageId": str(identity)}, body, id=identity)


def _drain_apart(queue: QueueTable, folder: str) -> Any:
    """Drain in a process of its own; return the paths and its memory after the imports and at its peak, in bytes."""
    # By stdin, because other users can see command lines and environments.
    task = {"settings": asdict(queue.session.settings), "queue": queue.address.table, "folder": folder}
    command = [sys.executable, __file__]
    done = subprocess.run(command, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _drain_here() -> None:
    task = json.loads(sys.stdin.read())
    settings = ConnectionSettings(**task["settings"])
    address = AddressResolver(default_catalog=settings.database).resolve(task["queue"])
    load_pyodbc()
    imported = _peak()
    result = Drain(lambda: Session(settings), address, StagingFolder.of(Path(task["folder"]))).run()
    print(json.dumps({"paths": result.batch.paths, "imported": imported, "peak": _peak()}))  # noqa: T201


def _peak() -> int:
    """Return the peak of this process's resident memory so far, in bytes."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not ru_maxrss, which on Linux starts with the memory of the parent at the fork.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def check_bodies(paths: Sequence[str], sent: dict[str, str]) -> None:
    """Compare the messages in part files with the sent ones, by their ids and the hashes of their bodies.

    Raises :class:`BodiesDifferError` for a missing, doubled or changed message.
    """
    left = dict(sent)
    for path in paths:
        with fsspec.open(path) as stream, pq.ParquetFile(stream) as file:
            names = [name for name in ("Id", "Body", "BodyFile") if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=1, columns=names):
                (row,) = batch.to_pylist()
                if left.pop(row["Id"], None) != _hash(row):
                    raise BodiesDifferError(f"The body of the message {row['Id']} in {path} is not the one sent.")
    if left:
        raise BodiesDifferError(f"{len(left)} of {len(sent)} messages are in no file.")


def _hash(row: dict[str, Any]) -> str:
    """Return the hash of the body in the row, or in the file that the row names."""
    if row.get("BodyFile") is None:
        return hashlib.sha256(row["Body"]).hexdigest()
    found = hashlib.sha256()
    with fsspec.open(row["BodyFile"]) as stream:
        while piece := stream.read(_READ):
            found.update(piece)
    return found.hexdigest()


if __name__ == "__main__":
    _drain_here()
