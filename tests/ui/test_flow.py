"""Sequence of a conversation, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from playwright.sync_api import expect

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
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
    """A batch of a conversation, and a message of it in its queue."""
    client.tables.create("talk")
    talk = client.queue("talk")
    talk.send([audited(*step) for step in STEPS])
    talk.drain(stage="table")
    talk.send([audited(*STEPS[1])])
    yield
    client.tables.drop("talk", force=True)


def conversation(screen: Screen) -> None:
    page = screen.open("c", CONNECTION, "q", TALK)
    page.locator("tbody th a").first.click()
    page.get_by_role("link", name="Conversation of this message").click()
    expect(page.get_by_role("img", name="5 messages between 4 endpoints")).to_be_visible()


@pytest.mark.usefixtures("talk")
def test_conversation_is_shown(ada: Screen, tmp_path: Path) -> None:
    """Dark on a telephone and light on a desk, with nothing that axe finds."""
    for width, theme in ((360, "dark"), (1280, "light")):
        ada.page.set_viewport_size({"width": width, "height": 860})
        ada.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        conversation(ada)
        ada.settle()
        ada.page.screenshot(path=tmp_path / f"conversation-{theme}.png", full_page=True)
        assert ada.overhang() <= 0
        assert ada.violations() == []
    table = ada.page.get_by_role("table", name="Messages of the conversation")
    expect(row_of(table, "OrderBilled")).to_contain_text("failed")
    expect(row_of(table, "Remind")).to_contain_text("m-5")
