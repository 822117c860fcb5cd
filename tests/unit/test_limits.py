"""Limits of options: the least and the most value are taken, and those beside them are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import NamedTuple

import pytest

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.erase import EraseResult
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.sweep import SweepResult
from airflow_sqlqueue.endpoint.databus.batch_payloads import PayloadOptions
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import SLOW_DOWN, ConsumeOptions, ConsumeResult
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import Options
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue.condition import QueueCondition
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.forwarding import ForwardOptions
from airflow_sqlqueue.queue.purge import PurgeOptions
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.options import SourceOptions

LARGE = 10**9
TINY = 1e-9


class Limit(NamedTuple):
    """Limits of one option.

    :param make: makes the options of this one.
    :param most: None: there is no most value.
    :param step: the difference between two values that are next to each other.
    """

    make: Callable[..., object]
    name: str
    least: float
    most: float | None
    step: float

    @property
    def kind(self) -> Callable[..., object]:
        return self.make.func if isinstance(self.make, partial) else self.make

    def __str__(self) -> str:
        return f"{self.kind.__qualname__}-{self.name}"

    @property
    def within(self) -> list[float]:
        """Values that are taken."""
        return [self.least, self.least + self.step, LARGE if self.most is None else self.most]

    @property
    def beside(self) -> list[float]:
        """Values that are refused."""
        above = [] if self.most is None else [self.most + self.step]
        return [self.least - self.step, *above]


def source_option(**value: int) -> object:
    return SourceOptions({name: str(number) for name, number in value.items()}, *value).partitions


SLOW = partial(ConsumeOptions, on_consecutive_failures=SLOW_DOWN)
LIMITS = [
    Limit(ConsumeOptions, "max_messages", 1, None, 1),
    Limit(ConsumeOptions, "max_seconds", TINY, None, TINY),
    Limit(ConsumeOptions, "max_handlers", 1, 256, 1),
    Limit(ConsumeOptions, "poll_seconds", 0.1, None, 0.01),
    Limit(ConsumeOptions, "max_failed", 0, None, 1),
    Limit(SLOW, "max_consecutive_failures", 1, None, 1),
    Limit(ConsumeOptions, "slow_down_seconds", TINY, None, TINY),
    Limit(ConsumeOptions, "inbox_days", TINY, 10_000, TINY),
    Limit(ConsumeOptions, "payload_bytes", 1, 1024 * MIB, 1),
    Limit(RecoverabilityOptions, "immediate_retries", 0, 1_000_000, 1),
    Limit(RecoverabilityOptions, "delayed_retries", 0, 1_000_000, 1),
    Limit(RecoverabilityOptions, "delayed_retry_seconds", 0, 1_000_000, 0.001),
    Limit(MessageHandlers().batch, "max_messages", 1, 1_000, 1),
    Limit(MessageHandlers().batch, "max_seconds", 0, 60, 0.001),
    Limit(DrainOptions, "max_messages", 1, None, 1),
    Limit(DrainOptions, "max_seconds", TINY, None, TINY),
    Limit(DrainOptions, "max_bytes", 1, None, 1),
    Limit(DrainOptions, "rows_per_statement", 1, 2_000, 1),
    Limit(DrainOptions, "bytes_per_statement", 1, None, 1),
    Limit(DrainOptions, "rows_per_part", 1, None, 1),
    Limit(DrainOptions, "bytes_per_part", 1, None, 1),
    Limit(DrainOptions, "seconds_per_part", TINY, None, TINY),
    Limit(DrainOptions, "inline_body_bytes", 1, None, 1),
    Limit(DrainOptions, "workers", 1, 32, 1),
    Limit(DrainOptions, "locked_wait_seconds", 0, None, TINY),
    Limit(PayloadOptions, "payload_bytes", 1, 1024 * MIB, 1),
    Limit(PayloadOptions, "max_bytes", 1, None, 1),
    Limit(PayloadOptions, "workers", 1, 32, 1),
    Limit(ForwardOptions, "max_messages", 1, None, 1),
    Limit(ForwardOptions, "max_seconds", TINY, None, TINY),
    Limit(ForwardOptions, "chunk", 1, 2_000, 1),
    Limit(MoveOptions, "chunk", 1, 1_000, 1),
    Limit(PurgeOptions, "chunk", 1, 2_000, 1),
    Limit(PurgeOptions, "pause", 0, None, TINY),
    Limit(PurgeOptions, "lock_timeout", 0, None, TINY),
    Limit(ErrorQueueOptions, "max_messages", 1, None, 1),
    Limit(ErrorQueueOptions, "max_seconds", TINY, None, TINY),
    Limit(ErrorQueueOptions, "rate", TINY, None, TINY),
    Limit(ErrorQueueOptions, "rows_per_transaction", 1, 1_000, 1),
    Limit(ErrorQueueOptions, "bytes_per_transaction", 1, None, 1),
    Limit(QueueCondition, "min_messages", 1, None, 1),
    Limit(QueueCondition, "max_messages", 0, None, 1),
    Limit(QueueCondition, "oldest_seconds", TINY, None, TINY),
    Limit(QueueCondition, "min_expired", 1, None, 1),
    Limit(QueueCondition, "min_delayed", 1, None, 1),
    Limit(partial(ConnectionSettings, "host", user="sa", password="secret", database="queues"), "port", 1, 65_535, 1),
    Limit(source_option, "partitions", 1, 10_000, 1),
]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_values_within_the_limits_are_taken(limit: Limit) -> None:
    for value in limit.within:
        made = limit.make(**{limit.name: value})
        assert getattr(made, limit.name, value) == value


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_values_beside_the_limits_are_refused(limit: Limit) -> None:
    words = {"port": "TCP port"}
    for value in limit.beside:
        with pytest.raises(ConfigurationError, match=re.escape(words.get(limit.name, limit.name))):
            limit.make(**{limit.name: value})


def test_every_number_with_limits_is_tried() -> None:
    """In one of the classes that inherit it."""
    kinds = {limit.kind for limit in LIMITS if isinstance(limit.kind, type) and issubclass(limit.kind, Options)}
    options = {(kind, each.name): each.metadata["option"] for kind in kinds for each in fields(kind)}
    tried = [options.get((limit.kind, limit.name)) for limit in LIMITS]
    limited = {name for name, each in options.items() if (each.least, each.most, each.above) != (None, None, None)}
    assert [name for name in limited if not any(options[name] is each for each in tried)] == []


DEFAULTS: dict[type[Options], dict[str, object]] = {
    ConsumeOptions: {"max_handlers": 4, "inbox_days": 7, "payload_bytes": 64 * MIB, "until_empty": True},
    RecoverabilityOptions: {"immediate_retries": 5, "delayed_retries": 3, "delayed_retry_seconds": 10},
    DrainOptions: {
        "rows_per_part": 20_000,
        "bytes_per_part": 128 * MIB,
        "seconds_per_part": 20,
        "locked_wait_seconds": 5,
        "rows_per_statement": 2_000,
        "bytes_per_statement": 16 * MIB,
        "inline_body_bytes": 8 * MIB,
        "workers": 2,
    },
    PayloadOptions: {"payload_bytes": 64 * MIB, "max_bytes": 4096 * MIB, "workers": 4},
    ErrorQueueOptions: {"rows_per_transaction": 128, "bytes_per_transaction": 8 * MIB},
    ForwardOptions: {"chunk": 500},
    MoveOptions: {"chunk": 100},
    PurgeOptions: {"chunk": 1_000, "pause": 0, "lock_timeout": 5, "all_messages": False, "confirm": False},
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_a_run_without_options_is_what_it_was(kind: type[Options]) -> None:
    """Whoever leaves an option out relies on its default."""
    assert {name: getattr(kind(), name) for name in DEFAULTS[kind]} == DEFAULTS[kind]


@pytest.mark.parametrize("kind", [ConsumeResult, Counts, EraseResult, ErrorQueueResult, SweepResult])
def test_counts_begin_at_zero(kind: Callable[[], object]) -> None:
    assert not any(vars(kind()).values())
