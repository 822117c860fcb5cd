// Actions: a dry run first, then a confirmation with the count, then a DAG run that acts.

import { path, post, Problem } from "./api.js";
import { h, foreign, say } from "./dom.js";
import { number, when } from "./format.js";
import { note, problem } from "./parts.js";
import { to } from "./routes.js";

/**
 * A button for an action.
 *
 * @param action `{ label, request, form, danger }`: the label of the button, the body of the dry run, and, for an action
 *   with a form, a function that makes `{ nodes, read() }`, whose result joins the request. With `{ at, then }` the
 *   request at that path acts by itself, without a DAG run, and then `then` is called.
 */
export function actionButton(page, conn, action) {
  const open = () => offer(page, conn, action);
  return h("button", { type: "button", class: action.danger ? "danger" : null, onclick: open }, action.label);
}

/** A button for an action that the API offers, with a form if it has fields. */
export function offeredButton(page, conn, { name, label, danger, fields }, request, text = label) {
  return actionButton(page, conn, {
    label: fields.length ? `${text}…` : text,
    request: { action: name, ...request },
    danger,
    form: fields.length ? () => formOf(fields) : null,
  });
}

function formOf(fields) {
  const inputs = fields.map(({ name, label, help, ...attributes }) => {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
    return { name, input, nodes: [h("label", { class: "field" }, label, input), help ? note(help) : null] };
  });
  const value = (input) => (input.type === "number" ? input.valueAsNumber : input.value.trim());
  return {
    nodes: inputs.flatMap(({ nodes }) => nodes).filter(Boolean),
    read: () => Object.fromEntries(inputs.map(({ name, input }) => [name, value(input) || null])),
  };
}

function offer(page, conn, action) {
  const title = h("h2", { id: "action-title" }, action.label.replace("…", ""));
  const content = h("div", { "aria-live": "polite" });
  const cancel = h("button", { type: "button" }, "Cancel");
  const buttons = h("p", { class: "buttons" }, cancel);
  const form = h("form", { method: "dialog" }, title, content, buttons);
  const dialog = h("dialog", { "aria-labelledby": "action-title" }, form);
  const filled = action.form?.();

  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  page.signal.addEventListener("abort", () => dialog.close());

  const ask = (label, step, kind = "primary") => {
    const button = h("button", { type: "submit", class: kind }, label);
    buttons.replaceChildren(cancel, button);
    form.onsubmit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      button.setAttribute("aria-busy", "true");
      try {
        await step();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        button.disabled = false;
        button.removeAttribute("aria-busy");
        content.querySelector(".problem")?.remove();
        content.append(problem(error.message));
        if (error.status === 409 || !filled) ask("Look again", dryRun);
      }
    };
    return button;
  };

  const dryRun = async () => {
    const request = { ...action.request, ...filled?.read() };
    if (!filled) content.replaceChildren(note("Counting what this would do…"));
    const asked = action.at
      ? post(action.at, { ...request, dry_run: true }, page.signal)
      : post(path("connections", conn, "actions", "preview"), request, page.signal);
    const answer = await asked;
    const possible = answer.messages > 0 || answer.possible;
    content.replaceChildren(
      h("p", { class: "preview" }, foreign(answer.sentence)),
      note(possible ? "Nothing has been done yet." : "There is nothing to do."),
    );
    if (possible) {
      const step = action.at ? () => doNow(request) : () => confirm(answer);
      ask(answer.label, step, action.danger ? "danger" : "primary");
    } else {
      cancel.textContent = "Close";
      buttons.replaceChildren(cancel);
    }
    cancel.focus();
  };

  const doNow = async (request) => {
    const answer = await post(action.at, { ...request, dry_run: false }, page.signal);
    content.replaceChildren(h("p", { class: "preview" }, foreign(answer.sentence)));
    cancel.textContent = "Close";
    buttons.replaceChildren(cancel);
    cancel.focus();
    dialog.addEventListener("close", action.then);
  };

  const confirm = async ({ token, messages: count, sentence }) => {
    const answer = await post(path("connections", conn, "actions"), { token, count }, page.signal);
    remember(page.session.user, { conn, run: answer.run_id, what: action.label, count, at: new Date().toISOString() });
    say(sentence);
    dialog.close();
    location.hash = to.progress(conn, answer.run_id);
  };

  document.body.append(dialog);
  const first = ask("Dry run", dryRun);
  if (filled) content.append(...filled.nodes);
  dialog.showModal();
  if (!filled) first.click();
}

// Airflow's menu leads to the first view of this page, not to a run, so the browser stores the runs started here.
const KEPT = 10;
const storeKey = (user) => `sqlqueue.actions.${user}`;

function remembered(user) {
  try {
    const kept = JSON.parse(localStorage.getItem(storeKey(user)) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

function remember(user, action) {
  try {
    localStorage.setItem(storeKey(user), JSON.stringify([action, ...remembered(user)].slice(0, KEPT)));
  } catch {
    // Without storage the run is only missing in the list.
  }
}

/** Recent actions of this user on this connection, as links to their progress. */
export function recentActions(page, conn) {
  const mine = remembered(page.session.user)
    .filter((action) => action.conn === conn)
    .slice(0, 3);
  if (!mine.length) return null;
  const items = mine.map(({ run, what, count, at }) =>
    h("li", {}, h("a", { href: to.progress(conn, run) }, `${what}, ${number(count)}`), " ", when(at)),
  );
  return h(
    "section",
    { class: "recent", "aria-label": "What you have started" },
    h("ul", {}, h("li", {}, "You started"), items),
  );
}
