"""A made-up view, action and grouping: the page shows what its table of views and the API name, from one entry each."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Route, expect

from tests.ui.chromium import Screen
from tests.ui.guarded_airflow import CONNECTION

VIEW = """
import { h } from "./dom.js";
import { tabs } from "./parts.js";
import { to } from "./routes.js";

export function madeUp(page, conn, word) {
  page.place("Made up", [conn, to.queues(conn)]);
  page.show(h("h1", {}, "Made up"), tabs(conn, "Made up"), word ? h("p", { class: "word" }, word) : null);
}
"""

ACTION = {"name": "lend", "label": "Lend", "on": "failed", "danger": False, "pace": []}
FIELD = {"name": "to_queue", "label": "To the library", "required": True}


def test_an_added_view_is_a_module_and_an_entry_in_the_table(ada: Screen) -> None:
    def table(route: Route) -> None:
        text = route.fetch().text()
        entry = '  madeUp: { at: ["c/*/made-up", "c/*/made-up/*"], file: "made_up.js", tab: "Made up" },\n'
        route.fulfill(
            body=text.replace("export const VIEWS = {\n", f"export const VIEWS = {{\n{entry}"),
            content_type="text/javascript",
        )

    ada.page.route("**/static/routes.js", table)
    ada.page.route("**/static/made_up.js", lambda route: route.fulfill(body=VIEW, content_type="text/javascript"))
    try:
        page = ada.open("c", CONNECTION)
        page.get_by_role("link", name="Made up").click()
        expect(page.locator("h1")).to_have_text("Made up")
        expect(page.get_by_role("link", name="Made up")).to_have_attribute("aria-current", "page")
        assert page.url.endswith(f"#/c/{CONNECTION}/made-up")
        page = ada.open("c", CONNECTION, "made-up", "a/b c")
        expect(page.locator(".word")).to_have_text("a/b c")
    finally:
        ada.page.unroute_all()


def test_an_added_action_and_an_added_grouping_are_offered(ada: Screen) -> None:
    asked: list[Any] = []

    def session(route: Route) -> None:
        answer = route.fetch().json()
        answer["offered"].append({**ACTION, "fields": [FIELD]})
        answer["groupings"].append({"key": "kind_of", "label": "Made up", "archived": False})
        route.fulfill(json=answer)

    def preview(route: Route) -> None:
        asked.append(json.loads(route.request.post_data or ""))
        route.fulfill(json={"messages": 2, "possible": True, "sentence": "2 lent.", "label": "Lend 2", "token": "t"})

    ada.page.route("**/api/session", session)
    ada.page.route("**/actions/preview", preview)
    try:
        page = ada.open("c", CONNECTION, "failures")
        expect(page.get_by_role("radio", name="Made up")).to_have_count(1)
        page.locator("tbody th a").first.click()
        page.get_by_role("button", name="Lend the whole group…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To the library").fill("shelf")
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog).to_contain_text("2 lent.")
        expect(dialog.get_by_role("button", name="Lend 2")).to_be_visible()
        assert [(each["action"], each["to_queue"]) for each in asked] == [("lend", "shelf")]
        dialog.get_by_role("button", name="Cancel").click()
    finally:
        ada.page.unroute_all()
