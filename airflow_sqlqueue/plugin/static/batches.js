// Batches of drains, and the actions on them.

import { get, path } from "./api.js";
import { h, copyButton, foreign } from "./dom.js";
import { offeredButton } from "./actions.js";
import { bytes, number, plural, span, when } from "./format.js";
import { address, badge, facts, note, problem, rightsOf, runLink, tabs } from "./parts.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const LIMIT = 100;
const STATES = { open: "info", sealed: "warning", consumed: "good", requeued: "plain" };

export async function batches(page, conn) {
  page.place("Batches", [conn, to.queues(conn)]);
  const state = h("div", {}, note("Reading the ledger…"));
  page.show(h("h1", {}, "Batches"), tabs(conn, "Batches"), state);
  const where = `${path("connections", conn, "batches")}?limit=${LIMIT}`;
  const found = await page.ask(Promise.all([get(where, page.signal), rightsOf(page, get, conn)]), state);
  if (!found) return;
  const [answer, rights] = found;
  if (!answer.batches.length) {
    state.replaceChildren(answer.problem ? problem(answer.problem) : note("No drain has left a batch here."));
    return;
  }
  const list = new Table({
    caption: "Batches, the latest first",
    columns: columns(page, conn, rights),
    key: (batch) => batch.batch_id,
    label: (batch) => `batch ${batch.batch_id}`,
  });
  list.update(answer.batches);
  const most = answer.batches.length === LIMIT ? note(`The latest ${LIMIT}.`) : null;
  const parts = [
    answer.problem && problem(answer.problem),
    rights.reason && note(foreign(rights.reason)),
    rights.mayAct && sweeps(page, conn, answer.ledgers),
    list.element,
    most,
  ];
  state.replaceChildren(...parts.filter(Boolean));
}

function columns(page, conn, rights) {
  const all = [
    {
      id: "batch",
      label: "Batch",
      cell: (b) =>
        h("a", { class: "mono short", href: to.batch(conn, b.batch_id), title: b.batch_id }, b.batch_id.slice(0, 8)),
    },
    { id: "state", label: "State", value: (b) => b.state, cell: (b) => badge(b.state, STATES[b.state]) },
    { id: "queue", label: "Queue", value: (b) => b.queue, cell: (b) => address(b.queue) },
    {
      id: "age",
      label: "Age",
      number: true,
      value: (b) => b.age_seconds,
      cell: (b) => h("time", { datetime: b.opened, title: b.opened }, span(b.age_seconds)),
    },
    { id: "messages", label: "Messages", number: true, value: (b) => b.messages, cell: (b) => number(b.messages) },
    { id: "bytes", label: "Size", number: true, value: (b) => b.bytes, cell: (b) => bytes(b.bytes) },
    { id: "parts", label: "Parts", number: true, value: (b) => b.parts, cell: (b) => number(b.parts) },
    { id: "origin", label: "Drained by", wide: true, cell: (b) => origin(b) },
  ];
  if (rights.mayAct) all.push({ id: "actions", label: "Actions", cell: (b) => buttons(page, conn, b, true) });
  return all;
}

/** A sweep concerns a whole ledger, so its button is above the batches: one for each database with finished batches. */
function sweeps(page, conn, ledgers) {
  if (!ledgers.length) return null;
  const all = page.session.offered
    .filter(({ on }) => on === "ledger")
    .flatMap((action) =>
      ledgers.map(({ database, queue }) => {
        const label = ledgers.length > 1 ? `${action.label} of ${database}` : action.label;
        return offeredButton(page, conn, action, { queue }, label);
      }),
    );
  return h("p", { class: "buttons" }, all);
}

const origin = (batch) =>
  batch.dag_id && batch.run_id ? runLink(batch.dag_id, batch.run_id, batch.task_id) : foreign(batch.origin ?? "–");

function buttons(page, conn, batch, small = false) {
  const offered = page.session.offered.filter(({ name }) => batch.actions.includes(name));
  if (!offered.length) return null;
  const all = offered.map((action) => {
    const button = offeredButton(page, conn, action, { batch_id: batch.batch_id });
    if (small) {
      button.classList.add("small");
      button.setAttribute("aria-label", `${action.label} batch ${batch.batch_id.slice(0, 8)}`);
    }
    return button;
  });
  return h(small ? "span" : "p", { class: "buttons" }, all);
}

export async function batch(page, conn, id) {
  page.place(`Batch ${id.slice(0, 8)}`, [conn, to.queues(conn)], ["Batches", to.batches(conn)]);
  page.show(h("h1", {}, `Batch ${id.slice(0, 8)}`), tabs(conn, "Batches"), note("Reading the ledger…"));
  const found = await page.ask(
    Promise.all([get(path("connections", conn, "batches", id), page.signal), rightsOf(page, get, conn)]),
  );
  if (!found) return;
  const [one, rights] = found;
  const paths = one.paths ?? [];
  page.show(
    h("h1", {}, `Batch ${id.slice(0, 8)} `, badge(one.state, STATES[one.state])),
    tabs(conn, "Batches"),
    facts([
      ["Batch id", h("span", { class: "mono" }, foreign(one.batch_id))],
      ["Queue", h("a", { href: to.messages(conn, one.queue) }, address(one.queue))],
      ["Messages", number(one.messages)],
      ["Size", bytes(one.bytes)],
      ["Parts", number(one.parts)],
      ["Begun", when(one.opened)],
      ["Drained by", origin(one)],
      ["Staged in", one.stage],
      ...(one.redacted ? [["Redacted", "Rules for private data changed the messages."]] : []),
      ...(one.erased ? [["Erased", plural(one.erased, "message")]] : []),
    ]),
    rights.reason ? note(foreign(rights.reason)) : null,
    rights.mayAct ? buttons(page, conn, one) : null,
    paths.length
      ? [
          h("h2", {}, plural(paths.length, "file")),
          h(
            "div",
            { class: "statement" },
            h("pre", { class: "text", tabindex: "0", "aria-label": "Files" }, foreign(paths.join("\n"))),
            copyButton(paths.join("\n")),
          ),
        ]
      : null,
  );
}
