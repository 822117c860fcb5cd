// The shell: it chooses the view by the address, and has the parts that all views share.

import { get, Problem } from "./api.js";
import { h, foreign, say } from "./dom.js";
import { airflow, parts, tellAddressBar, to, viewAt } from "./routes.js";

const ROOT = "SQL queues";
const REFRESH = 10_000;
const main = document.getElementById("main");
let current = null;
let signedOut = false;

/** Interface of the shell for a view; it ends when the user leaves the view. */
class Page {
  #control = new AbortController();

  constructor(session, isFirst = false) {
    this.session = session;
    this.isFirst = isFirst;
    this.signal = this.#control.signal;
  }

  end() {
    this.#control.abort();
  }

  get ended() {
    return this.signal.aborted;
  }

  /** Set the title, and the breadcrumbs between the root and this view as `[text, address]`. */
  place(title, ...between) {
    const atRoot = title === ROOT;
    document.title = atRoot ? ROOT : `${title} – ${ROOT}`;
    const way = atRoot ? [] : [[ROOT, to.connections()], ...between];
    const links = way.map(([text, address]) => h("li", {}, h("a", { href: address }, foreign(text))));
    const here = h("li", { "aria-current": "page" }, foreign(title));
    document.getElementById("crumbs").replaceChildren(...(atRoot ? [] : [h("ol", {}, links, here)]));
  }

  /** Replace the content. If the old content had the focus, the title gets it. */
  show(...children) {
    if (this.ended) return;
    main.replaceChildren(...children.flat(Infinity).filter(Boolean));
    if (!this.session || this.isFirst || document.activeElement !== document.body) return;
    const title = main.querySelector("h1");
    title?.setAttribute("tabindex", "-1");
    title?.focus({ preventScroll: true });
  }

  /** Return the answer; show an error at its place and return undefined. */
  async ask(look, where = null) {
    try {
      const answer = await look;
      return this.ended ? undefined : answer;
    } catch (error) {
      if (this.ended || error.name === "AbortError") return undefined;
      if (!(error instanceof Problem)) throw error;
      const sentence = h("p", { class: "problem", role: "alert" }, foreign(error.message));
      if (where) where.replaceChildren(sentence);
      else this.show(h("h1", {}, document.title), sentence);
      return undefined;
    }
  }

  /** Repeat a function while the page is visible and the user is signed in. */
  async every(milliseconds, look) {
    while (!this.ended && !signedOut) {
      await new Promise((resolve) => setTimeout(resolve, milliseconds ?? REFRESH));
      if (document.hidden)
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      if (this.ended || signedOut) return;
      if ((await look()) === false) return;
    }
  }
}

async function navigate(session) {
  const page = new Page(session, current === null);
  current?.end();
  current = page;
  const found = viewAt(parts(location.hash || "#/") ?? [""]);
  tellAddressBar();
  // The last announcement belongs to the view before.
  say("");
  if (!found) {
    page.place("Nothing here");
    const back = h("a", { href: to.connections() }, "See the connections");
    page.show(h("h1", {}, "Nothing here"), h("p", {}, "This address has no page. ", back));
    return;
  }
  const views = await import(`./${found.file}`);
  if (page.ended) return;
  scrollTo(0, 0);
  await views[found.name](page, ...found.which);
}

function signInAgain() {
  if (signedOut) return;
  signedOut = true;
  const link = h("a", { href: airflow(""), onclick: leaveByReload }, "Sign in again");
  document
    .getElementById("alerts")
    .replaceChildren(h("p", { class: "problem" }, "You are not signed in any more. ", link));
  say("You are not signed in any more.");
}

/** Show an unexpected error instead of a note that stays for ever. */
function fail() {
  const sentence = "This page failed: reload it, and please report what you did.";
  document.getElementById("alerts").replaceChildren(h("p", { class: "problem" }, sentence));
}

// A reload lets Airflow notice and ask for the password.
function leaveByReload(event) {
  event.preventDefault();
  (parent === window ? window : parent).location.reload();
}

/** Airflow sometimes drops the part after `#`, so an address may come as `?view=` too. */
function takeView() {
  const view = new URLSearchParams(location.search).get("view");
  if (view === null) return;
  const address = view.startsWith("#") ? view : `#${view}`;
  history.replaceState(null, "", `${location.pathname}${parts(address) ? address : ""}`);
}

async function start() {
  window.addEventListener("signed-out", signInAgain);
  window.addEventListener("unhandledrejection", fail);
  takeView();
  const shell = new Page(null);
  const session = await shell.ask(get("session", shell.signal));
  if (!session) return;
  document.getElementById("who").replaceChildren("Signed in as ", foreign(session.user));
  window.addEventListener("hashchange", () => navigate(session));
  await navigate(session);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
start();
