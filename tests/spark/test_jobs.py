"""The gallery of jobs, on a shop's traffic and on malformed messages."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.envelope.times import format_time, parse_time
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.message import HeaderNames, Message, first_type
from airflow_sqlqueue.spark import (
    audit_table,
    caused_messages,
    conversation_graph,
    failure_groups,
    message_flow,
    processing_times,
    read_batch,
)
from airflow_sqlqueue.spark.jobs import audit as audit_program
from airflow_sqlqueue.spark.jobs import causes as causes_program
from airflow_sqlqueue.spark.jobs import failures as failures_program
from airflow_sqlqueue.spark.jobs import processing as processing_program
from airflow_sqlqueue.traffic import DEFAULT_START, generate
from tests.spark.conftest import MakeBatch, batches_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 1_500
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Lake:
    """Readable messages that were sent, and the table of the audit job."""

    messages: list[Message]
    batch: Batch
    folder: str
    rows: DataFrame


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("jobs")
    messages = list(generate(COUNT, seed=4))
    batch = batches_in(folder)(messages)
    rows = audit_table(spark, batch, f"{folder}/lake")
    kept = [m for m in messages if m.time_to_be_received is None or m.time_to_be_received >= timedelta(0)]
    return Lake([m for m in kept if not isinstance(m.headers, str)], batch, f"{folder}/lake", rows)


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


def test_processing_times_are_those_that_python_finds(lake: Lake) -> None:
    times = defaultdict(list)
    for message in lake.messages:
        began, ended = (parse_time(message.header(f"NServiceBus.Processing{word}")) for word in ("Started", "Ended"))
        if began and ended:
            key = (message.header(HeaderNames.PROCESSING_ENDPOINT), type_of(message))
            times[key].append((ended - began).total_seconds() * 1_000)
    found = processing_times(lake.rows, by=["processing_endpoint", "message_type"]).collect()
    assert {(row["processing_endpoint"], row["message_type"]): row["messages"] for row in found} == {
        key: len(values) for key, values in times.items()
    }
    for row in found:
        ranked = sorted(times[row["processing_endpoint"], row["message_type"]])
        assert row["max_ms"] == pytest.approx(ranked[-1])
        assert row["p50_ms"] == pytest.approx(ranked[(len(ranked) - 1) // 2])
        assert row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert sum(row["backwards"] for row in found) == 0


def test_failures_are_grouped_in_time(lake: Lake) -> None:
    expected: Counter[tuple[str | None, ...]] = Counter()
    for message in lake.messages:
        failed = parse_time(message.header(HeaderNames.TIME_OF_FAILURE))
        if failed is not None:
            texts = (HeaderNames.EXCEPTION_TYPE, HeaderNames.PROCESSING_ENDPOINT)
            key = [message.header(name) for name in texts]
            expected[(*key, type_of(message), f"{failed:%Y-%m-%d}")] += 1
    rows = failure_groups(lake.rows, interval=86_400).selectExpr("*", "unix_seconds(begin) AS second").collect()
    epoch = DEFAULT_START - timedelta(seconds=DEFAULT_START.timestamp())
    found = {
        (
            row["exception_type"],
            row["processing_endpoint"],
            row["message_type"],
            f"{epoch + timedelta(seconds=row['second']):%Y-%m-%d}",
        ): row["messages"]
        for row in rows
    }
    assert found == expected
    groups = Counter((row["exception_type"], row["processing_endpoint"], row["message_type"]) for row in rows)
    assert sum(row["new"] for row in rows) == len(groups) < len(rows)


def test_the_flow_follows_the_headers(lake: Lake) -> None:
    types = {m.header(HeaderNames.MESSAGE_ID): type_of(m) for m in lake.messages}
    causes = {m.header(HeaderNames.MESSAGE_ID): m.header(HeaderNames.RELATED_TO) for m in lake.messages}
    expected: Counter[tuple[str | None, ...]] = Counter()
    for message_id, cause in causes.items():
        caused = "beginning" if cause is None else "found" if cause in types else "unknown"
        expected[caused, types.get(cause), types[message_id]] += 1
    found = {(row["caused"], row["cause_type"], row["message_type"]): row for row in message_flow(lake.rows).collect()}
    assert {key: row["messages"] for key, row in found.items()} == expected
    assert sum(row["copies"] for row in found.values()) == len(lake.messages) > len(causes)
    failed = sum(m.header(HeaderNames.FAILED_Q) is not None for m in lake.messages)
    assert sum(row["failed"] for row in found.values()) == failed


def test_the_picture_of_a_shop_is_the_same_whatever_the_order_of_its_rows(lake: Lake) -> None:
    picture = conversation_graph(lake.rows)
    assert conversation_graph(lake.rows.orderBy("Id").repartition(5)) == picture
    root = ElementTree.fromstring(picture)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"PlaceOrder", "OrderPlaced", "ShipOrder", "(a conversation begins)", "(no message type)"} <= set(texts)
    assert not [text for text in texts if "not drawn" in (text or "")]


def test_a_conversation_is_drawn_message_by_message(lake: Lake) -> None:
    sizes = Counter(m.header(HeaderNames.CONVERSATION_ID) for m in lake.messages)
    conversation_id, _ = sizes.most_common(1)[0]
    own = {
        m.header(HeaderNames.MESSAGE_ID): m.header(HeaderNames.RELATED_TO)
        for m in lake.messages
        if m.header(HeaderNames.CONVERSATION_ID) == conversation_id
    }
    root = ElementTree.fromstring(conversation_graph(lake.rows, conversation_id))
    assert {element.text for element in root.iter(f"{SVG}title")} == {"A conversation", *own}
    assert len(list(root.iter(f"{SVG}path"))) == 1 + sum(cause in own for cause in own.values())
    empty = ElementTree.fromstring(conversation_graph(lake.rows, "another"))
    assert [text.text for text in empty.iter(f"{SVG}text")] == ["A conversation", "0 messages"]


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
def test_hostile_messages_break_no_job_and_no_picture(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, name: str
) -> None:
    messages = hostile(name)
    rows = audit_table(spark, make_batch(messages), str(tmp_path / "lake"))
    caused = {row["message_id"]: row for row in caused_messages(rows).collect()}
    assert len(caused) == 8  # five that name themselves, two with headers that do not, one with none
    assert (caused["self"]["copies"], caused["self"]["cause_found"]) == (2, True)
    assert (caused["lost"]["cause_found"], caused["lost"]["cause_type"]) == (False, None)
    [times] = processing_times(rows).collect()
    assert (times["messages"], times["backwards"], times["p50_ms"], times["max_ms"]) == (6, 6, None, None)
    groups = failure_groups(rows).collect()
    assert sum(row["messages"] for row in groups) == 6
    assert {row["begin"] for row in groups} == {None}
    for picture in (conversation_graph(rows), conversation_graph(rows, "c")):
        root = ElementTree.fromstring(picture)
        assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
            "svg", "title", "desc", "style", "defs", "marker", "path", "rect", "text", "g",
        }  # fmt: skip
        assert len(picture) < 20_000
        assert all(letter.isprintable() for letter in picture.rstrip("\n"))


def test_a_picture_has_no_end_of_types(spark: SparkSession) -> None:
    """Many types, each caused by the next one, in a circle."""
    count = 3_000
    order = random.Random(1).sample(range(count), count)
    columns = (
        "message_id string, related_to string, message_type string, conversation_id string, failed_queue string, "
        "originating_endpoint string, time_sent timestamp, headers_malformed boolean"
    )
    values = [(f"{i}", f"{(i + 1) % count}", f"T{i}", "c", None, None, None, False) for i in order]
    rows = spark.createDataFrame(values, columns)
    for picture in (conversation_graph(rows), conversation_graph(rows, "c")):
        root = ElementTree.fromstring(picture)
        assert len(list(root.iter(f"{SVG}g"))) == 60
        assert f"{count:,} messages, " in picture
        assert " of them not drawn" in picture


def test_rows_of_another_table_are_refused(spark: SparkSession, lake: Lake) -> None:
    numbers = spark.range(3)
    for job in (processing_times, failure_groups, caused_messages, conversation_graph):
        with pytest.raises(ConfigurationError, match="The rows have no column '"):
            job(numbers)
    for by, said in (((), "Name a column"), (("Body",), "cannot be grouped by"), (("intent", "intent"), "twice")):
        with pytest.raises(ConfigurationError, match=said):
            processing_times(lake.rows, by=by)
    for interval in (0, -1, 10**9, 0.5, True):
        with pytest.raises(ConfigurationError, match="An interval is"):
            failure_groups(lake.rows, interval)  # type: ignore[arg-type]


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
    out, picture = tmp_path / "out", tmp_path / "flow.svg"
    where = ["--where", "NOT headers_malformed AND processing_endpoint = 'Sales'"]
    sales = read_batch(spark, batch).where(where[1])
    drawn, flows = conversation_graph(sales), message_flow(sales).count()
    for source in (["--table", table], ["--manifest", str(manifest)]):
        options = [*source, *where, "--out", str(out), "--format", "json", "--picture", str(picture)]
        assert causes_program.main(options) == 0
        assert picture.read_text("utf-8") == drawn
        assert spark.read.json(str(out)).count() == flows
    for program, result in ((processing_program, processing_times(sales)), (failures_program, failure_groups(sales))):
        assert program.main([*source, *where, "--out", str(out)]) == 0
        assert spark.read.parquet(str(out)).count() == result.count()
    lines = capsys.readouterr().out.splitlines()
    assert [sorted(json.loads(line)) for line in lines] == [
        ["messages"], ["bytes", "rows"], ["bytes", "rows"], ["rows"], ["rows"],
    ]  # fmt: skip


def test_a_program_reports_an_error_in_one_sentence(
    programs: None, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, out = str(tmp_path / "lake"), ["--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match=f"There is no table of Parquet files in {re.escape(lake)}: give the folder"):
        failures_program.main(["--table", lake, *out])
    spark.range(1).write.parquet(lake)
    for where in ("message_type LIKE", "no_column = 1"):
        with pytest.raises(SystemExit, match="--where is not a condition of Spark's SQL on the columns"):
            failures_program.main(["--table", lake, "--where", where, *out])
    with pytest.raises(SystemExit, match="The rows have no column"):
        failures_program.main(["--table", lake, *out])
    with pytest.raises(SystemExit, match="cannot be read"):
        audit_program.main(["--manifest", str(tmp_path / "none"), "--table", str(tmp_path)])
    with pytest.raises(SystemExit):
        causes_program.main(["--picture", "x.svg"])
    assert "give either --manifest or --table" in capsys.readouterr().err
