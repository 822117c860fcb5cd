// Failures: groups with counts and times, one group with its messages, and the actions on them; the same of the archive.

import { get, path, post } from "./api.js";
import { h, clipped, foreign } from "./dom.js";
import { histogram } from "./charts.js";
import { failureActions } from "./failure_actions.js";
import { exact, number, plural, when } from "./format.js";
import { messagePager } from "./messages.js";
import { choice, facts, note, problem, rightsOf, tabs } from "./parts.js";
import { tellAddressBar, to } from "./routes.js";
import { Table } from "./table.js";

const LIMIT = 50;
const FIRST = "exception_type";

export const failures = (page, conn, queue = null, by = FIRST, id = null) => view(page, conn, queue, by, id, FAILED);
export const archive = (page, conn, queue, by, id = null) => view(page, conn, queue, by, id, ARCHIVED);

const view = (page, conn, queue, by, id, place) =>
  id === null ? groups(page, conn, queue, by, place) : oneGroup(page, conn, queue, by, id, place);

const FAILED = {
  archived: false,
  title: "Failures",
  to: to.failures,
  other: (conn, queue) => h("a", { href: to.archive(conn, queue, FIRST) }, "Archive of this queue"),
  none: "Nothing has failed: the error queue is empty.",
  gone: "No message of this group is in the error queue any more. ",
};
const ARCHIVED = {
  archived: true,
  title: "Archive",
  to: to.archive,
  other: (conn, queue) => h("a", { href: to.failures(conn, queue, FIRST) }, "Failures in this queue"),
  none: "No message of this queue is archived.",
  gone: "No message of this group is in the archive any more. ",
};

async function groups(page, conn, queue, by, place) {
  page.place(place.title, [conn, to.queues(conn)]);
  const state = h("div", {}, note("Looking for error queues…"));
  const tools = h("div", { class: "tools" });
  page.show(h("h1", {}, place.title), tabs(conn, "Failures"), tools, state);
  const found = await page.ask(get(path("connections", conn, "queues"), page.signal), state);
  if (!found) return;
  const errors = found.queues.filter(({ kind }) => kind === "error").map(({ address }) => address);
  if (queue !== null && !errors.includes(queue)) errors.push(queue);
  if (!errors.length) {
    state.replaceChildren(
      found.problem ? problem(found.problem) : note("There is no error queue in the database of this connection."),
    );
    return;
  }
  let [chosen, how, looks] = [queue ?? errors[0], by, 0];
  const other = h("span", {});
  const look = async () => {
    const mine = (looks += 1);
    // Replace the address instead of opening it, so that the keyboard focus stays on the choices.
    history.replaceState(null, "", place.to(conn, chosen, how));
    other.replaceChildren(place.other(conn, chosen));
    tellAddressBar();
    state.replaceChildren(note("Reading the headers of what failed…"));
    const answer = await page.ask(groupsOf(page, conn, chosen, how, place), state);
    if (answer && mine === looks) state.replaceChildren(...groupList(page, conn, chosen, how, answer, place));
  };
  const select = h(
    "select",
    {},
    errors.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
  select.addEventListener("change", () => {
    chosen = select.value;
    look();
  });
  const keys = page.session.groupings.filter(({ archived }) => place.archived || !archived);
  const grouping = choice("Group by", keys.map(({ key, label }) => [key, label]), by, (value) => {
    how = value;
    look();
  });
  tools.replaceChildren(h("label", {}, "Error queue ", select), grouping, other);
  await look();
}

const groupsOf = (page, conn, queue, by, { archived }, group = null) =>
  post(path("connections", conn, "failures"), { queue, archived, group_by: by, group, limit: LIMIT }, page.signal);

// Messages without this header, or with an unreadable one, are a group too.
const labelOf = (group) => group.label ?? "(none named)";
const moment = (iso) => (iso ? Date.parse(iso) : null);

function groupList(page, conn, queue, by, answer, place) {
  if (answer.problem && !answer.groups.length) return [problem(answer.problem)];
  if (!answer.groups.length) return [note(place.none)];
  const name = page.session.groupings.find(({ key }) => key === by)?.label ?? "Group";
  const table = new Table({
    caption: `${place.title} by ${name.toLowerCase()}`,
    columns: [
      {
        id: "label",
        label: name,
        wide: true,
        value: labelOf,
        cell: (g) => h("a", { href: place.to(conn, queue, by, g.group) }, clippedLabel(labelOf(g))),
      },
      { id: "messages", label: "Messages", number: true, value: (g) => g.messages, cell: (g) => number(g.messages) },
      { id: "histogram", label: "When", cell: (g) => histogram(g.histogram) ?? "–" },
      { id: "first", label: "First", number: true, value: (g) => moment(g.first), cell: (g) => when(g.first) },
      { id: "last", label: "Last", number: true, value: (g) => moment(g.last), cell: (g) => when(g.last) },
      place.archived && {
        id: "archived",
        label: "Archived",
        number: true,
        value: (g) => moment(g.archived?.at),
        cell: (g) => when(g.archived?.at),
      },
    ].filter(Boolean),
    key: (group) => group.group,
    sort: { id: "messages", down: true },
  });
  table.update(answer.groups);
  const seen = `${plural(answer.messages, "message")} in ${plural(answer.all_groups, "group")}`;
  const read = answer.is_complete ? `${seen}.` : `${seen}: the queue has more, which were not read.`;
  const left = answer.all_groups > answer.groups.length ? ` These are the ${answer.groups.length} largest.` : "";
  const sentence = `${read}${left}`;
  return [answer.problem && problem(answer.problem), note(sentence), table.element].filter(Boolean);
}

function chart(bins) {
  if (bins.length < 2) return null;
  const most = Math.max(...bins.map(([, messages]) => messages));
  const ends = [bins[0], bins.at(-1)].map(([time]) => h("span", {}, exact(new Date(time)).slice(0, 16)));
  const caption = h("figcaption", {}, ends[0], h("span", {}, `at most ${number(most)} at a time`), ends[1]);
  return h("figure", { class: "wide-chart" }, histogram(bins, { width: 720, height: 64 }), caption);
}

// The label is a link and cannot hold a button for all of it; the group's page shows all.
const clippedLabel = (label) => foreign(label.length > 160 ? `${label.slice(0, 160)}…` : label);

async function oneGroup(page, conn, queue, by, id, place) {
  const crumbs = [
    [conn, to.queues(conn)],
    [place.title, place.to(conn, queue, by)],
  ];
  page.place("Group", ...crumbs);
  page.show(h("h1", {}, "Group"), tabs(conn, "Failures"), note("Reading the headers of what failed…"));
  const found = await page.ask(Promise.all([groupsOf(page, conn, queue, by, place, id), rightsOf(page, get, conn)]));
  if (!found) return;
  const [answer, rights] = found;
  const [group] = answer.groups;
  if (!group) {
    const back = h("a", { href: place.to(conn, queue, by) }, "See the groups");
    const gone = answer.is_complete ? place.gone : "No message of this group was read: there are too many others. ";
    const sentence = answer.problem ? problem(answer.problem) : note(gone, back);
    page.show(h("h1", {}, "Group"), tabs(conn, "Failures"), sentence);
    return;
  }
  const label = labelOf(group);
  const title = label.length > 80 ? `${label.slice(0, 80)}…` : label;
  page.place(title, ...crumbs);
  const chosen = new Set();
  const buttons = h("div", {});
  const whole = { queue, group_by: by, group: id };
  const offer = () => {
    if (!rights.mayAct) return buttons.replaceChildren(...(rights.reason ? [note(foreign(rights.reason))] : []));
    const rows = [...chosen].sort((a, b) => a - b);
    const what = rows.length ? { queue, row_versions: rows } : whole;
    const which = rows.length ? plural(rows.length, "chosen message") : "the whole group";
    const on = place.archived ? "archived" : "failed";
    const offered = failureActions(page, conn, what, { on, which, withOldest: !rows.length });
    buttons.replaceChildren(h("p", { class: "buttons sticky" }, offered));
  };
  offer();
  const options = rights.mayAct ? { chosen, onselect: offer } : {};
  const pager = place.archived ? null : messagePager(page, conn, queue, () => ({ group_by: by, group: id }), options);
  page.show(
    h("h1", { class: "long" }, clipped(label, 300)),
    tabs(conn, "Failures"),
    facts([
      ["Messages", number(group.messages)],
      ["First", when(group.first)],
      ["Last", when(group.last)],
      [
        "An example",
        group.example === null || place.archived
          ? null
          : h("a", { href: to.message(conn, queue, group.example) }, `row ${group.example}`),
      ],
      ["Last archived", group.archived && when(group.archived.at)],
      ["By", group.archived && foreign(group.archived.by)],
      ["Reason", group.archived?.reason ? clipped(group.archived.reason) : null],
    ]),
    chart(group.histogram),
    buttons,
    pager && [h("h2", {}, "Messages"), pager.element],
  );
  await pager?.first();
}
