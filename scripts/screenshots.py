"""Screenshots of the page's views, light and dark, in ``docs/_screenshots``: a shop's queues in a running Airflow.

Those that README and docs show, :data:`SHOWN` and the report of ``make demo``, go to ``docs/pictures`` too, with the
digest of what draws them.

``MINUTES`` in the environment (default 4) is the duration of the traffic before the screenshots of the queues, whose
charts of the last hours get a point each minute.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

from playwright.sync_api import Browser, Locator, expect

from airflow_sqlqueue import DrainOptions, DrainRequest, ErrorQueueOptions, MessageFilter, QueueClient
from airflow_sqlqueue.traffic import generate, generate_failed
from fakemssql import FakeServer
from tests.docs.pictures import DIGEST, PICTURES, digest_of_what_is_shown
from tests.ui.chromium import Screen, chromium, chromium_path, row_of, signed_in
from tests.ui.guarded_airflow import CONNECTION, GuardedAirflow

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "_screenshots"
ENDPOINTS = ("Catalog", "Fulfilment", "Payments.EU", "Payments.US", "Returns", "Stock.North", "Stock.South", "Web")
REPORT = ROOT / ".demo" / "report.html"
SHOWN = ("queues-light", "queues-dark", "group-light")
ERROR = "error@[dbo]@[sqlqueue]"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 780}


class Shop:
    """Queues whose depth changes until the block ends."""

    def __init__(self, client: QueueClient) -> None:
        self._client, self._ended = client, threading.Event()
        self._thread = threading.Thread(target=self._work)
        now = datetime.now(timezone.utc)
        for number, name in enumerate(ENDPOINTS):
            client.tables.create(name)
            client.queue(name).send(generate(20 + number * 57, seed=number, start=now))
        client.queue("audit").send(generate(6_000, seed=11, start=now))
        client.queue("error").send(generate_failed(500, seed=12, start=now, catalog="sqlqueue"))
        for reason in ("fixed in 4.2, not worth a retry", "the bank knows of it"):
            few = ErrorQueueOptions(max_messages=40)
            client.errors.archive(filters={"kind": "failed"}, reason=reason, by="ada", options=few)
        audit, some = client.queue("audit"), DrainOptions(max_messages=2_000)
        client.batches.mark_consumed(
            audit.drain(request=DrainRequest(options=some, origin="a notebook"), stage="table").batch
        )
        audit.drain(request=DrainRequest(options=some, origin="a notebook"), stage="table")
        client.queue("returns").drain(
            request=DrainRequest(where=MessageFilter(message_type="Shop.None"), origin="a notebook"), stage="table"
        )
        client.run_sql("DROP INDEX [Index_Expires] ON [dbo].[Returns]")

    def __enter__(self) -> Shop:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        rng = random.Random(1)  # noqa: S311 - repeatable on purpose
        for seed in range(1_000):
            for name in ("audit", *ENDPOINTS):
                queue = self._client.queue(name)
                queue.send(generate(rng.randrange(60), seed=seed, start=datetime.now(timezone.utc)))
                for _ in queue.receive(rng.randrange(1, 60)):
                    pass
                if self._ended.wait(0.5):
                    return


class Pictures:
    """Screenshots of a user's window in both themes."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def take(self, name: str, *route: str, then: Callable[[Screen], object] = lambda screen: None) -> None:
        """Take screenshots of a view, after the user's actions ``then``."""
        page = self._screen.page
        page.set_viewport_size(PHONE if name.endswith("-phone") else WIDE)  # type: ignore[arg-type]
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            self._screen.open(*route)
            then(self._screen)
            self._screen.settle()
            page.screenshot(path=FOLDER / f"{name}-{theme}.png")
            sys.stdout.write(f"{name}-{theme}.png\n")


def first_row(screen: Screen) -> Locator:
    return screen.page.locator("tbody th a").first


def open_first(screen: Screen) -> None:
    first_row(screen).click()
    screen.page.locator("h1, h2").get_by_text("Messages").or_(screen.page.get_by_text("Headers", exact=True)).wait_for()


def show_body(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Show the body").click()
    screen.page.get_by_label("Body", exact=True).scroll_into_view_if_needed()


def dry_run(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Return the whole group").click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("Nothing has been done yet.")


def redirect(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Redirect the whole group").click()
    screen.page.get_by_role("dialog").wait_for()


def return_some(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Return the oldest").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("At most this many a second").fill("5")
    dialog.get_by_role("button", name="Dry run").focus()


def archive(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Archive the whole group").click()
    screen.page.get_by_role("dialog").get_by_label("Reason").fill("fixed in 4.2, not worth a retry")


def delete(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Delete the whole group").click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("Nothing has been done yet.")


def open_archived(screen: Screen) -> None:
    first_row(screen).click()
    screen.page.get_by_role("button", name="Restore").wait_for()


def edit(screen: Screen) -> None:
    open_first(screen)
    screen.page.get_by_role("button", name="Edit and return").click()
    screen.page.get_by_role("dialog").wait_for()


def confirm(screen: Screen) -> None:
    dry_run(screen)
    screen.page.get_by_role("dialog").get_by_role("button", name="Return").click()
    expect(screen.page.locator("main .badge")).to_have_text("done", timeout=300_000)


def open_batch(screen: Screen) -> None:
    first_row(screen).click()
    screen.page.locator("h1 .badge").wait_for()


def requeue_nothing(screen: Screen) -> None:
    row_of(screen.page, "Returns").get_by_role("button", name="Requeue").click()
    screen.page.get_by_role("dialog").locator(".preview").wait_for()


def scroll(screen: Screen) -> None:
    screen.page.mouse.wheel(0, 300)
    screen.page.wait_for_timeout(500)


def findings(screen: Screen) -> None:
    screen.page.get_by_role("button", name="1 finding").first.click()


def take_pictures(browser: Browser, airflow: GuardedAirflow, began: float) -> None:
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        pictures, failures = Pictures(screen), ("c", CONNECTION, "failures")
        pictures.take("messages", "c", CONNECTION, "q", ERROR)
        pictures.take("message", "c", CONNECTION, "q", ERROR, then=open_first)
        pictures.take("body", "c", CONNECTION, "q", ERROR, then=show_body)
        pictures.take("edit", "c", CONNECTION, "q", ERROR, then=edit)
        pictures.take("batches", "c", CONNECTION, "batches")
        pictures.take("empty-batch", "c", CONNECTION, "batches", then=requeue_nothing)
        pictures.take("batch", "c", CONNECTION, "batches", then=open_batch)
        pictures.take("failures", *failures)
        pictures.take("failures-phone", *failures)
        pictures.take("group", *failures, then=open_first)
        pictures.take("group-phone", *failures, then=open_first)
        pictures.take("redirect", *failures, then=redirect)
        pictures.take("dry-run", *failures, then=dry_run)
        pictures.take("return-some", *failures, then=return_some)
        pictures.take("archive-dialog", *failures, then=archive)
        pictures.take("delete-dialog", *failures, then=delete)
        archived = ("c", CONNECTION, "archive", ERROR)
        pictures.take("archive", *archived, "reason")
        pictures.take("archive-group", *archived, "exception_type", then=open_archived)
        pictures.take("archive-group-phone", *archived, "exception_type", then=open_archived)
        pictures.take("progress", *failures, then=confirm)
        while time.monotonic() < began + 60 * float(os.environ.get("MINUTES", "4")):
            # Each request adds to the history, which has a point each minute.
            screen.open("c", CONNECTION)
            time.sleep(10)
        pictures.take("connections")
        pictures.take("queues", "c", CONNECTION)
        pictures.take("queues-scrolled", "c", CONNECTION, then=scroll)
        pictures.take("queues-phone", "c", CONNECTION)
        pictures.take("findings", "c", CONNECTION, then=findings)
        screen.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        screen.page.goto(f"{airflow.root}/plugin/sqlqueue")
        screen.frame.get_by_role("link", name=CONNECTION).click()
        screen.frame.locator("tbody tr").first.wait_for()
        screen.page.screenshot(path=FOLDER / "in-airflow.png")


def publish(browser: Browser) -> None:
    """Copy the pictures of the README and the docs to their folder, and take one of the report."""
    for name in SHOWN:
        shutil.copy(FOLDER / f"{name}.png", PICTURES)
    page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
    page.goto(REPORT.as_uri())
    page.screenshot(path=PICTURES / "report.png")
    DIGEST.write_text(f"{digest_of_what_is_shown()}\n", "utf-8")


def main() -> int:
    if chromium_path() is None:
        return 1
    if not REPORT.exists():
        sys.stdout.write("Run make demo first: its report is one of the pictures.\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlqueue-screenshots-")))
        server = stack.enter_context(FakeServer(databases=["sqlqueue"]))
        airflow = GuardedAirflow(home)
        stack.callback(airflow.stop)
        sys.stdout.write("Starting Airflow ...\n")
        airflow.start()
        client = airflow.add_traffic(server)
        airflow.run("orders_to_lake", "drain")
        with Shop(client), chromium() as browser:
            take_pictures(browser, airflow, time.monotonic())
            publish(browser)
    sys.stdout.write(f"The pictures are in {FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
