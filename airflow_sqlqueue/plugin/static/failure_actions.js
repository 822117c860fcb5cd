// Actions on failed messages, or on archived ones: those that the API offers, and edit and return.

import { path } from "./api.js";
import { h } from "./dom.js";
import { actionButton, offeredButton } from "./actions.js";
import { note } from "./parts.js";
import { to } from "./routes.js";

/**
 * Buttons of the actions that the API offers.
 *
 * @param what body of the dry run, without the action: `{ queue, row_versions }` or `{ queue, group_by, group }`.
 * @param on `failed` or `archived`.
 * @param which the messages, for the labels; null for one message.
 * @param withOldest whether some are offered for the oldest messages alone too.
 */
export function failureActions(page, conn, what, { on = "failed", which = null, withOldest = false } = {}) {
  return page.session.offered
    .filter((action) => action.on === on)
    .flatMap((action) => [
      offeredButton(page, conn, action, what, which ? `${action.label} ${which}` : action.label),
      withOldest && action.pace.length
        ? offeredButton(page, conn, { ...action, fields: action.pace }, what, `${action.label} the oldest`)
        : null,
    ]);
}

/** Edit and return: the request has only changed parts, so a user can change a header without seeing the body. */
export function editAndReturn(page, conn, queue, one, maySeeBodies) {
  return actionButton(page, conn, {
    label: "Edit and return…",
    request: {},
    at: path("connections", conn, "queues", queue, "messages", one.row_version, "edit"),
    then: () => (location.hash = to.messages(conn, queue)),
    form: () => {
      const names = h(
        "datalist",
        { id: "header-names" },
        one.headers.map(([name]) => h("option", { value: name })),
      );
      const rows = h("div", { class: "edits" });
      const edits = [];
      const add = () => {
        const name = h("input", { type: "text", list: "header-names", autocomplete: "off", spellcheck: "false" });
        const value = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
        name.addEventListener("change", () => {
          const known = one.headers.find(([known]) => known === name.value);
          if (known && !value.value) value.value = known[1] ?? "";
        });
        edits.push([name, value]);
        rows.append(
          h(
            "div",
            { class: "edit" },
            h("label", { class: "field" }, "Header", name),
            h("label", { class: "field" }, "New value", value),
          ),
        );
      };
      const more = h("button", { type: "button", class: "small", onclick: add }, "Another header");
      add();
      const replace = h("input", { type: "checkbox" });
      const text = h("textarea", { rows: 8, spellcheck: "false", disabled: true });
      replace.addEventListener("change", () => (text.disabled = !replace.checked));
      const body = [
        h("label", { class: "check" }, replace, " Replace the body"),
        h("label", { class: "field" }, "New body", text),
        maySeeBodies ? null : note("You may replace the body, though you may not see it."),
      ].filter(Boolean);
      return {
        nodes: [names, rows, more, ...body],
        read: () => {
          const changed = edits.map(([name, value]) => [name.value.trim(), value.value]).filter(([name]) => name);
          return {
            headers: changed.length ? Object.fromEntries(changed) : null,
            body: replace.checked ? text.value : null,
          };
        },
      };
    },
  });
}
