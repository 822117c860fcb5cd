"""Messages of the lake, back in a queue."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import audit_table, register, replay_messages
from airflow_sqlqueue.spark.jobs import replay as replay_program
from airflow_sqlqueue.traffic import generate_failed
from tests.spark.conftest import MakeBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 40


def test_a_replay_sends_each_message_once_and_without_its_failure(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, queue: QueueTable, settings: ConnectionSettings
) -> None:
    given: list[Message | str] = [*generate_failed(COUNT, seed=5), '{"a": 1}']
    rows = audit_table(spark, make_batch(given), str(tmp_path / "lake"))
    address = queue.address.canonical
    for _ in range(2):
        assert replay_messages(rows, address, "once", settings) == rows.count()
    found = list(queue.peek(2 * COUNT))
    assert len(found) == rows.count()
    expected: Counter[tuple[str, bytes | None]] = Counter()
    for message in given:
        if isinstance(message, str) or isinstance(message.headers, str):
            continue
        kept = {
            name: value
            for name, value in message.headers.items()
            if not name.startswith(("NServiceBus.ExceptionInfo.", "NServiceBus.FailedQ", "NServiceBus.TimeOfFailure"))
            and name not in (HeaderNames.IMMEDIATE_RETRIES, HeaderNames.DELAYED_RETRIES)
        }
        expected[json.dumps(kept, sort_keys=True), message.body] += 1
    back = Counter((json.dumps(json.loads(message.headers), sort_keys=True), message.body) for message in found)
    assert expected <= back
    assert '{"a": 1}' in {message.headers for message in found}
    assert {message.expires for message in found} == {None}


def test_the_program_replays_rows_that_match_a_condition(
    spark: SparkSession,
    make_batch: MakeBatch,
    tmp_path: Path,
    queue: QueueTable,
    server_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")  # as spark-submit has it
    monkeypatch.setenv("SQLQUEUE_URL", server_url)
    audit_table(spark, make_batch(["{}"] * 5), str(tmp_path / "lake"))
    where = ["--table", str(tmp_path / "lake"), "--where", "RowVersion IN (1, 3)"]
    assert replay_program.main([*where, "--queue", queue.address.canonical, "--send-id", "two"]) == 0
    assert capsys.readouterr().out == '{"messages": 2}\n'
    assert len(list(queue.peek(10))) == 2


def test_a_replay_leaves_the_server_of_other_reads_and_writes(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, queue: QueueTable, settings: ConnectionSettings
) -> None:
    register(spark, replace(settings, database="elsewhere"))
    rows = audit_table(spark, make_batch(["{}"]), str(tmp_path / "lake"))
    assert replay_messages(rows, queue.address.canonical, "there", settings) == 1
    with pytest.raises(Exception, match=r"refused the login .* for the database 'elsewhere'"):
        spark.read.format("sqlqueue").option("queue", queue.address.table).load().count()


def test_a_replay_needs_an_id_a_server_and_messages(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SQLQUEUE_URL", raising=False)
    rows = audit_table(spark, make_batch(["{}"]), str(tmp_path / "lake"))
    with pytest.raises(ConfigurationError, match="send id"):
        replay_messages(rows, "audit", " ")
    with pytest.raises(ConfigurationError, match="No server is named"):
        replay_messages(rows, "audit", "once")
    with pytest.raises(ConfigurationError, match="The rows have no column 'Id'"):
        replay_messages(spark.range(1), "audit", "once")
