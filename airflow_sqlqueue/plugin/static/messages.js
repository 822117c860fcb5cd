// The messages of a queue from its head, and a search in them. The view removes and locks nothing.

import { path, post } from "./api.js";
import { h, clipped, foreign, say } from "./dom.js";
import { bytes, shortType, when } from "./format.js";
import { address, badge, note, tabs } from "./parts.js";
import { to } from "./routes.js";
import { Table } from "./table.js";

const LIMIT = 50;
const NOTHING = { id: null, message_type: null, header: null };

export async function messages(page, conn, queue) {
  page.place(queue, [conn, to.queues(conn)]);
  let search = { ...NOTHING };
  const pager = messagePager(page, conn, queue, () => search);
  const form = searchForm((wanted) => {
    search = wanted;
    return pager.first();
  });
  page.show(h("h1", {}, address(queue)), tabs(conn, "Queues"), form, pager.element);
  await pager.first();
}

/**
 * Pages of messages of a queue.
 *
 * @param wanted conditions of the search, as in the body of the request.
 * @param chosen a Set of row versions, where people choose messages.
 */
export function messagePager(page, conn, queue, wanted, { chosen = null, onselect = () => {} } = {}) {
  const table = new Table({
    caption: `Messages of ${queue}, from its head`,
    columns: columns(conn, queue),
    key: (message) => message.row_version,
    label: (message) => `the message in row ${message.row_version}`,
    selected: chosen,
    onselect,
  });
  const state = h("div", {});
  const further = h("button", { type: "button" }, "Further");
  const back = h("button", { type: "button" }, "Back to the head");
  const buttons = h("p", { class: "buttons" }, back, further);
  table.element.hidden = buttons.hidden = true;
  let [next, turns] = [null, 0];

  const turn = async (after) => {
    const mine = (turns += 1);
    state.replaceChildren(note("Looking…"));
    const question = { after, limit: LIMIT, ...wanted() };
    const answer = await page.ask(
      post(path("connections", conn, "queues", queue, "messages"), question, page.signal),
      state,
    );
    if (!answer || mine !== turns) return;
    next = answer.next;
    table.update(answer.messages);
    table.element.hidden = !answer.messages.length;
    back.disabled = after === null;
    further.disabled = answer.ended || next === null;
    buttons.hidden = back.disabled && further.disabled;
    const sentence = told(answer, after, wanted());
    state.replaceChildren(...(sentence ? [note(sentence)] : []));
    say(sentence ?? `${answer.messages.length} messages shown`);
  };
  further.addEventListener("click", () => turn(next));
  back.addEventListener("click", () => turn(null));
  return {
    element: h("section", { "aria-label": "Messages" }, state, table.element, buttons),
    first: () => turn(null),
  };
}

function told(answer, after, wanted) {
  const isSearch = Object.values(wanted).some((value) => value !== null);
  const found = answer.messages.length;
  if (!answer.ended && isSearch && found < LIMIT && answer.searched_to !== null) {
    return `Searched as far as row ${answer.searched_to}; “Further” goes on from there.`;
  }
  if (found) return null;
  if (after !== null) return "No more messages.";
  return isSearch ? "No message matches." : "No messages here.";
}

function columns(conn, queue) {
  return [
    {
      id: "type",
      label: "Message",
      wide: true,
      cell: (m) => [
        h("a", { href: to.message(conn, queue, m.row_version), title: m.message_type }, typeName(m)),
        m.expired ? [" ", badge("expired", "warning")] : null,
        m.is_readable ? null : [" ", badge("unreadable headers", "error")],
      ],
    },
    {
      id: "message_id",
      label: "Message id",
      wide: true,
      cell: (m) => h("span", { class: "mono" }, clipped(m.message_id ?? m.id, 80)),
    },
    { id: "sent", label: "Sent", number: true, cell: (m) => when(m.time_sent) },
    { id: "expires", label: "Expires", number: true, cell: (m) => when(m.expires) },
    { id: "bytes", label: "Size", number: true, cell: (m) => bytes(m.bytes) },
    { id: "row", label: "Row", number: true, cell: (m) => h("span", { class: "mono" }, String(m.row_version)) },
  ];
}

const typeName = (message) => {
  const name = shortType(message.message_type) ?? "without a type";
  return foreign(name.length > 100 ? `${name.slice(0, 100)}…` : name);
};

function searchForm(search) {
  const field = (label, attributes = {}) => {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
    return [input, h("label", {}, label, " ", input)];
  };
  const [id, idField] = field("Message id");
  const [type, typeField] = field("Type");
  const [name, nameField] = field("Header");
  const [value, valueField] = field("with the value");
  const submit = h("button", { type: "submit" }, "Search");
  const clear = h("button", { type: "reset" }, "Clear");
  const form = h(
    "form",
    { class: "tools search", role: "search" },
    idField,
    typeField,
    nameField,
    valueField,
    h("span", { class: "buttons" }, submit, clear),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const header = name.value.trim() ? { name: name.value.trim(), value: value.value } : null;
    search({ id: id.value.trim() || null, message_type: type.value.trim() || null, header });
  });
  form.addEventListener("reset", () => search({ ...NOTHING }));
  return form;
}
