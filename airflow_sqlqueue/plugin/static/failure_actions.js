// Actions on failed messages: return, redirect, park, archive, delete, edit and return; on archived ones: restore, delete.

import { path } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { actionButton } from "./actions.js";
import { note } from "./parts.js";
import { to } from "./routes.js";

const messages = (count) => plural(count, "message");

/** @param what body of the dry run, without the action: `{ queue, row_versions }` or `{ queue, group_by, group }`. */
export function returnToSource(page, conn, what, label = "Return to source") {
  return actionButton(page, conn, {
    label,
    verb: (count) => `Return ${messages(count)}`,
    request: { action: "return", ...what },
  });
}

/** Return a part of a group: the oldest messages first, at a rate that the endpoints can take. */
export function returnSome(page, conn, what) {
  return actionButton(page, conn, {
    label: "Return the oldest…",
    verb: (count) => `Return ${messages(count)}`,
    request: { action: "return", ...what },
    form: () => {
      const most = h("input", { type: "number", min: 1, step: 1, required: true, value: 100 });
      const rate = h("input", { type: "number", min: 0.01, step: "any" });
      return {
        nodes: [
          h("label", { class: "field" }, "Number of messages", most),
          h("label", { class: "field" }, "At most this many a second", rate),
          note("The oldest messages go first. Leave the rate empty to return them as fast as the server can."),
        ],
        read: () => ({ max_messages: most.valueAsNumber, rate: rate.value ? rate.valueAsNumber : null }),
      };
    },
  });
}

const toQueue = (action, verb, word) => (page, conn, what, label) =>
  actionButton(page, conn, {
    label: `${label ?? word}…`,
    verb: (count) => `${word} ${messages(count)}`,
    request: { action, ...what },
    form: () => {
      const target = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false" });
      return {
        nodes: [
          h("label", { class: "field" }, "To the queue", target),
          note("An address: a table, or table@[schema]@[catalog].", verb),
        ],
        read: () => ({ destination: target.value.trim() }),
      };
    },
  });

export const redirect = toQueue("redirect", null, "Redirect");
export const park = toQueue("park", " The messages keep the headers of their failure.", "Park");

export function archiveMessages(page, conn, what, label = "Archive") {
  return actionButton(page, conn, {
    label: `${label}…`,
    verb: (count) => `Archive ${messages(count)}`,
    request: { action: "archive", ...what },
    form: () => {
      const reason = h("input", { type: "text", maxlength: 500, autocomplete: "off" });
      return {
        nodes: [
          h("label", { class: "field" }, "Reason", reason),
          note("The archive keeps your name, the time and the reason. Archived messages can be restored."),
        ],
        read: () => ({ reason: reason.value.trim() || null }),
      };
    },
  });
}

const forGood = (action) => (page, conn, what, label = "Delete") =>
  actionButton(page, conn, {
    label,
    verb: (count) => `Delete ${messages(count)} for good`,
    request: { action, ...what },
    danger: true,
  });

export const deleteMessages = forGood("delete");
export const deleteArchived = forGood("purge_archive");

export function restore(page, conn, what, label = "Restore") {
  return actionButton(page, conn, {
    label,
    verb: (count) => `Restore ${messages(count)}`,
    request: { action: "restore", ...what },
  });
}

/** Edit and return: the request has only changed parts, so a user can change a header without seeing the body. */
export function editAndReturn(page, conn, queue, one, maySeeBodies) {
  return actionButton(page, conn, {
    label: "Edit and return…",
    verb: () => "Return the edited message",
    request: {},
    at: path("connections", conn, "queues", queue, "messages", one.row_version, "edit"),
    then: () => (location.hash = to.queue(conn, queue)),
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
