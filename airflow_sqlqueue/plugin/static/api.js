// Requests to the page's API, by relative URLs, so that they work below any path.

const BASE = new URL("api/", document.baseURI);

/** An error with one sentence for the user. */
export class Problem extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** `path("connections", id, "queues")`: every part is escaped and becomes one segment. */
// No route takes a line feed or a slash within a part: a queue's name has them encoded twice, and percent signs too.
const encoded = (part) => encodeURIComponent(String(part).replace(/[%\n/]/g, encodeURIComponent));
export const path = (...parts) => parts.map(encoded).join("/");

export const get = (where, signal) => call(where, { signal });

/** A request with a body. A form of another site cannot send its header. */
export const post = (where, body, signal) =>
  call(where, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-SqlQueue": "1" },
    signal,
  });

async function call(where, options) {
  let response;
  try {
    response = await fetch(new URL(where, BASE), { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "Airflow's API server did not answer; is the network there?");
  }
  const isJson = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
  const answer = isJson ? await response.json() : null;
  if (response.ok && answer !== null) return answer;
  if (response.status === 401) window.dispatchEvent(new Event("signed-out"));
  throw new Problem(response.status, sentence(response.status, answer?.detail));
}

function sentence(status, detail) {
  if (typeof detail === "string" && detail) return detail;
  if (status === 401) return "You are not signed in any more: sign in again.";
  if (status === 403) return "You have no right to this.";
  return `Airflow's API server answered ${status} without a reason: see its log.`;
}
