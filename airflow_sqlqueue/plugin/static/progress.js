// Progress of an action. The address names its run, so the user can leave and come back.

import { get, path } from "./api.js";
import { h, foreign, say } from "./dom.js";
import { number } from "./format.js";
import { badge, note, runLink, tabs } from "./parts.js";
import { to } from "./routes.js";

const OFTEN = 1500;
const PATIENCE = 20;
const STATES = {
  queued: ["waiting for Airflow", "plain"],
  running: ["running", "info"],
  success: ["done", "good"],
  failed: ["failed", "error"],
};
const ENDED = new Set(["success", "failed"]);

export async function progress(page, conn, run) {
  page.place("Action", [conn, to.queues(conn)]);
  const { dag_id: dag } = page.session.actions;
  const state = h("div", {}, note("Looking for the run…"));
  page.show(h("h1", {}, "Action"), tabs(conn, null), h("p", {}, "DAG run ", runLink(dag, run)), state);
  const bar = h("progress", { "aria-label": "Progress" });
  let [last, misses] = [null, 0];

  const look = async () => {
    const answer = await page.ask(get(path("connections", conn, "actions", run), page.signal), state);
    // Ask a busy server again; stop after some tries for a run that does not exist.
    if (!answer) return (misses += 1) < PATIENCE;
    misses = 0;
    const { state: name, done, of, sentence } = answer;
    if (of) {
      bar.max = of;
      bar.value = done ?? 0;
    } else {
      bar.removeAttribute("value");
    }
    const ended = ENDED.has(name);
    state.replaceChildren(
      ...[
        h("p", {}, badge(...(STATES[name] ?? [name, "plain"])), of ? ` ${number(done)} of ${number(of)}` : null),
        ended && !of ? null : bar,
        sentence ? h("p", { class: name === "failed" ? "problem" : "preview" }, foreign(sentence)) : null,
        ended ? null : note("The run continues in Airflow when you leave this page; this address stays valid."),
      ].filter(Boolean),
    );
    if (name !== last || ended) say(`${STATES[name]?.[0] ?? name}${of ? `, ${number(done)} of ${number(of)}` : ""}`);
    last = name;
    return !ended;
  };
  if (await look()) await page.every(OFTEN, look);
}
