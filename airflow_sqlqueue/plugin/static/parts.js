// Parts that several views share.

import { h, foreign } from "./dom.js";
import { VIEWS, airflow, leave, runPath, to } from "./routes.js";

/** Tabs of a connection. */
export function tabs(conn, active) {
  const views = Object.entries(VIEWS).filter(([, { tab }]) => tab);
  const links = views.map(([name, { tab }]) =>
    h("a", { href: to[name](conn), "aria-current": tab === active ? "page" : null }, tab),
  );
  return h("nav", { class: "tabs", "aria-label": "Views of this connection" }, links);
}

export const badge = (text, kind = "plain") => h("span", { class: `badge ${kind}` }, text);

export const note = (...children) => h("p", { class: "note" }, children);

export const problem = (sentence) => h("p", { class: "problem", role: "alert" }, foreign(sentence));

/** A DAG run or a task of it, in Airflow's own pages. */
export function runLink(dag, run, task = null) {
  const address = airflow(runPath(dag, run, task));
  const text = task ? `${dag} / ${run} / ${task}` : `${dag} / ${run}`;
  return h("a", { href: address, onclick: leave, onauxclick: leave }, foreign(text));
}

export const address = (text) => foreign(text, { class: "address" });

/** Radio buttons that look like one bar. */
export function choice(legend, options, chosen, onchange) {
  const name = `choice${(choices += 1)}`;
  const buttons = options.map(([value, text]) => {
    const radio = h("input", { type: "radio", name, value, onchange: () => onchange(value) });
    radio.checked = value === chosen;
    return h("label", {}, radio, h("span", {}, text));
  });
  return h("fieldset", { class: "choice" }, h("legend", {}, legend), h("div", {}, buttons));
}
let choices = 0;

/** List of facts, without unknown ones. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false);
  return h(
    "dl",
    { class: "facts" },
    known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** Rights of the user on a connection, from the list of connections; none for a connection outside the list. */
export async function rightsOf(page, get, conn) {
  const answer = await get("connections", page.signal);
  const mine = answer.connections.find(({ id }) => id === conn);
  const { available, reason } = page.session.actions;
  return {
    mayAct: Boolean(mine?.may_act) && available,
    mayEdit: Boolean(mine?.may_act),
    maySeeBodies: mine?.bodies_refused === null,
    bodiesRefused: mine?.bodies_refused ?? "You may not see the bodies of this connection’s messages.",
    reason: mine?.may_act && !available ? reason : null,
  };
}
