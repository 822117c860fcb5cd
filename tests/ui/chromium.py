"""Debian's chromium, driven by Playwright: a browser without a window, and what a person does in the page."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, FrameLocator, Locator, Page, Response, expect, sync_playwright

from tests.ui.guarded_airflow import GuardedAirflow

WAIT_MS = 90_000
"""For everything that a page waits for, on a machine that has other things to do as well."""

# Background requests of the browser would only fail, and as root its sandbox cannot start.
ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


def chromium_path() -> str | None:
    """Path of the browser, or None; ``CHROMIUM`` names another one."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


expect.set_options(timeout=WAIT_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; it ends with the block."""
    arguments = [*ARGUMENTS, "--no-sandbox"] if os.geteuid() == 0 else ARGUMENTS
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@cache
def axe_source() -> str:
    """axe-core as the package that drives it has it."""
    package = importlib.util.find_spec("axe_playwright_python")
    assert package is not None
    assert package.origin is not None
    return (Path(package.origin).parent / "axe.min.js").read_text("utf-8")


def route(*parts: str | int) -> str:
    """``#/c/…``: an address of the page."""
    return "#/" + "/".join(quote(str(part), safe="") for part in parts)


class Screen:
    """Page of a user, alone in its window or in Airflow's frame; records its errors.

    :param page: a window that is signed in.
    :param base: the address of Airflow.
    """

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.wrong: list[str] = []
        self.responses: list[Response] = []
        page.set_default_timeout(WAIT_MS)
        page.set_default_navigation_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self._note(message.text))
        page.on("response", lambda response: self.responses.append(response))

    def _note(self, text: str) -> None:
        if "Content Security" in text:
            self.wrong.append(text)

    def sign_in(self, name: str, password: str, then: str = "/plugin/sqlqueue") -> None:
        """By Airflow's own form, which leads to the page."""
        self.page.goto(self.base + then)
        self.page.locator("input[name=username]").fill(name)
        self.page.locator("input[name=password]").fill(password)
        self.page.locator("button[type=submit]").click()
        self.page.wait_for_url(f"{self.base}{then}**")

    @property
    def frame(self) -> FrameLocator:
        """The page in Airflow's frame."""
        return self.page.frame_locator("iframe")

    def open(self, *parts: str | int) -> Page:
        """A view of the page, in a window of its own, when it has ended looking."""
        self.page.goto(f"{self.base}/sqlqueue/page?at={len(self.responses)}{route(*parts)}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until no part of the page says that it is still looking."""
        self.page.locator("h1").first.wait_for()
        busy = "main :text-matches('^(Looking|Reading|Loading|Counting).*…$')"
        self.page.wait_for_function("() => document.querySelector('#who')?.textContent")
        self.page.locator(busy).first.wait_for(state="detached")

    def violations(self) -> list[str]:
        """Serious and critical findings of axe."""
        self.page.evaluate(axe_source())
        found: Any = self.page.evaluate("() => axe.run()")
        return [
            f"{rule['id']}: {node['html'][:200]}"
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    def overhang(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth"))


def row_of(view: Page | FrameLocator, text: str) -> Locator:
    """The row of a table that has this text."""
    return view.locator("tbody tr").filter(has_text=text)


@contextmanager
def signed_in(browser: Browser, airflow: GuardedAirflow, name: str, base: str, **options: Any) -> Iterator[Screen]:
    """A window of its own for a person; it fails where a script failed in it."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    try:
        screen = Screen(context.new_page(), base)
        screen.sign_in(name, airflow.passwords[name])
        yield screen
        assert not screen.wrong
    finally:
        context.close()
