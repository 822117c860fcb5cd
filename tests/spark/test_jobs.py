"""Jobs on a shop's traffic and on malformed messages."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, first_type
from airflow_sqlqueue.spark import audit_table
from airflow_sqlqueue.spark.jobs import audit as audit_program
from airflow_sqlqueue.spark.jobs import replay as replay_program
from airflow_sqlqueue.traffic import DEFAULT_START, generate
from tests.docs.markdown import ROOT, blocks
from tests.spark.conftest import MakeBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 1_500


def type_of(message: Message) -> str | None:
    return first_type(message.header(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "")


def test_the_table_has_the_batch_once_and_no_other_batch_touched(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    table = str(tmp_path / "lake")
    moment = format_time(DEFAULT_START)
    late = [Message({HeaderNames.TIME_SENT: "0001-01-01 00:00:00:000000 Z"}), Message({}), Message({})]
    audit_table(spark, make_batch(late, batch_id="first"), table)
    second = make_batch([Message({HeaderNames.TIME_SENT: moment}, b"12345")], batch_id="second")
    audit_table(spark, second, table)
    # Run again with other days, as with a newer version of the job: nothing of before is left.
    again = audit_table(
        spark, make_batch([Message({HeaderNames.TIME_SENT: moment})] * 3, batch_id="first", parts=1), table
    )
    assert again.count() == 3
    rows = spark.read.parquet(table).select("batch_id", "day", "body_bytes").collect()
    days = Counter((row["batch_id"], f"{row['day']}", row["body_bytes"]) for row in rows)
    assert days == {("first", f"{DEFAULT_START:%Y-%m-%d}", 0): 3, ("second", f"{DEFAULT_START:%Y-%m-%d}", 5): 1}


def test_a_table_is_not_touched_for_a_batch_that_is_not_whole(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    batch = make_batch(["{}"] * 3)
    with pytest.raises(BatchMismatchError):
        audit_table(spark, replace(batch, messages=4), str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()


def test_a_table_with_another_number_of_rows_fails_the_job(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may read a file twice, the second time without rows that were there when they were counted."""
    monkeypatch.setattr(audit_program, "verify_count", Mock())
    batch = replace(make_batch(["{}"] * 3), messages=4)
    with pytest.raises(BatchMismatchError, match=r"^3 rows of batch .* were written, the ledger has 4: run it again"):
        audit_table(spark, batch, str(tmp_path / "lake"))


def test_the_figures_of_the_guide_are_those_that_python_finds(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    messages = list(generate(COUNT, seed=4))
    (block,) = [each for each in blocks(ROOT / "docs" / "guides" / "spark.md") if "def figures(" in each.text]
    names: dict[str, Any] = {}
    exec(compile(block.padded, str(block.page), "exec"), names)
    times, failures = names["figures"](spark, make_batch(messages), str(tmp_path / "lake"))
    milliseconds = defaultdict(list)
    failed: Counter[tuple[str | None, ...]] = Counter()
    for message in messages:
        if isinstance(message.headers, str) or (message.time_to_be_received or timedelta(0)) < timedelta(0):
            continue
        endpoint = message.header(HeaderNames.PROCESSING_ENDPOINT)
        began, ended = (parse_time(message.header(f"NServiceBus.Processing{word}")) for word in ("Started", "Ended"))
        if began and ended:
            milliseconds[endpoint].append((ended - began).total_seconds() * 1_000)
        at = parse_time(message.header(HeaderNames.TIME_OF_FAILURE))
        if at is not None:
            failed[message.header(HeaderNames.EXCEPTION_TYPE), type_of(message), endpoint, f"{at:%Y-%m-%d}"] += 1
    assert {row["processing_endpoint"]: row["messages"] for row in times} == {
        endpoint: len(values) for endpoint, values in milliseconds.items()
    }
    for row in times:
        ranked = sorted(milliseconds[row["processing_endpoint"]])
        p50, p90, p99 = row["p50_p90_p99_ms"]
        assert p50 == pytest.approx(ranked[(len(ranked) - 1) // 2])
        assert p50 <= p90 <= p99 <= ranked[-1]
    keys = ("exception_type", "message_type", "processing_endpoint")
    assert {(*(row[key] for key in keys), f"{row['day']}"): row["messages"] for row in failures} == failed


def hostile(name: str) -> list[Message | str]:
    """Circles, messages that cause themselves, causes that are not there, no headers, and headers of other types."""
    moment, before = format_time(DEFAULT_START), format_time(DEFAULT_START - timedelta(seconds=1))

    def related(message_id: str, cause: str, kind: str = name) -> Message:
        return Message(
            {
                HeaderNames.MESSAGE_ID: message_id,
                HeaderNames.RELATED_TO: cause,
                HeaderNames.CONVERSATION_ID: "c",
                HeaderNames.ENCLOSED_MESSAGE_TYPES: kind,
                HeaderNames.PROCESSING_ENDPOINT: name,
                HeaderNames.PROCESSING_STARTED: moment,
                HeaderNames.PROCESSING_ENDED: before,
                HeaderNames.FAILED_Q: name,
                HeaderNames.TIME_OF_FAILURE: "yesterday",
            }
        )

    return [
        related("a", "b"), related("b", "c", "Other"), related("c", "a", "Third"), related("self", "self"),
        related("lost", "nowhere"), related("self", "a", "Twice"), Message({}), Message({HeaderNames.RELATED_TO: ""}),
        '{"NServiceBus.RelatedTo": 7, "NServiceBus.MessageId": ["a"]}', "[]", "", "{",
    ]  # fmt: skip


NAMES = {
    "markup": '<script>alert(1)</script>"><image href="x"/>]]>&amp;</svg>{{ 7 }}',
    "letters": "\x00\x08\x1b[31m\u202eevil\ufffe" + "x" * 20_000,
    "folder": "../..",
    "no value": "__HIVE_DEFAULT_PARTITION__",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_hostile_messages_are_in_the_table(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, name: str
) -> None:
    messages = hostile(name)
    rows = audit_table(spark, make_batch(messages), str(tmp_path / "lake"))
    assert rows.count() == len(messages)
    assert {row["processing_ms"] for row in rows.where("failed_queue IS NOT NULL").collect()} == {-1_000.0}


@pytest.fixture
def programs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run in the session of this process, as spark-submit would have it."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")


def test_the_programs_print_numbers_only(
    programs: None, spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make_batch(list(generate(60, seed=2)))
    manifest, table = tmp_path / "manifest.json", str(tmp_path / "lake")
    manifest.write_text(json.dumps(batch.to_dict()), encoding="utf-8")
    assert audit_program.main(["--manifest", str(manifest), "--table", table]) == 0
    assert spark.read.parquet(table).count() == batch.messages
    assert json.loads(capsys.readouterr().out) == {"messages": batch.messages}


def test_a_program_reports_an_error_in_one_sentence(
    programs: None, spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, target = str(tmp_path / "lake"), ["--queue", "sales", "--send-id", "once"]
    with pytest.raises(SystemExit, match=f"There is no table of Parquet files in {re.escape(lake)}: give the folder"):
        replay_program.main(["--table", lake, *target])
    spark.range(1).write.parquet(lake)
    for where in ("message_type LIKE", "no_column = 1"):
        with pytest.raises(SystemExit, match="--where is not a condition of Spark's SQL on the columns"):
            replay_program.main(["--table", lake, "--where", where, *target])
    with pytest.raises(SystemExit, match="The rows have no column"):
        replay_program.main(["--table", lake, *target])
    short = tmp_path / "short.json"
    short.write_text(json.dumps(replace(make_batch(["{}"] * 3), messages=4).to_dict()), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"Spark reads 3 messages of batch .* the ledger has 4"):
        replay_program.main(["--manifest", str(short), *target])
    with pytest.raises(SystemExit, match="cannot be read"):
        audit_program.main(["--manifest", str(tmp_path / "none"), "--table", str(tmp_path)])
    with pytest.raises(SystemExit):
        replay_program.main(target)
    assert "give either --manifest or --table" in capsys.readouterr().err
