"""Each view of the page: its content, its accessibility, and foreign values as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import HeaderNames
from tests.ui.chromium import Screen, row_of, signed_in
from tests.ui.guarded_airflow import CONNECTION, DOWN, GuardedAirflow

ERROR = "error@[dbo]@[sqlqueue]"
HOSTILE = "hostile@[dbo]@[sqlqueue]"

View = Callable[[Screen], object]


def _message(screen: Screen) -> None:
    screen.open("c", CONNECTION, "q", HOSTILE)
    screen.page.locator("tbody th a").first.click()
    expect(screen.page.get_by_role("heading", name="Headers")).to_be_visible()


def _batches(screen: Screen) -> None:
    screen.open("c", CONNECTION, "batches")
    expect(row_of(screen.page, "a notebook")).to_contain_text("sealed")


def _batch(screen: Screen) -> None:
    _batches(screen)
    row_of(screen.page, "a notebook").get_by_role("link").first.click()
    expect(screen.page.locator("h1")).to_contain_text("sealed")
    screen.settle()


def _failures(screen: Screen) -> None:
    screen.open("c", CONNECTION, "failures")
    expect(screen.page.get_by_role("table")).to_be_visible()


def _group(screen: Screen) -> None:
    _failures(screen)
    screen.page.locator("tbody th a").first.click()
    screen.page.get_by_role("heading", name="Messages").wait_for()
    screen.settle()


def _dry_run(screen: Screen) -> None:
    _group(screen)
    screen.page.get_by_role("button", name="Return the whole group").click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("Nothing has been done yet.")


VIEWS: dict[str, View] = {
    "connections": lambda screen: screen.open(),
    "queues": lambda screen: screen.open("c", CONNECTION),
    "server down": lambda screen: screen.open("c", DOWN),
    "messages": lambda screen: screen.open("c", CONNECTION, "q", ERROR),
    "message": _message,
    "batches": _batches,
    "batch": _batch,
    "failures": _failures,
    "group": _group,
    "dry run": _dry_run,
    "nothing": lambda screen: screen.open("no", "such", "view"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_for_everybody(ada: Screen, name: str) -> None:
    """Dark on a telephone and light on a desk: nothing that axe calls serious, and no scrolling to the side."""
    for width, theme in ((360, "dark"), (1280, "light")):
        ada.page.set_viewport_size({"width": width, "height": 860})
        ada.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        VIEWS[name](ada)
        expect(ada.page.locator("html")).to_have_attribute("data-theme", theme)
        assert ada.overhang() <= 0
        assert ada.violations() == []


def test_queues_in_airflow(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    """From the form to a message, in Airflow's frame; a reload comes back to the same place."""
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        card = screen.frame.locator(".card", has_text=CONNECTION)
        expect(card).to_contain_text("Failed")
        down = screen.frame.locator(".card", has_text=DOWN)
        expect(down.get_by_role("alert")).to_contain_text("answers at 127.0.0.1")
        card.get_by_role("link", name=CONNECTION).click()
        expect(row_of(screen.frame, "audit")).to_contain_text("300")
        expect(row_of(screen.frame, "error")).to_contain_text("error queue")
        screen.frame.get_by_label("Filter by name").fill("hosti")
        expect(screen.frame.locator("tbody tr")).to_have_count(1)
        screen.frame.get_by_role("link", name="hostile").click()
        expect(screen.frame.locator("h1")).to_have_text(HOSTILE)
        screen.page.reload()
        expect(screen.frame.locator("h1")).to_have_text(HOSTILE)
        screen.page.evaluate("() => document.documentElement.classList.replace('light', 'dark')")
        expect(screen.frame.locator("html")).to_have_attribute("data-theme", "dark")


def test_first_view_is_small(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    """The files of the page itself, without Airflow, stay below 300 kB."""
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        screen.responses.clear()
        screen.open()
        ours = [each for each in screen.responses if "/sqlqueue/" in each.url]
        assert {"page", "app.js", "app.css", "session"} <= {each.url.split("?")[0].rsplit("/", 1)[1] for each in ours}
        assert all(each.status == 200 for each in ours)
        assert sum(len(each.body()) for each in ours) < 300_000


def test_hostile_headers_are_text(ada: Screen) -> None:
    _message(ada)
    page = ada.page
    expect(page.locator("h1")).to_have_text("title='taken'\">")
    headers = page.get_by_role("table", name="Headers of this message")
    expect(headers).to_contain_text("<img src=x onerror=\"document.title='taken'\">")
    expect(headers).to_contain_text("<script>document.title = 'taken'</script>")
    expect(headers).to_contain_text("left \\u202Etfel\\u202C \\u2066isolate\\u2069 \\u0007bell")
    expect(row_of(page, "turned")).to_contain_text("turned\\u202Eeman")
    assert row_of(page, "rows").locator("td").inner_text().split("\n") == ["one", "two"]
    assert headers.locator("script, img, a").count() == 0
    long = row_of(page, "a long name")
    assert len(long.inner_text()) < 1000
    long.get_by_role("button", name="Show all 10,240 characters").click()
    expect(long).to_contain_text("N" * 10_240)
    assert ada.overhang() <= 0
    assert "taken" not in page.title()


def test_body_on_request(ada: Screen) -> None:
    _message(ada)
    expect(ada.page.get_by_text("<b>body</b>")).to_have_count(0)
    ada.page.get_by_role("button", name="Show the body").click()
    expect(ada.page.get_by_label("Body", exact=True)).to_contain_text('"note": "<b>body</b>"')


def test_search(ada: Screen, client: QueueClient) -> None:
    """By id; an event that failed in two queues stands in the error queue twice, with one id."""
    heads = [head.decoded for head in client.queue("error").browse(1000)]
    ids = Counter(head.values[HeaderNames.MESSAGE_ID] for head in heads if head.problem is None)
    wanted, count = ids.most_common(1)[0]
    assert wanted is not None
    page = ada.open("c", CONNECTION, "q", ERROR)
    page.get_by_label("Message id").fill(wanted)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(count)
    for row in page.locator("tbody tr").all():
        expect(row.locator(".mono").first).to_have_text(wanted)
    assert wanted not in page.url
    page.get_by_label("Message id").fill("no such id")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main").get_by_text("No message matches.")).to_be_visible()


def test_keyboard(ada: Screen) -> None:
    """Sorting, a view and its title without a mouse."""
    page = ada.open("c", CONNECTION)
    head = page.get_by_role("columnheader", name="Queue")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    names = page.locator("tbody th a").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    arrows = "found => found.map(arrow => getComputedStyle(arrow, '::after').content).filter(text => text !== '\"\"')"
    assert page.locator("th .arrow").evaluate_all(arrows) == ['"↑"']
    page.get_by_role("link", name="hostile").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(HOSTILE)
    expect(page.locator("h1")).to_be_focused()


def test_group_by(ada: Screen) -> None:
    """By the arrow keys, which stay where they are; the address says what is shown."""
    page = ada.open("c", CONNECTION, "failures")
    expect(page.get_by_role("columnheader", name="Exception")).to_be_visible()
    page.get_by_role("radio", name="Exception").focus()
    for name in ("Message type", "Endpoint", "Failed queue", "Day", "Hour"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("radio", name=name)).to_be_focused()
        expect(page.get_by_role("columnheader", name=name)).to_be_visible()
    assert page.url.endswith("/hour")
    page.reload()
    expect(page.get_by_role("columnheader", name="Hour")).to_be_visible()


def test_findings(ada: Screen) -> None:
    """A queue that lacks an index says so, with the statement that makes it."""
    page = ada.open("c", CONNECTION)
    row_of(page, "hostile").get_by_role("button", name="finding").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_contain_text("CREATE NONCLUSTERED INDEX [Index_Expires]")
    dialog.get_by_role("button", name="Copy the statement").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    assert ada.violations() == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row_of(page, "hostile").get_by_role("button", name="finding")).to_be_focused()


def test_sign_in_again(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> None:
    """Looking stops when the session has ended, with a sentence."""
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        page = screen.open("c", CONNECTION)
        page.context.clear_cookies()
        expect(page.get_by_role("link", name="Sign in again")).to_be_visible()
        screen.responses.clear()
        page.wait_for_timeout(12_000)
        assert [each.url for each in screen.responses] == []


def test_view_parameter(ada: Screen) -> None:
    ada.page.goto(f"{ada.base}/sqlqueue/page?view=%23%2Fc%2F{CONNECTION}%2Fbatches")
    ada.settle()
    expect(ada.page.locator("h1")).to_have_text("Batches")
    ada.page.goto(f"{ada.base}/sqlqueue/page?view=javascript%3Aalert(1)")
    expect(ada.page.locator("h1")).to_have_text("SQL queues")
