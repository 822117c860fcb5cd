// The conversation of a message, as a sequence of endpoints over time, from audit batches.

import { get, path, post } from "./api.js";
import { h, foreign, svg } from "./dom.js";
import { exact, plural, shortType, span } from "./format.js";
import { badge, note, tabs } from "./parts.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const ID = "NServiceBus.ConversationId";
const MOST_LANES = 12;
const LANE = 170;
const STEP = 44;
const TOP = 48;

export async function conversation(page, conn, queue, row) {
  page.place("Conversation", [conn, to.queues(conn)], [queue, to.messages(conn, queue)], [`Row ${row}`, to.message(conn, queue, row)]);
  const title = h("h1", {}, "Conversation");
  page.show(title, tabs(conn, "Queues"), note("Reading the message…"));
  const one = await page.ask(get(path("connections", conn, "queues", queue, "messages", row), page.signal));
  if (!one) return;
  const id = one.headers.find(([name]) => name === ID)?.[1];
  if (!id) return page.show(title, tabs(conn, "Queues"), note("This message belongs to no conversation."));
  page.show(title, tabs(conn, "Queues"), note("Searching the newest batches…"));
  const body = { conversation_id: id.slice(0, 500) };
  const found = await page.ask(post(path("connections", conn, "conversation"), body, page.signal));
  if (!found) return;
  const searched = [
    `Searched ${plural(found.batches, "batch", "batches")}`,
    found.unread ? `; ${found.unread} could not be read` : null,
    found.complete ? "." : "; a limit ended the search.",
  ];
  page.show(
    title,
    tabs(conn, "Queues"),
    h("p", {}, h("span", { class: "mono" }, foreign(id.slice(0, 120)))),
    note(searched.filter(Boolean).join("")),
    found.steps.length
      ? [sequence(found.steps), table(found.steps)]
      : note("No staged batch has a message of this conversation: drain the audit queue first."),
  );
}

const UNKNOWN = "(unknown)";
const type = (step) => shortType(step.message_type) ?? "(no type)";

/** Lanes of endpoints, and an arrow for each message from its sender to its receiver, the earliest at the top. */
function sequence(steps) {
  const all = [...new Set(steps.flatMap((step) => [step.sender ?? UNKNOWN, step.receiver ?? UNKNOWN]))];
  const lanes = all.slice(0, MOST_LANES);
  const shown = steps.filter((step) => [step.sender, step.receiver].every((name) => lanes.includes(name ?? UNKNOWN)));
  // The last lane needs room for the name of a message to itself.
  const width = (Math.max(2, lanes.length) + 1) * LANE;
  const height = TOP + (shown.length + 0.5) * STEP;
  const x = (name) => (lanes.indexOf(name ?? UNKNOWN) + 0.5) * LANE;
  const start = Math.min(...shown.map((step) => Date.parse(step.sent)).filter((time) => !Number.isNaN(time)));
  const label = `${plural(shown.length, "message")} between ${plural(lanes.length, "endpoint")}; the table below has the same.`;
  const drawing = svg(
    "svg",
    { class: "sequence", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    lanes.map((name) => lane(name, x(name), height)),
    shown.map((step, index) => arrow(step, TOP + (index + 0.7) * STEP, x, start)),
  );
  const left = steps.length - shown.length;
  return [
    h("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": "Sequence of messages" }, drawing),
    left ? note(`${plural(left, "message")} of further endpoints are not drawn.`) : null,
  ];
}

function lane(name, x, height) {
  return [
    svg("line", { class: "lane", x1: x, x2: x, y1: 28, y2: height }),
    svg("text", { class: "name", x, y: 18, "text-anchor": "middle" }, cut(name, 24), svg("title", {}, name)),
  ];
}

function arrow(step, y, x, start) {
  const [from, end] = [x(step.sender), x(step.receiver)];
  const kind = step.failed ? "failed" : "";
  const sent = Date.parse(step.sent);
  const took = (Date.parse(step.ended) - Date.parse(step.started)) / 1000;
  const after = Number.isNaN(sent) ? "" : `+${span((sent - start) / 1000)}`;
  const text = [type(step), after, step.failed ? "failed" : null].filter(Boolean).join("  ");
  const title = `${step.message_type ?? type(step)}${Number.isNaN(took) ? "" : `, handled in ${Math.round(took * 1000)} ms`}`;
  const itself = from === end;
  const tip = itself ? end + 2 : end - Math.sign(end - from) * 2;
  const back = itself ? 7 : -Math.sign(end - from) * 7;
  const line = itself
    ? svg("path", { d: `M ${from} ${y - 6} h 26 v 12 h -24`, fill: "none" })
    : svg("line", { x1: from, x2: tip, y1: y, y2: y });
  const level = itself ? y + 6 : y;
  return svg(
    "g",
    { class: `arrow ${kind}` },
    svg("title", {}, title),
    line,
    svg("polygon", { points: `${tip},${level} ${tip + back},${level - 4} ${tip + back},${level + 4}` }),
    svg(
      "text",
      { x: itself ? from + 32 : (from + end) / 2, y: itself ? y + 4 : y - 6, "text-anchor": itself ? "start" : "middle" },
      cut(text, 40),
    ),
  );
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function table(steps) {
  const rows = steps.map((step, index) => ({ ...step, index }));
  const time = (iso) => (iso ? exact(new Date(iso)) : "–");
  const list = new Table({
    caption: "Messages of the conversation",
    columns: [
      { id: "sent", label: "Sent", cell: (step) => time(step.sent) },
      {
        id: "type",
        label: "Type",
        cell: (step) => [
          h("span", { title: step.message_type }, foreign(type(step))),
          step.failed ? [" ", badge("failed", "error")] : null,
        ],
      },
      { id: "sender", label: "From", cell: (step) => foreign(step.sender ?? "–") },
      { id: "receiver", label: "To", cell: (step) => foreign(step.receiver ?? "–") },
      { id: "ended", label: "Handled", cell: (step) => time(step.ended) },
      { id: "id", label: "Message id", wide: true, cell: (step) => foreign(step.message_id ?? "–", { class: "mono" }) },
      { id: "cause", label: "Caused by", wide: true, cell: (step) => foreign(step.related_to ?? "–", { class: "mono" }) },
    ],
    key: ({ index }) => index,
  });
  list.update(rows);
  return list.element;
}
