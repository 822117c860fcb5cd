from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from demo import changed

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, encode_headers, first_type
from airflow_sqlqueue.traffic import DEFAULT_START, generate
from tests.spark.conftest import MakeBatch, batches_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "example_dags"
COUNT = 1_200
ORDERS, PAYMENTS = "Shop.Sales.Contracts.PlaceOrder", "Shop.Billing.Contracts.PaymentAccepted"
ORDER_ID = re.compile("<OrderId>(.*?)</OrderId>")
VOID = {"meta", "br", "link", "img", "input", "hr", "line", "rect", "circle"}


class Page(HTMLParser):
    """A report as a reader sees it: figures by id, tables by id, and every tag and attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []
        self._table = self._figure = ""
        self._in_cell = False
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
        values = dict(attrs)
        if tag == "table":
            self._table = values["id"] or ""
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append("")
            self._in_cell = True
        elif tag == "dd" and "id" in values:
            self._figure = values["id"] or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("td", "th"):
            self._in_cell = False
        elif tag == "dd":
            self._figure = ""

    def handle_data(self, data: str) -> None:
        if self._figure:
            self.figures[self._figure] = data
        elif self._in_cell and data.strip():
            cells = self.tables[self._table][-1]
            cells[-1] = f"{cells[-1]} {data.strip()}".strip()


@pytest.fixture(scope="module")
def job() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import audit_job  # type: ignore[import-not-found]

        yield audit_job


@dataclass(frozen=True)
class Run:
    """Run of the job, and its output."""

    messages: list[Message]
    batch: Batch
    counts: dict[str, Any]
    lake: Path
    text: str


@pytest.fixture(scope="module")
def run(spark: SparkSession, job: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    messages = list(changed(generate(COUNT, seed=9)))
    batch, lake, report = batches_in(folder)(messages), folder / "lake", folder / "out" / "report.html"
    schemas = shutil.copytree(EXAMPLES / "schemas", folder / "schemas")
    counts = job.run(spark, batch, str(lake), str(report), str(folder / "tables"), str(schemas))
    return Run(messages, batch, counts, lake, report.read_text(encoding="utf-8"))


def whole(text: str) -> int:
    return int(text.replace("\u202f", ""))


def milliseconds(text: str) -> float:
    value, unit = text.split("\u202f")
    return float(value) * {"ms": 1, "s": 1_000, "min": 60_000}[unit]


def lake_rows(spark: SparkSession, lake: Path) -> Counter[tuple[str, int]]:
    rows = spark.read.parquet(str(lake)).select("batch_id", "RowVersion").collect()
    return Counter((row["batch_id"], row["RowVersion"]) for row in rows)


def live(messages: list[Message]) -> list[Message]:
    return [m for m in messages if m.time_to_be_received is None or m.time_to_be_received >= timedelta(0)]


def type_of(message: Message) -> str:
    if isinstance(message.headers, str):
        return "(malformed headers)"
    return (message.header(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "(no message type)").split(",")[0]


def test_the_report_shows_the_counts_of_python(run: Run) -> None:
    kept = live(run.messages)
    counts = {name: run.counts[name] for name in ("messages", "written", "failed", "malformed", "expired")}
    failed = [m for m in kept if m.header(HeaderNames.FAILED_Q)]
    malformed = sum(isinstance(m.headers, str) for m in kept)
    assert counts == {
        "messages": len(kept), "written": len(kept), "failed": len(failed), "malformed": malformed,
        "expired": COUNT - len(kept),
    }  # fmt: skip

    page = Page(run.text)
    shown = {name: whole(text) for name, text in page.figures.items() if name != "bytes"}
    assert shown == {name: value for name, value in counts.items() if name != "written"}
    assert page.figures["bytes"] == f"{run.batch.bytes / 1_000_000:.3g}\u202fMB"

    types = Counter(map(type_of, kept))
    short = {name: name.rpartition(".")[2] for name in types}
    expected = [f"{short[n]} {n}" if short[n] != n else n for n in sorted(types, key=lambda n: (-types[n], n))]
    assert [row[0] for row in page.tables["types"][1:]] == expected
    assert [whole(row[1]) for row in page.tables["types"][1:]] == sorted(types.values(), reverse=True)

    exceptions = Counter(
        (m.header(HeaderNames.EXCEPTION_TYPE), m.header(HeaderNames.PROCESSING_ENDPOINT)) for m in failed
    )
    assert {(row[0], row[1]): whole(row[2]) for row in page.tables["failures"][1:]} == exceptions

    times = defaultdict(list)
    hours: Counter[str] = Counter()
    for message in kept:
        began, ended = (parse_time(message.header(f"NServiceBus.Processing{word}")) for word in ("Started", "Ended"))
        happened = ended or parse_time(message.header(HeaderNames.TIME_OF_FAILURE))
        if began and ended:
            times[message.header(HeaderNames.PROCESSING_ENDPOINT)].append((ended - began).total_seconds() * 1_000)
        if happened:
            hours[f"{happened:%Y-%m-%d %H}:00"] += 1
    for name, count, *percentiles in page.tables["endpoints"][1:]:
        ranked = sorted(times[name])
        assert whole(count) == len(ranked)
        for share, text in zip((0.5, 0.9, 0.99), percentiles, strict=True):
            assert milliseconds(text) == pytest.approx(ranked[int(share * len(ranked))], rel=0.06)
    assert len(page.tables["endpoints"]) == 4
    shown_hours = {row[0]: sum(map(whole, row[1:])) for row in page.tables["hours"][1:]}
    assert {hour: count for hour, count in shown_hours.items() if count} == hours


def test_the_report_shows_the_tables_of_message_types(run: Run) -> None:
    kept = live(run.messages)
    shown = {
        row[0].rpartition(" ")[2] if "." in row[0] else row[0]: row[1:]
        for row in Page(run.text).tables["message-tables"][1:]
    }
    types = Counter(type_of(message).partition("(malformed")[0] or "(no message type)" for message in kept)
    assert {name: whole(row[0]) + whole(row[4]) for name, row in shown.items()} == types
    orders = [m for m in kept if type_of(m) == ORDERS]
    rescued = sum(b' EUR"' in (m.body or b"") for m in orders)
    cut = sum(not (m.body or b"").endswith(b"}") for m in orders)
    assert rescued > 0 < cut
    _, columns, new, *counts = shown[ORDERS]
    assert (new, whole(counts[0]), whole(counts[1])) == ("Coupon", rescued, cut)
    assert whole(columns) == 30
    assert run.counts["rescued"] == sum(whole(row[3]) for row in shown.values())
    assert run.counts["unparsed"] == sum(whole(row[4]) for row in shown.values())


def test_the_report_shows_the_orders_and_what_was_paid_of_them(run: Run) -> None:
    kept = live(run.messages)
    paid = {found[1] for m in kept if type_of(m) == PAYMENTS and (found := ORDER_ID.search((m.body or b"").decode()))}
    expected: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for message in kept:
        text = (message.body or b"").decode(errors="replace")
        if type_of(message) != ORDERS or message.header(HeaderNames.FAILED_Q) or not text.endswith("}"):
            continue
        order = json.loads(text, parse_float=Decimal)
        total = Decimal(str(order["Total"]).removesuffix(" EUR"))
        hour, is_paid = order["OccurredAt"][:13].replace("T", " "), order["OrderId"] in paid
        expected[f"{hour}:00"]["paid" if is_paid else "not paid"] += total
    head, *rows = Page(run.text).tables["revenue"]
    assert head == ["From (UTC)", "paid", "not paid"]
    shown = {row[0]: [whole(cell) for cell in row[1:]] for row in rows}
    assert {hour: amounts for hour, amounts in shown.items() if any(amounts)} == {
        hour: [round(amounts[name]) for name in head[1:]] for hour, amounts in expected.items()
    }
    assert any(amounts["not paid"] for amounts in expected.values())


def test_a_page_loads_no_other_file(run: Run) -> None:
    text = run.text
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not [found for found in page.attributes if found[1] in ("src", "href")]
    assert "url(" not in text
    assert "@import" not in text
    assert page.tags["svg"] == sum(tag == "svg" and name == "role" for tag, name, _ in page.attributes)
    assert page.tags["desc"] == page.tags["svg"] >= 2
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_table_keeps_the_rows_whole(spark: SparkSession, run: Run) -> None:
    rows = spark.read.parquet(str(run.lake)).collect()
    assert len(rows) == len(live(run.messages))
    for row in rows:
        message = run.messages[row["RowVersion"]]
        assert bytes(row["Body"]) == message.body
        text = message.headers if isinstance(message.headers, str) else encode_headers(message.headers)
        assert row["headers_raw"] == text
        assert row["body_bytes"] == len(message.body or b"")
        if isinstance(message.headers, str):
            assert (row["headers_malformed"], row["message_type"], row["day"]) == (True, None, None)
        else:
            ended = message.header(HeaderNames.PROCESSING_ENDED) or message.header(HeaderNames.TIME_OF_FAILURE)
            assert row["message_type"] == first_type(message.header(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "")
            assert f"{row['day']}" == (ended or "")[:10]


NASTY = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><b>", "a&b=c/d:e*?[f]{g}\\h", "{{ 7 * 7 }}",
    "x" * 5_000, "ł" * 300, "%2e%2e/..", "日本.語", "__HIVE_DEFAULT_PARTITION__", "\u202eevil", "'; DROP TABLE",
]  # fmt: skip


def test_text_of_messages_is_escaped(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any) -> None:
    moment = format_time(DEFAULT_START)
    messages = [
        Message(
            {
                HeaderNames.ENCLOSED_MESSAGE_TYPES: text,
                HeaderNames.PROCESSING_ENDPOINT: text,
                HeaderNames.PROCESSING_STARTED: moment,
                HeaderNames.PROCESSING_ENDED: moment,
                HeaderNames.FAILED_Q: text,
                HeaderNames.EXCEPTION_TYPE: text,
            }
        )
        for text in NASTY
    ]
    batch = make_batch(messages, queue=NASTY[0])
    job.run(spark, batch, str(tmp_path / "lake"), str(tmp_path / "report.html"), str(tmp_path / "tables"))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not {"script", "img"} & set(page.tags)
    assert sum(whole(row[5]) for row in page.tables["message-tables"][1:]) == len(NASTY)
    assert page.tags["b"] == len(page.tables["types"]) - 1  # the meters
    assert not [found for found in page.attributes if found[1].startswith("on")]
    assert {row[0] for row in page.tables["failures"][1:]} == set(NASTY)
    assert not any("49" in row[0] for row in page.tables["failures"])
    assert sum(lake_rows(spark, tmp_path / "lake").values()) == len(NASTY)


def test_an_absurd_time_does_not_flatten_the_chart(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    absurd = ["0001-01-01 00:00:00:000000 Z", "9999-12-31 23:59:59:999999 Z"]
    messages = [*generate(100, seed=6), *(Message({HeaderNames.TIME_SENT: text}) for text in absurd)]
    job.run(spark, make_batch(messages), str(tmp_path / "lake"), str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(Page(text).tables["hours"]) <= 49
    assert re.search(r"2 with no time, or one more than a week from the busiest hour", text)


def test_an_empty_batch_is_reported(spark: SparkSession, tmp_path: Path, job: Any) -> None:
    batch = Batch("batch-0", "audit@[dbo]@[shop]", "sealed", (), 0, expired=4)
    counts = job.run(spark, batch, str(tmp_path / "lake"), str(tmp_path / "report.html"))
    assert counts == {"messages": 0, "written": 0, "failed": 0, "malformed": 0, "expired": 4}
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.figures["messages"] == "0"
    assert page.figures["expired"] == "4"
    assert not (tmp_path / "lake").exists()


def test_a_count_that_is_not_the_ledgers_writes_nothing(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    with pytest.raises(BatchMismatchError):
        job.run(
            spark, replace(make_batch(["{}"] * 3), messages=4), str(tmp_path / "lake"), str(tmp_path / "report.html")
        )
    assert list(tmp_path.glob("lake*")) == []
    assert not (tmp_path / "report.html").exists()


def test_a_report_goes_to_any_url_that_fsspec_knows(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, job: Any
) -> None:
    fsspec = pytest.importorskip("fsspec")
    job.run(spark, make_batch(["{}"]), str(tmp_path / "lake"), "memory://reports/one.html", str(tmp_path / "tables"))
    with fsspec.open("memory://reports/one.html", "r", encoding="utf-8") as file:
        page = file.read()
    assert page.startswith("<!doctype html>")
    assert "No orders and payments of the shop are in this batch." in page


def test_sizes_and_durations_have_readable_units(job: Any) -> None:
    import audit_charts  # type: ignore[import-not-found]

    assert [audit_charts.duration(value) for value in (0.25, 12.34, 999.4, 999.6, 2_500, 90_000, None)] == [
        "0.25\u202fms", "12.3\u202fms", "999\u202fms", "1\u202fs", "2.5\u202fs", "1.5\u202fmin", "\u2013",
    ]  # fmt: skip
    assert [audit_charts.size(value) for value in (0, 999, 12_345, 2_000_000, 3 * 10**12)] == [
        "0\u202fB", "999\u202fB", "12.3\u202fkB", "2\u202fMB", "3\u202fTB",
    ]  # fmt: skip
