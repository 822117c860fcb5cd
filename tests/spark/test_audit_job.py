"""The example's job: its counts and its lake are those of the batch, and its report is one harmless page."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from demo import changed

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, encode_headers
from airflow_sqlqueue.traffic import DEFAULT_START, generate
from tests.spark.conftest import MakeBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "example_dags"
COUNT = 1_200


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import audit_job  # type: ignore[import-not-found]

    return audit_job


def figures(page: str) -> dict[str, int]:
    """The counts at the top of a report."""
    found = re.findall(r'<dd id="(\w+)">([\d\u202f]+)</dd>', page)
    return {name: int(text.replace("\u202f", "")) for name, text in found}


def test_the_report_and_the_lake_have_the_messages_of_the_batch(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    messages = list(changed(generate(COUNT, seed=9)))
    lake, report = tmp_path / "lake", tmp_path / "out" / "report.html"
    schemas = shutil.copytree(EXAMPLES / "schemas", tmp_path / "schemas")
    counts = job.run(spark, make_batch(messages), str(lake), str(report), str(tmp_path / "tables"), str(schemas))
    kept = [m for m in messages if m.time_to_be_received is None or m.time_to_be_received >= timedelta(0)]
    expected = {
        "messages": len(kept),
        "failed": sum(m.header(HeaderNames.FAILED_Q) is not None for m in kept),
        "malformed": sum(isinstance(m.headers, str) for m in kept),
        "expired": COUNT - len(kept),
    }
    assert 0 not in expected.values()
    assert counts.items() >= {**expected, "written": len(kept)}.items()
    assert 0 not in (counts["rescued"], counts["unparsed"])
    page = report.read_text("utf-8")
    assert figures(page) == expected
    tables = re.findall(r'<table id="([\w-]+)"', page)
    assert tables == sorted(set(tables), key=tables.index)
    assert {"types", "failures", "endpoints", "hours", "message-tables", "revenue"} <= set(tables)
    types = Counter(str(m.header(HeaderNames.ENCLOSED_MESSAGE_TYPES)).split(",")[0] for m in kept if m.headers != "{}")
    assert all(name in page for name in types if name != "None")
    rows = spark.read.parquet(str(lake)).collect()
    assert len(rows) == len(kept)
    for row in rows:
        message = messages[row["RowVersion"]]
        assert bytes(row["Body"]) == message.body
        text = message.headers if isinstance(message.headers, str) else encode_headers(message.headers)
        assert (row["headers_raw"], row["headers_malformed"]) == (text, isinstance(message.headers, str))


NASTY = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><b>", "a&b=c/d:e*?[f]{g}\\h", "{{ 7 * 7 }}",
    "x" * 5_000, "ł" * 300, "%2e%2e/..", "日本.語", "__HIVE_DEFAULT_PARTITION__", "\u202eevil", "'; DROP TABLE",
]  # fmt: skip
NAMES = (
    HeaderNames.ENCLOSED_MESSAGE_TYPES,
    HeaderNames.PROCESSING_ENDPOINT,
    HeaderNames.FAILED_Q,
    HeaderNames.EXCEPTION_TYPE,
)


def test_a_report_is_one_page_without_code_of_messages(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    """It goes to any URL that fsspec knows, and an absurd time does not flatten its chart."""
    fsspec = pytest.importorskip("fsspec")
    moments = dict.fromkeys((HeaderNames.PROCESSING_STARTED, HeaderNames.PROCESSING_ENDED), format_time(DEFAULT_START))
    messages = [Message({**dict.fromkeys(NAMES, text), **moments}) for text in NASTY]
    absurd = ["0001-01-01 00:00:00:000000 Z", "9999-12-31 23:59:59:999999 Z"]
    messages += [Message({HeaderNames.TIME_SENT: text}) for text in absurd]
    batch = make_batch(messages, queue=NASTY[0])
    job.run(spark, batch, str(tmp_path / "lake"), "memory://reports/one.html", str(tmp_path / "tables"))
    with fsspec.open("memory://reports/one.html", "r", encoding="utf-8") as file:
        page = file.read()
    assert page.startswith("<!doctype html>")
    assert "{{ 7 * 7 }}" in page
    without_values = re.sub(r'"[^"]*"', '""', page)
    assert not re.search(r"<(script|img|link|iframe|object)\b|<[^>]* (on\w+|src|href)=", without_values)
    assert not re.search(r"url\(|@import", page)
    assert "2 with no time, or one more than a week from the busiest hour" in page
    assert "No orders and payments of the shop are in this batch." in page
    assert spark.read.parquet(str(tmp_path / "lake")).count() == len(messages)


def test_an_empty_batch_is_reported(spark: SparkSession, tmp_path: Path, job: Any) -> None:
    batch = Batch("batch-0", "audit@[dbo]@[shop]", "sealed", (), 0, expired=4)
    counts = job.run(spark, batch, str(tmp_path / "lake"), str(tmp_path / "report.html"))
    assert counts == {"messages": 0, "written": 0, "failed": 0, "malformed": 0, "expired": 4}
    found = figures((tmp_path / "report.html").read_text("utf-8"))
    assert (found["messages"], found["expired"]) == (0, 4)
    assert not (tmp_path / "lake").exists()


def test_a_count_that_is_not_the_ledgers_writes_nothing(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    batch = replace(make_batch(["{}"] * 3), messages=4)
    with pytest.raises(BatchMismatchError):
        job.run(spark, batch, str(tmp_path / "lake"), str(tmp_path / "report.html"))
    assert not list(tmp_path.glob("lake*")) + list(tmp_path.glob("*.html"))
