// Addresses of views, after `#`: ids and queue addresses, no content of messages.

/**
 * The views. Each is the function of that name in `file` (by default `<name>.js`), which gets the page and the parts at
 * the stars of an address. Views with a `tab` are tabs of a connection.
 */
export const VIEWS = {
  connections: { at: [""] },
  queues: { at: ["c/*"], tab: "Queues" },
  messages: { at: ["c/*/q/*"] },
  message: { at: ["c/*/q/*/m/*"] },
  conversation: { at: ["c/*/q/*/m/*/conversation"] },
  failures: { at: ["c/*/failures", "c/*/failures/*/*", "c/*/failures/*/*/*"], tab: "Failures" },
  archive: { at: ["c/*/archive/*/*", "c/*/archive/*/*/*"], file: "failures.js" },
  batches: { at: ["c/*/batches"], tab: "Batches" },
  batch: { at: ["c/*/batches/*"], file: "batches.js" },
  progress: { at: ["c/*/actions/*"] },
};

const stars = (pattern) => pattern.split("*").length - 1;

function hash(name, which) {
  const pattern = VIEWS[name].at.find((one) => stars(one) === which.length);
  const rest = [...which];
  return `#/${pattern.replaceAll("*", () => encodeURIComponent(rest.shift()))}`;
}

/** Addresses of views, by name: `to.message(conn, queue, row)`. */
export const to = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, (...which) => hash(name, which)]));

/** The view at the parts of an address: its name, its file and the parts at the stars; null for none. */
export function viewAt(address) {
  for (const [name, { at, file = `${name}.js` }] of Object.entries(VIEWS)) {
    for (const pattern of at) {
      const wanted = pattern.split("/").filter(Boolean);
      if (wanted.length === address.length && wanted.every((part, index) => part === "*" || part === address[index])) {
        return { name, file, which: address.filter((_, index) => wanted[index] === "*") };
      }
    }
  }
  return null;
}

/** The parts of `#/c/a/q/b%20c`, or null if they are no address of this page. */
export function parts(text) {
  if (!text.startsWith("#/")) return null;
  try {
    return text.slice(2).split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return null;
  }
}

/** URL of a page of Airflow, relative to this one. */
const AIRFLOW = new URL("../", document.baseURI);

export const runPath = (dag, run, task = null) =>
  `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}${task ? `/tasks/${encodeURIComponent(task)}` : ""}`;

export const airflow = (where) => new URL(where, AIRFLOW).href;

const frame = () => {
  try {
    return parent !== window && parent.document ? parent : null;
  } catch {
    return null;
  }
};

/** Leave for a page of Airflow. In Airflow's frame a plain link would load Airflow inside Airflow. */
export function leave(event) {
  const around = frame();
  if (!around) return;
  event.preventDefault();
  const address = event.currentTarget.href;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button === 1) {
    const link = around.document.createElement("a");
    Object.assign(link, { href: address, target: "_blank", rel: "noopener" });
    around.document.body.append(link);
    link.click();
    link.remove();
    return;
  }
  around.history.pushState(null, "", address);
  around.dispatchEvent(new around.PopStateEvent("popstate"));
}

/** Airflow's address bar follows a frame only at a load: report the view, so that a reload comes back to it. */
export function tellAddressBar() {
  const around = frame();
  const route = around?.location.pathname.match(/^(.*\/plugin\/[^/]+)/)?.[1];
  if (route) around.history.replaceState(around.history.state, "", `${route}${location.pathname}${location.hash}`);
}
