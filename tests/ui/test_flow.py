"""Usage by day with its chart and report, and the sequence of a conversation, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from playwright.sync_api import expect

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.message import HeaderNames, Message
from tests.ui.chromium import Screen, row_of
from tests.ui.guarded_airflow import CONNECTION

CONVERSATION = "c0ffee00-0001-4b1e-9a53-b2c4012f7d11"
TALK = "talk@[dbo]@[sqlqueue]"
NOW = datetime.now(timezone.utc)
STEPS = (
    ("m-1", None, "Shop.PlaceOrder, Shop", "Web", "Sales", 0),
    ("m-2", "m-1", "Shop.OrderPlaced, Shop", "Sales", "Billing", 1),
    ("m-3", "m-1", "Shop.OrderPlaced, Shop", "Sales", "Shipping", 1),
    ("m-4", "m-2", "Shop.OrderBilled, Shop", "Billing", "Shipping", 75),
    ("m-5", "m-4", "Shop.Remind, Shop", "Shipping", "Shipping", 7200),
)


def audited(name: str, cause: str | None, kind: str, sender: str, receiver: str, seconds: int) -> Message:
    sent = NOW - timedelta(days=1) + timedelta(seconds=seconds)
    headers = {
        HeaderNames.MESSAGE_ID: name,
        HeaderNames.RELATED_TO: cause,
        HeaderNames.CONVERSATION_ID: CONVERSATION,
        HeaderNames.ENCLOSED_MESSAGE_TYPES: kind,
        HeaderNames.ORIGINATING_ENDPOINT: sender,
        HeaderNames.PROCESSING_ENDPOINT: receiver,
        HeaderNames.TIME_SENT: format_time(sent),
        HeaderNames.PROCESSING_STARTED: format_time(sent + timedelta(milliseconds=40)),
        HeaderNames.PROCESSING_ENDED: format_time(sent + timedelta(milliseconds=90)),
    }
    failed = {HeaderNames.FAILED_Q: "Shipping"} if name == "m-4" else {}
    return Message({**{key: value for key, value in headers.items() if value is not None}, **failed})


@pytest.fixture
def talk(client: QueueClient) -> Iterator[None]:
    """A counted batch of a conversation, a message of it in its queue, and the growth of some days."""
    client.tables.create("talk")
    talk = client.queue("talk")
    client.usage.record()
    for day in (3, 2, 1):
        talk.send([audited(*step) for step in STEPS] * day)
        # A day back, in two steps whose old and new days are apart: fakemssql compares keys row by row.
        for days in (-1_000, 999):
            client.run_sql(
                f"UPDATE [sqlqueue].[QueueUsage] SET [Day] = DATEADD(day, {days}, [Day]), "
                f"[RecordedAt] = DATEADD(day, {days}, [RecordedAt])"
            )
        client.usage.record()
    client.usage.count_batch(talk.drain(stage="table").batch)
    talk.send([audited(*STEPS[1])])
    yield
    client.tables.drop("talk", force=True)


def usage(screen: Screen) -> None:
    page = screen.open("c", CONNECTION, "usage")
    expect(row_of(page, TALK)).to_contain_text("30")
    expect(page.get_by_role("img", name="a day")).to_be_visible()


def conversation(screen: Screen) -> None:
    page = screen.open("c", CONNECTION, "q", TALK)
    page.locator("tbody th a").first.click()
    page.get_by_role("link", name="Conversation of this message").click()
    expect(page.get_by_role("img", name="5 messages between 4 endpoints")).to_be_visible()


@pytest.mark.usefixtures("talk")
def test_flow_is_shown(ada: Screen, tmp_path: Path) -> None:
    """Usage, its report and a conversation, dark on a telephone and light on a desk, with nothing that axe finds."""
    for width, theme in ((360, "dark"), (1280, "light")):
        ada.page.set_viewport_size({"width": width, "height": 860})
        ada.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        for view in (usage, conversation):
            view(ada)
            ada.settle()
            ada.page.screenshot(path=tmp_path / f"{view.__name__}-{theme}.png", full_page=True)
            assert ada.overhang() <= 0
            assert ada.violations() == []
    table = ada.page.get_by_role("table", name="Messages of the conversation")
    expect(row_of(table, "OrderBilled")).to_contain_text("failed")
    expect(row_of(table, "Remind")).to_contain_text("m-5")
    page = ada.open("c", CONNECTION, "usage")
    page.get_by_text("Endpoints and types").click()
    expect(row_of(page, "OrderBilled")).to_contain_text("Shipping")
    page.get_by_label("Customer").fill("Contoso")
    with page.expect_download() as download:
        page.get_by_role("button", name="Report for Particular").click()
    report = json.loads(Path(download.value.path()).read_text("utf-8"))["ReportData"]
    assert report["CustomerName"] == "Contoso"
    assert {"Sales", "Billing", "Shipping", "talk"} <= {queue["QueueName"] for queue in report["Queues"]}
