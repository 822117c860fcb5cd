// The queues of a connection, refreshed every ten seconds.

import { get, path } from "./api.js";
import { h, copyButton, foreign, say } from "./dom.js";
import { bar, sparkline } from "./charts.js";
import { count, exact, number, plural, rate, span } from "./format.js";
import { badge, note, problem, tabs } from "./parts.js";
import { recentActions } from "./actions.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const KINDS = { error: ["error queue", "error"], delayed: ["delayed", "plain"] };
const WORST = ["error", "warning", "info"];

export async function queues(page, conn) {
  page.place(conn);
  const wanted = h("input", { type: "search", autocomplete: "off" });
  const looked = h("span", { class: "looked" });
  const state = h("div", {}, note("Looking at the queues…"));
  const list = new Table({
    caption: `Queues of the connection ${conn}`,
    columns: columns(conn, () => shown),
    key: (queue) => queue.address,
    sort: { id: "messages", down: true },
  });
  const shown = { most: 0, places: 0 };
  let all = [];
  list.element.hidden = true;

  const draw = () => {
    const text = wanted.value.trim().toLowerCase();
    const some = text ? all.filter(({ address }) => address.toLowerCase().includes(text)) : all;
    shown.most = Math.max(0, ...all.map(({ messages }) => messages ?? 0));
    shown.places = new Set(all.map(place)).size;
    list.element.hidden = !some.length;
    list.update(some);
    return some;
  };
  wanted.addEventListener("input", () => {
    const some = draw();
    if (all.length) state.replaceChildren(...(some.length ? [] : [note("No queue has this in its name.")]));
    say(`${plural(some.length, "queue")} shown`);
  });

  page.show(
    h("h1", {}, foreign(conn)),
    tabs(conn, "Queues"),
    recentActions(page, conn),
    h("p", { class: "tools" }, h("label", {}, "Filter by name ", wanted), looked),
    state,
    list.element,
  );

  const look = async () => {
    const answer = await page.ask(get(path("connections", conn, "queues"), page.signal), state);
    if (!answer) return;
    all = answer.queues;
    const some = draw();
    state.replaceChildren(
      ...[answer.problem && problem(answer.problem), !answer.problem && empty(all, some)].filter(Boolean),
    );
    const total = all.reduce((sum, { messages }) => sum + (messages ?? 0), 0);
    const moment = new Date(answer.looked_at);
    const figures = `${plural(all.length, "queue")}, ${count(
      total,
      all.some((q) => q.is_estimate),
    )} messages, at `;
    looked.replaceChildren(
      figures,
      h("time", { datetime: answer.looked_at, title: exact(moment) }, moment.toLocaleTimeString()),
    );
  };
  await look();
  await page.every(null, look);
}

function empty(all, some) {
  if (!all.length) return note("There are no queue tables in the database of this connection.");
  return some.length ? null : note("No queue has this in its name.");
}

const place = ({ catalog, schema }) => [catalog, schema].filter(Boolean).join(".");

function columns(conn, shown) {
  return [
    { id: "name", label: "Queue", value: (q) => q.name.toLowerCase(), cell: (q) => name(conn, q, shown().places > 1) },
    {
      id: "messages",
      label: "Messages",
      number: true,
      value: (q) => q.messages,
      cell: (q) => [bar(q.messages ?? 0, shown().most), estimate(q)],
    },
    figure("delayed", "Delayed"),
    figure("expired", "Expired"),
    figure("quarantined", "Quarantined"),
    {
      id: "oldest",
      label: "Oldest",
      number: true,
      value: (q) => q.oldest_seconds,
      cell: (q) => span(q.oldest_seconds),
    },
    { id: "in", label: "In/s", number: true, value: (q) => q.rate_in, cell: (q) => rate(q.rate_in) },
    { id: "out", label: "Out/s", number: true, value: (q) => q.rate_out, cell: (q) => rate(q.rate_out) },
    { id: "history", label: "Last hours", cell: (q) => sparkline(q.history) ?? "–" },
    { id: "findings", label: "Findings", value: severity, cell: (q) => findings(q) },
  ];
}

const figure = (id, label) => ({
  id,
  label,
  number: true,
  value: (queue) => queue[id],
  cell: (queue) => h("span", { class: queue[id] ? null : "nothing" }, number(queue[id])),
});

const estimate = (queue) =>
  h(
    "span",
    { class: "figure", title: queue.is_estimate ? "An estimate, from the server’s statistics" : null },
    count(queue.messages, queue.is_estimate),
  );

/** Schema and database of a queue, shown only if the queues have different ones. */
function name(conn, queue, withPlace) {
  const kind = KINDS[queue.kind];
  return [
    h("a", { href: to.messages(conn, queue.address), title: queue.address }, foreign(queue.name)),
    kind ? [" ", badge(...kind)] : null,
    withPlace ? h("span", { class: "where" }, foreign(place(queue))) : null,
  ];
}

const severity = (queue) => Math.min(3, ...queue.findings.map((finding) => WORST.indexOf(finding.severity)));

function findings(queue) {
  if (!queue.findings.length) return h("span", { class: "nothing" }, "–");
  const worst = WORST[severity(queue)] ?? "info";
  const items = queue.findings.map((finding) => [
    h("p", {}, badge(finding.severity, finding.severity), " ", foreign(finding.sentence)),
    finding.statement
      ? h(
          "div",
          { class: "statement" },
          h("pre", { tabindex: "0" }, foreign(finding.statement)),
          copyButton(finding.statement, "Copy the statement"),
        )
      : null,
  ]);
  const open = h(
    "button",
    { type: "button", class: "badge-button" },
    badge(plural(queue.findings.length, "finding"), worst),
  );
  open.addEventListener("click", () => show(queue, items));
  return open;
}

function show(queue, items) {
  const close = h("button", { type: "button" }, "Close");
  const title = h("h2", { id: "findings-title" }, "Findings of ", foreign(queue.name));
  const dialog = h(
    "dialog",
    { "aria-labelledby": "findings-title" },
    title,
    items.flat(),
    h("p", { class: "buttons" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
