// Usage by day: of queues by their growth, or of endpoints and message types by counted batches.

import { get, path, post } from "./api.js";
import { h, foreign, say } from "./dom.js";
import { dailyChart, histogram } from "./charts.js";
import { number, plural, shortType } from "./format.js";
import { choice, note, tabs } from "./parts.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const SOURCES = [
  ["queues", "Queues"],
  ["endpoints", "Endpoints and types"],
];
const TIMES = [
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "A year"],
];
const SAY = {
  queues: "There is no growth of queues yet. A task records it: sqlqueue usage record, at best every hour.",
  endpoints: "No batch is counted yet: sqlqueue usage count.",
};

export async function usage(page, conn) {
  page.place("Usage", [conn, to.queues(conn)]);
  const state = { source: "queues", days: "30" };
  const place = h("div", {}, note("Reading the usage…"));
  let found = null;
  const show = () => place.replaceChildren(...view(conn, found, state.source));
  const look = async () => {
    const where = `${path("connections", conn, "usage")}?days=${state.days}`;
    const answer = await page.ask(get(where, page.signal), place);
    if (!answer) return;
    found = answer;
    show();
    say(`${plural(found.days.length, "day")} shown`);
  };
  const source = choice("Count", SOURCES, state.source, (value) => {
    state.source = value;
    if (found) show();
  });
  const time = choice("Time", TIMES, state.days, (value) => {
    state.days = value;
    look();
  });
  page.show(
    h("h1", {}, "Usage"),
    tabs(conn, "Usage"),
    h("div", { class: "tools" }, source, time, reportForm(page, conn, state)),
    place,
  );
  await look();
}

function view(conn, found, source) {
  const rows = found[source].map((row) => ({ ...row, ...figures(row.counts) }));
  if (!rows.length) return [note(SAY[source])];
  const total = found.days.map((day, index) => [
    day,
    rows.reduce((sum, { counts }) => sum + (counts[index] ?? 0), 0),
  ]);
  const table = new Table({
    caption: source === "queues" ? "Growth of queues by day" : "Messages of endpoints by day",
    columns: [...names(conn, source), ...columns(found.days, source)],
    key: (row) => row.queue ?? `${row.endpoint} ${row.message_type}`,
    sort: { id: "total", down: true },
  });
  table.update(rows);
  return [
    h("div", { class: "wide-chart" }, dailyChart(total)),
    table.element,
    found.left_out ? note(`${plural(found.left_out, "row")} with fewer messages are left out.`) : null,
    source === "queues"
      ? note("Growth is an estimate: retries, returns and gaps of the identity count too.")
      : note("Counted from batches, as of an audit queue; the day is that of the end of the handling, in UTC."),
  ].filter(Boolean);
}

function figures(counts) {
  const known = counts.filter((value) => value !== null);
  return {
    total: known.reduce((sum, value) => sum + value, 0),
    most: known.length ? Math.max(...known) : null,
  };
}

function names(conn, source) {
  if (source === "queues") {
    const link = (row) => h("a", { href: to.queue(conn, row.queue) }, foreign(row.queue, { class: "address" }));
    return [{ id: "queue", label: "Queue", value: (row) => row.queue.toLowerCase(), cell: link }];
  }
  return [
    { id: "endpoint", label: "Endpoint", value: (row) => row.endpoint.toLowerCase(), cell: (row) => foreign(row.endpoint) },
    {
      id: "type",
      label: "Type",
      value: (row) => (row.message_type ?? "").toLowerCase(),
      cell: (row) =>
        row.message_type ? h("span", { title: row.message_type }, foreign(shortType(row.message_type))) : "–",
    },
  ];
}

function columns(days, source) {
  const figure = (id, label) => ({
    id,
    label,
    number: true,
    value: (row) => row[id],
    cell: (row) => h("span", { class: row[id] ? null : "nothing" }, number(row[id])),
  });
  return [
    figure("total", "Messages"),
    figure("most", "Most a day"),
    ...(source === "endpoints" ? [figure("failed", "Failed")] : []),
    {
      id: "days",
      label: "By day",
      cell: (row) => histogram(days.map((day, index) => [`${day}T00:00:00Z`, row.counts[index] ?? 0])),
    },
  ];
}

/** A form that makes the report, and gives it to the browser as a file. */
function reportForm(page, conn, state) {
  const customer = h("input", { type: "text", required: true, maxlength: 200, autocomplete: "organization" });
  const answer = h("span", { role: "status" });
  const form = h(
    "form",
    { class: "tools search" },
    h("label", {}, "Customer ", customer),
    h("button", { type: "submit" }, "Report for Particular"),
    answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.replaceChildren();
    const body = { customer: customer.value, days: Number(state.days) };
    const made = await page.ask(post(path("connections", conn, "usage", "report"), body, page.signal), answer);
    if (!made) return;
    const url = URL.createObjectURL(new Blob([JSON.stringify(made, null, 2)], { type: "application/json" }));
    h("a", { href: url, download: `usage-${made.ReportData.EndTime.slice(0, 10)}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    answer.replaceChildren(plural(made.ReportData.TotalQueues, "queue"), " reported");
  });
  return form;
}
