"""Options of payloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.drain.options import FILE_MODES
from airflow_sqlqueue.options import BYTES, Options, option
from airflow_sqlqueue.options.budget import MIB

PAYLOAD_BYTES = 64 * MIB
"""Default limit in bytes of one payload."""

SIZE_OF_A_PAYLOAD: Mapping[str, Any] = {"unit": BYTES, "least": 1, "most": 1024 * MIB}
"""Limits of an option for the largest payload: Spark holds a value of up to 2 GiB."""


@dataclass(frozen=True, kw_only=True)
class PayloadOptions(Options):
    """Limits of the payloads of one batch. Memory holds ``payload_bytes`` for each worker, and 32 MiB.

    A payload over a limit is recorded without its content.
    """

    payload_bytes: int = option(PAYLOAD_BYTES, "the largest payload that is fetched", **SIZE_OF_A_PAYLOAD)
    max_bytes: int = option(
        4096 * MIB, "the most bytes of all payloads of the batch", unit=BYTES, above=0, form="--max-payload-bytes"
    )
    workers: int = option(
        4,
        "number of payloads that are fetched at the same time",
        least=1,
        most=32,
        because="each holds a payload in memory",
        form=None,
    )
    readable_by: str | None = option(
        None,
        "users who may read the file on a disk, by default those of the part files",
        choices=tuple(FILE_MODES),
        form=None,
    )
