// The first view: a card for each connection, also for those whose server does not answer.

import { get, path, Problem } from "./api.js";
import { h, foreign } from "./dom.js";
import { count, number, plural, span } from "./format.js";
import { badge, facts, note, problem } from "./parts.js";
import { to } from "./routes.js";

const AT_ONCE = 4;
const MANY = 8;

export async function connections(page) {
  page.place("SQL queues");
  page.show(h("h1", {}, "SQL queues"), note("Reading the connections…"));
  const answer = await page.ask(get("connections", page.signal));
  if (!answer) return;
  const all = answer.connections;
  if (!all.length) {
    page.show(
      h("h1", {}, "SQL queues"),
      note(
        "There is no connection that you may read: an administrator can name those of Airflow's database in " +
          "[sqlqueue] page_connections of Airflow's configuration, * for all.",
      ),
    );
    return;
  }
  const cards = all.map((connection) => card(connection));
  const grid = h(
    "ul",
    { class: "cards" },
    cards.map(({ element }) => element),
  );
  page.show(h("h1", {}, "SQL queues"), all.length > MANY ? filter(cards) : null, grid);
  const waiting = [...cards];
  const worker = async () => {
    for (let next = waiting.shift(); next && !page.ended; next = waiting.shift()) await next.look(page);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

function card(connection) {
  const title = h("h2", {}, h("a", { href: to.queues(connection.id) }, foreign(connection.id)));
  const body = h("div", { class: "body", "aria-busy": "true" }, note("Looking…"));
  const host = connection.host ? h("p", { class: "host" }, foreign(connection.host)) : null;
  const element = h("li", { class: "card" }, title, host, body);
  const look = async (page) => {
    let content;
    try {
      content = summary(connection.id, await get(path("connections", connection.id, "queues"), page.signal));
    } catch (error) {
      if (!(error instanceof Problem)) return;
      content = [problem(error.message)];
    }
    body.replaceChildren(...content.filter(Boolean));
    body.removeAttribute("aria-busy");
  };
  return { element, look, text: `${connection.id} ${connection.host ?? ""}`.toLowerCase() };
}

function summary(conn, answer) {
  if (answer.problem && !answer.queues.length) return [problem(answer.problem)];
  const { queues } = answer;
  if (!queues.length) return [note("No queue tables in its database.")];
  const isEstimate = queues.some(({ is_estimate: estimate }) => estimate);
  const total = queues.reduce((sum, { messages }) => sum + (messages ?? 0), 0);
  const failed = queues.filter(({ kind }) => kind === "error");
  const failures = failed.reduce((sum, { messages }) => sum + (messages ?? 0), 0);
  const ages = queues
    .filter(({ kind }) => kind === "queue")
    .map(({ oldest_seconds: age }) => age)
    .filter((age) => age !== null);
  const findings = queues.flatMap(({ findings: some }) => some);
  const severe = findings.filter(({ severity }) => severity !== "info");
  return [
    answer.problem ? problem(answer.problem) : null,
    facts([
      ["Messages", count(total, isEstimate)],
      ["Queues", number(queues.length)],
      [
        "Failed",
        failed.length
          ? h(
              "a",
              { href: to.failures(conn) },
              count(
                failures,
                failed.some((q) => q.is_estimate),
              ),
            )
          : "–",
      ],
      ["Oldest, not failed", ages.length ? span(Math.max(...ages)) : "–"],
    ]),
    severe.length
      ? h(
          "p",
          {},
          badge(plural(severe.length, "finding"), severe.some((f) => f.severity === "error") ? "error" : "warning"),
        )
      : null,
  ];
}

function filter(cards) {
  const input = h("input", { type: "search", autocomplete: "off" });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const { element, text } of cards) element.hidden = !text.includes(wanted);
  });
  return h("p", { class: "tools" }, h("label", {}, "Filter ", input));
}
