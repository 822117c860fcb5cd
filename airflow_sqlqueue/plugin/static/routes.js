// Addresses of views, after `#`: ids and queue addresses, no content of messages.

const hash = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const to = {
  connections: () => "#/",
  queues: (conn) => hash("c", conn),
  queue: (conn, queue) => hash("c", conn, "q", queue),
  message: (conn, queue, row) => hash("c", conn, "q", queue, "m", row),
  conversation: (conn, queue, row) => hash("c", conn, "q", queue, "m", row, "conversation"),
  batches: (conn) => hash("c", conn, "batches"),
  batch: (conn, id) => hash("c", conn, "batches", id),
  failures: (conn, ...which) => hash("c", conn, "failures", ...which),
  archive: (conn, ...which) => hash("c", conn, "archive", ...which),
  action: (conn, run) => hash("c", conn, "actions", run),
};

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
