"""Actions in the page: dry run, confirmation, progress, and refusals."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import MessageFilter
from tests.ui.chromium import Screen, row_of, signed_in
from tests.ui.guarded_airflow import CONNECTION, ROLES, GuardedAirflow

ERROR = "error@[dbo]@[sqlqueue]"


def _depth(client: QueueClient, *names: str) -> int:
    return sum(client.queue(name).depth().messages for name in names)


def _wait_until_done(frame: FrameLocator | Page) -> None:
    """Wait for the view of an action, in the place of a view that may have several badges, and for its end."""
    expect(frame.locator("h1")).to_have_text("Action")
    expect(frame.locator("main .badge")).to_have_text("done", timeout=240_000)


def _return_first_group(frame: FrameLocator, client: QueueClient) -> None:
    """From the card to the end of the run: the largest group goes back where it failed, and is gone."""
    before = _depth(client, "error")
    frame.locator(".card", has_text=CONNECTION).get_by_role("link", name=str(before)).click()
    first = frame.locator("tbody tr").first
    label, count = first.locator("th").inner_text(), int(first.locator("td").first.inner_text())
    first.get_by_role("link").click()
    expect(frame.locator("h1")).to_have_text(label)
    frame.get_by_role("button", name="Return the whole group").click()
    dialog = frame.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{count} messages")
    expect(dialog).to_contain_text("Nothing has been done yet.")
    assert _depth(client, "error") == before
    dialog.get_by_role("button", name=f"Return {count} messages").click()
    _wait_until_done(frame)
    expect(frame.locator("main")).to_contain_text(f"{count} of {count}")
    assert _depth(client, "error") == before - count
    frame.get_by_role("link", name="Failures", exact=True).click()
    expect(frame.locator("tbody tr").first).to_be_visible()
    expect(row_of(frame, label)).to_have_count(0)


def test_return_a_group(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        _return_first_group(screen.frame, client)
        # Airflow's menu leads to the front of the page; what was started is to be found from there.
        screen.page.goto(f"{airflow.root}/plugin/sqlqueue")
        screen.frame.get_by_role("link", name=CONNECTION).click()
        screen.frame.get_by_label("What you have started").get_by_role("link").first.click()
        _wait_until_done(screen.frame)
        screen.frame.get_by_role("link", name="sqlqueue_actions").click()
        screen.page.wait_for_url(f"{airflow.root}/dags/sqlqueue_actions/runs/**")
        expect(screen.page.locator("iframe")).to_have_count(0)


def test_return_a_group_below_a_path(
    browser: Browser, airflow: GuardedAirflow, client: QueueClient, below: str
) -> None:
    with signed_in(browser, airflow, "ada", below) as screen:
        _return_first_group(screen.frame, client)
        assert "/team/af/plugin/sqlqueue/team/af/sqlqueue/page#/c/" in screen.page.url
        place = screen.frame.locator("h1").inner_text()
        screen.page.reload()
        expect(screen.frame.locator("h1")).to_have_text(place)


def test_return_a_selection(ada: Screen, client: QueueClient) -> None:
    """Two of a group; the others stay."""
    before = _depth(client, "error")
    page = ada.open("c", CONNECTION, "failures")
    page.locator("tbody th a").first.click()
    for number in range(2):
        page.get_by_role("checkbox", name="Choose the message").nth(number).check()
    page.get_by_role("button", name="Return 2 chosen messages").click()
    page.get_by_role("dialog").get_by_role("button", name="Return 2 messages").click()
    _wait_until_done(page)
    assert _depth(client, "error") == before - 2
    assert ada.violations() == []


def test_return_the_oldest_of_a_group_at_a_rate(ada: Screen, client: QueueClient) -> None:
    before = _depth(client, "error")
    page = ada.open("c", CONNECTION, "failures")
    page.locator("tbody th a").first.click()
    page.get_by_role("button", name="Return the oldest…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Number of messages").fill("3")
    dialog.get_by_label("At most this many a second").fill("50")
    assert ada.violations() == []
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("3 messages of")
    expect(dialog).to_contain_text("at most 50 a second")
    assert _depth(client, "error") == before
    dialog.get_by_role("button", name="Return 3 messages").click()
    _wait_until_done(page)
    assert _depth(client, "error") == before - 3


def test_archive_a_group_and_restore_it(ada: Screen, client: QueueClient) -> None:
    before = _depth(client, "error")
    page = ada.open("c", CONNECTION, "failures")
    first = page.locator("tbody tr").last
    label, count = first.locator("th").inner_text(), int(first.locator("td").first.inner_text())
    messages = "1 message" if count == 1 else f"{count} messages"
    first.get_by_role("link").click()
    page.get_by_role("button", name="Archive the whole group…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the bank was told")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("would be archived")
    dialog.get_by_role("button", name=f"Archive {messages}").click()
    _wait_until_done(page)
    assert _depth(client, "error") == before - count
    page.get_by_role("link", name="Failures", exact=True).click()
    page.get_by_role("link", name="Archive of this queue").click()
    expect(page.locator("h1")).to_have_text("Archive")
    page.get_by_text("Reason", exact=True).click()
    row_of(page, "the bank was told").get_by_role("link").click()
    expect(page.locator(".facts")).to_contain_text("ada")
    assert ada.violations() == []
    page.get_by_role("button", name="Restore the whole group").click()
    dialog.get_by_role("button", name=f"Restore {messages}").click()
    _wait_until_done(page)
    assert _depth(client, "error") == before
    assert label in [group.values["exception_type"] for group in client.errors.triage(by=["exception_type"]).groups]


def test_delete_a_selection_for_good(ada: Screen, client: QueueClient) -> None:
    before = _depth(client, "error")
    page = ada.open("c", CONNECTION, "failures")
    page.locator("tbody th a").first.click()
    page.get_by_role("checkbox", name="Choose the message").first.check()
    page.get_by_role("button", name="Delete 1 chosen message").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("would be deleted for good")
    dialog.get_by_role("button", name="Cancel").click()
    assert _depth(client, "error") == before
    page.get_by_role("button", name="Delete 1 chosen message").click()
    dialog.get_by_role("button", name="Delete 1 message for good").click()
    _wait_until_done(page)
    assert _depth(client, "error") == before - 1


def test_edit_and_return(ada: Screen, client: QueueClient) -> None:
    page = ada.open("c", CONNECTION, "q", ERROR)
    page.locator("tbody th a").first.click()
    target = row_of(page, "NServiceBus.FailedQ").locator("td").inner_text().split("@")[0]
    before = _depth(client, target)
    page.get_by_role("button", name="Edit and return…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Header").fill("Shop.Campaign")
    page.keyboard.press("Tab")
    expect(dialog.get_by_label("New value")).not_to_have_value("")
    dialog.get_by_label("New value").fill("mended")
    dialog.get_by_label("Replace the body").check()
    dialog.get_by_label("New body").fill('{"mended": true}')
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("Nothing has been done yet.")
    assert _depth(client, target) == before
    dialog.get_by_role("button", name="Return the edited message").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("h1")).to_have_text(ERROR)
    back = client.queue(target).peek(1000)
    assert len(back) == before + 1
    assert [message.body for message in back].count(b'{"mended": true}') == 1
    assert [json.loads(message.headers).get("Shop.Campaign") for message in back].count("mended") == 1


def test_redirect_asks_where_to(ada: Screen, client: QueueClient) -> None:
    """A destination that is no queue gets a sentence, and nothing moves."""
    before = _depth(client, "error")
    page = ada.open("c", CONNECTION, "failures")
    page.locator("tbody th a").first.click()
    page.get_by_role("button", name="Redirect the whole group…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill("no.such.queue")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no.such.queue")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Redirect the whole group…")).to_be_focused()
    assert _depth(client, "error") == before


def test_from_a_drain_to_its_batch(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    """The drain's task instance leads to its batch, and the batch to that task; then its messages are requeued."""
    waiting = _depth(client, "orders")
    run_id = airflow.run("orders_to_lake", "drain")
    task = f"/dags/orders_to_lake/runs/{run_id}/tasks/drain"
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        screen.page.goto(f"{airflow.root}{task}/details")
        screen.page.get_by_role("link", name="SQL queue batch").click()
        expect(screen.frame.locator("h1")).to_contain_text("Batch")
        expect(screen.frame.locator("h1 .badge")).to_have_text("sealed")
        expect(screen.frame.locator(".facts")).to_contain_text("orders@[dbo]@[sqlqueue]")
        screen.frame.get_by_role("button", name="Requeue").click()
        screen.frame.get_by_role("dialog").get_by_role("button", name="Requeue").click()
        _wait_until_done(screen.frame)
        assert _depth(client, "orders") == waiting
        screen.page.go_back()
        screen.frame.get_by_role("link", name="orders_to_lake").click()
        screen.page.wait_for_url(f"**{task.split('/runs/')[0]}/runs/**")


def test_an_empty_batch_is_brought_to_its_end(ada: Screen, client: QueueClient) -> None:
    """Its dry run says that it holds nothing, and has more to offer than Cancel."""
    nothing = MessageFilter(message_type="No.Such.Type")
    batch = (
        client.queue("orders").drain(request=DrainRequest(where=nothing, origin="an empty drain"), stage="table").batch
    )
    page = ada.open("c", CONNECTION, "batches", batch.batch_id)
    page.get_by_role("button", name="Requeue").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The batch holds no messages")
    dialog.get_by_role("button", name="Mark requeued").click()
    _wait_until_done(page)
    found = client.batches.info(uuid.UUID(batch.batch_id))
    assert found is not None
    assert found.state == "requeued"


def test_a_sweep_is_offered_once_above_the_batches(ada: Screen, client: QueueClient) -> None:
    nothing = MessageFilter(message_type="No.Such.Type")
    for _ in range(2):
        client.batches.mark_consumed(
            client.queue("orders").drain(request=DrainRequest(where=nothing), stage="table").batch
        )
    page = ada.open("c", CONNECTION, "batches")
    expect(page.locator("tbody tr")).not_to_have_count(0)
    button = page.get_by_role("button", name="Sweep")
    expect(button).to_have_count(1)
    expect(page.locator("tbody").get_by_role("button", name="Sweep")).to_have_count(0)
    button.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("and orphaned files of dead runs")
    expect(dialog.get_by_role("button", name="Sweep")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    assert ada.violations() == []


def test_a_dry_run_without_messages_says_so_and_is_closed(ada: Screen, client: QueueClient) -> None:
    client.queue("error").send([Message({HeaderNames.FAILED_Q: "no.such.queue"}, b"")])
    last = client.queue("error").find(MessageFilter(headers={HeaderNames.FAILED_Q: "no.such.queue"}))[0]
    page = ada.open("c", CONNECTION, "q", ERROR, "m", str(last.row_version))
    page.get_by_role("button", name="Return").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 would stay, the failed queue does not exist")
    expect(dialog).to_contain_text("There is nothing to do.")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    client.errors.redirect("orders", filters={"row_versions": [last.row_version]})


def test_viewer_sees_no_button(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    assert ROLES["vera"] == "viewer"
    with signed_in(browser, airflow, "vera", airflow.root) as screen:
        page = screen.open("c", CONNECTION, "failures")
        page.locator("tbody th a").first.click()
        page.locator("tbody tr").first.wait_for()
        screen.settle()
        expect(page.get_by_role("button", name="Return")).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)
        page.locator("tbody th a").first.click()
        page.get_by_role("heading", name="Headers").wait_for()
        expect(page.get_by_role("button", name="Return")).to_have_count(0)
        expect(page.get_by_role("button", name="Show the body")).to_have_count(0)
        expect(page.locator("main")).to_contain_text("Seeing bodies needs the right to read 'SQL Queue Bodies'")
        # What was said of the view before is not said of this one.
        expect(page.locator("#live")).to_have_text("")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("actions/preview", {"action": "return", "queue": ERROR, "row_versions": [1]}),
        ("actions", {"token": "none", "count": 1}),
        ("queues/error/messages/1/edit", {"headers": None, "body": "{}", "dry_run": True}),
    ],
)
def test_viewer_is_refused(airflow: GuardedAirflow, client: QueueClient, path: str, body: dict[str, Any]) -> None:
    address = f"{airflow.root}/sqlqueue/api/connections/{CONNECTION}/{path}"
    headers = {"X-SqlQueue": "1", "Content-Type": "application/json"}
    nobody = httpx.post(address, content=json.dumps(body), headers=headers)
    assert nobody.status_code == 401
    headers["Authorization"] = f"Bearer {airflow.token('vera')}"
    refused = httpx.post(address, content=json.dumps(body), headers=headers)
    assert (refused.status_code, list(refused.json())) == (403, ["detail"])
