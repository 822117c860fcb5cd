// One message: its facts, its headers, and its body on request of a user with that right.

import { get, path } from "./api.js";
import { h, clipped, copyButton, foreign } from "./dom.js";
import { bytes, shortType, when } from "./format.js";
import { editAndReturn, failureActions } from "./failure_actions.js";
import { badge, facts, note, rightsOf, tabs } from "./parts.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const FAILED_QUEUE = "NServiceBus.FailedQ";

export async function message(page, conn, queue, row) {
  page.place(`Row ${row}`, [conn, to.queues(conn)], [queue, to.messages(conn, queue)]);
  page.show(h("h1", {}, `Row ${row}`), tabs(conn, "Queues"), note("Reading the message…"));
  const where = path("connections", conn, "queues", queue, "messages", row);
  const found = await page.ask(Promise.all([get(where, page.signal), rightsOf(page, get, conn)]));
  if (!found) return;
  const [one, rights] = found;
  page.show(
    h("h1", {}, foreign((shortType(one.message_type) ?? `Row ${row}`).slice(0, 120))),
    tabs(conn, "Queues"),
    summary(one),
    one.headers.some(([name, value]) => name === "NServiceBus.ConversationId" && value)
      ? h("p", {}, h("a", { href: to.conversation(conn, queue, row) }, "Conversation of this message"))
      : null,
    actions(page, conn, queue, one, rights),
    headers(one),
    body(page, where, rights),
  );
}

function summary(one) {
  return facts([
    ["Message id", one.message_id && h("span", { class: "mono" }, clipped(one.message_id, 120))],
    ["Id in the queue", h("span", { class: "mono" }, foreign(one.id))],
    ["Type", one.message_type && clipped(one.message_type, 200)],
    ["Sent", one.time_sent && when(one.time_sent)],
    ["Expires", one.expires && [when(one.expires), one.expired ? [" ", badge("expired", "warning")] : null]],
    ["Size", bytes(one.bytes)],
    ["Row", String(one.row_version)],
    ["Correlation id", one.correlation_id && h("span", { class: "mono" }, clipped(one.correlation_id, 120))],
  ]);
}

function headers(one) {
  const title = h("h2", {}, "Headers");
  if (!one.is_readable) {
    const raw = one.raw_headers ?? "";
    return h(
      "section",
      {},
      title,
      note(
        one.problem ? foreign(one.problem) : "These headers are not in the format of the transport.",
        " This is their text.",
      ),
      h("pre", { class: "text", tabindex: "0" }, clipped(raw, 4000)),
    );
  }
  if (!one.headers.length) return h("section", {}, title, note("This message has no headers."));
  const table = new Table({
    caption: "Headers of this message",
    columns: [
      {
        id: "name",
        label: "Name",
        value: ([name]) => name,
        cell: ([name]) => h("span", { class: "mono" }, clipped(name, 120)),
      },
      {
        id: "value",
        label: "Value",
        wide: true,
        cell: ([, value]) =>
          value === null ? h("em", {}, "null") : h("span", { class: "lines" }, clipped(value, 600)),
      },
    ],
    key: ([name]) => name,
  });
  table.element.classList.add("headers");
  table.update(one.headers);
  return h("section", {}, title, table.element);
}

function body(page, where, rights) {
  const section = h("section", {}, h("h2", {}, "Body"));
  if (!rights.maySeeBodies) {
    section.append(note(foreign(rights.bodiesRefused)));
    return section;
  }
  const place = h("div", {});
  const button = h("button", { type: "button" }, "Show the body");
  button.addEventListener("click", async () => {
    place.replaceChildren(note("Reading the body…"));
    const answer = await page.ask(get(`${where}/body`, page.signal), place);
    if (!answer) return;
    button.remove();
    if (answer.kind === "empty") return place.replaceChildren(note("The body is empty."));
    const cut = answer.cut ? note(`The beginning of ${bytes(answer.bytes)}.`) : null;
    const text = h("pre", { class: "text", tabindex: "0", "aria-label": "Body" }, foreign(answer.text));
    place.replaceChildren(
      h("p", { class: "tools" }, badge(answer.kind), ` ${bytes(answer.bytes)} `, copyButton(answer.text)),
      text,
      ...(cut ? [cut] : []),
    );
    text.focus();
  });
  section.append(button, place);
  return section;
}

function actions(page, conn, queue, one, rights) {
  const failedIn = one.headers.find(([name]) => name === FAILED_QUEUE);
  if (!failedIn) return null;
  const what = { queue, row_versions: [one.row_version] };
  const buttons = [
    rights.mayAct ? failureActions(page, conn, what) : null,
    rights.mayEdit ? editAndReturn(page, conn, queue, one, rights.maySeeBodies) : null,
  ].filter(Boolean);
  return [
    rights.reason ? note(foreign(rights.reason)) : null,
    buttons.length ? h("p", { class: "buttons" }, buttons) : null,
  ];
}
