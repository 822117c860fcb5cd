"""Limits of options: the least and the most value are taken, and those beside them are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_sqlqueue.budget import MIB
from airflow_sqlqueue.consuming.message_handlers import MessageHandlers
from airflow_sqlqueue.consuming.options import SLOW_DOWN, ConsumeOptions
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.databus.batch_payloads import PayloadOptions
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.purge import PurgeOptions
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.options import SourceOptions

Make = Callable[..., object]

LARGE = 2**40
TINY = 1e-9


def source_option(**value: int) -> object:
    return SourceOptions({name: str(number) for name, number in value.items()}, *value).partitions


SLOW = partial(ConsumeOptions, on_consecutive_failures=SLOW_DOWN)
LIMITS: list[tuple[Make, str, float, float | None, float]] = [
    # What makes the options, the name, the least value, the most value, and the step between values.
    (ConsumeOptions, "max_messages", 1, None, 1),
    (ConsumeOptions, "max_seconds", TINY, None, TINY),
    (ConsumeOptions, "max_handlers", 1, 256, 1),
    (ConsumeOptions, "poll_seconds", 0.1, None, 0.01),
    (ConsumeOptions, "heartbeat_seconds", 0.1, None, 0.01),
    (ConsumeOptions, "max_failed", 0, None, 1),
    (SLOW, "max_consecutive_failures", 1, None, 1),
    (ConsumeOptions, "slow_down_seconds", TINY, None, TINY),
    (ConsumeOptions, "inbox_days", TINY, 10_000, TINY),
    (RecoverabilityOptions, "immediate_retries", 0, 1_000_000, 1),
    (RecoverabilityOptions, "delayed_retries", 0, 1_000_000, 1),
    (RecoverabilityOptions, "delayed_retry_seconds", 0, 1_000_000, 0.001),
    (MessageHandlers().batch, "max_messages", 1, 1_000, 1),
    (MessageHandlers().batch, "max_seconds", 0, 60, 0.001),
    (DrainOptions, "max_messages", 1, None, 1),
    (DrainOptions, "max_bytes", 1, None, 1),
    (DrainOptions, "rows_per_statement", 1, 2_000, 1),
    (DrainOptions, "bytes_per_statement", 1, None, 1),
    (DrainOptions, "rows_per_part", 1, None, 1),
    (DrainOptions, "bytes_per_part", 1, None, 1),
    (DrainOptions, "seconds_per_part", TINY, None, TINY),
    (DrainOptions, "inline_body_bytes", 1, None, 1),
    (DrainOptions, "workers", 1, 32, 1),
    (DrainOptions, "settle_seconds", 0, None, TINY),
    (PayloadOptions, "payload_bytes", 1, 1024 * MIB, 1),
    (PayloadOptions, "max_bytes", 1, None, 1),
    (PayloadOptions, "workers", 1, 32, 1),
    (PurgeOptions, "chunk", 1, 2_000, 1),
    (PurgeOptions, "pause", 0, None, TINY),
    (PurgeOptions, "lock_timeout", 0, None, TINY),
    (ErrorQueueOptions, "rate", TINY, None, TINY),
    (ErrorQueueOptions, "rows_per_transaction", 1, 1_000, 1),
    (ErrorQueueOptions, "bytes_per_transaction", 1, None, 1),
    (partial(ConnectionSettings, "host", user="sa", password="secret", database="queues"), "port", 1, 65_535, 1),
    (source_option, "partitions", 1, 10_000, 1),
]


def shown(value: Any) -> str:
    return getattr(getattr(value, "func", value), "__qualname__", "")


@pytest.mark.parametrize(
    ("make", "name", "least", "most", "step"), LIMITS, ids=lambda value: shown(value) or str(value)
)
def test_values_within_the_limits_are_taken(
    make: Make, name: str, least: float, most: float | None, step: float
) -> None:
    for value in (least, least + step, LARGE if most is None else most):
        made = make(**{name: value})
        assert getattr(made, name, value) == value


@pytest.mark.parametrize(
    ("make", "name", "least", "most", "step"), LIMITS, ids=lambda value: shown(value) or str(value)
)
def test_values_beside_the_limits_are_refused(
    make: Make, name: str, least: float, most: float | None, step: float
) -> None:
    words = {"port": "TCP port", "chunk": "1 to 2000", "lock_timeout": "lock timeout"}
    for value in (least - step, *(() if most is None else (most + step,))):
        with pytest.raises(ConfigurationError, match=re.escape(words.get(name, name))):
            make(**{name: value})
