// Asks the daemon.

// What the daemon said instead of an answer.
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the daemon answers with status ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.retry_after_ms = error?.retry_after_ms;
  }

  get text() {
    return this.code ? `${this.message} (${this.code})` : this.message;
  }
}

const signed_out = [];

// Calls a listener when the daemon no longer knows us.
export function on_signed_out(listener) {
  signed_out.push(listener);
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "The daemon cannot be reached. Is callboard serve running?" });
  }
  const text = await answer.text();
  if (answer.ok) return text;
  let error;
  try {
    ({ error } = JSON.parse(text));
  } catch {
    error = undefined;
  }
  if (answer.status === 401 && path !== "/v1/sign-in") signed_out.forEach((listener) => listener());
  throw new Refused(answer.status, error);
}

// Puts names into a path.
export function path(strings, ...names) {
  return strings.reduce((whole, part, at) => whole + part + (at < names.length ? encodeURIComponent(names[at]) : ""), "");
}

// Reads something as it is written.
export function get_text(where, signal) {
  return ask(where, { signal });
}

export async function get(where, signal) {
  return JSON.parse(await ask(where, { signal }));
}

// Posts a value, or a text that is JSON already.
export async function post(where, body = {}) {
  const headers = { "content-type": "application/json" };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return JSON.parse(await ask(where, { method: "POST", headers, body: text }));
}

// Returns what sends messages to agents. A message keeps the id of its run until it is taken, so that
// one that is sent again after a lost answer begins no second run.
export function sender() {
  let sent;
  let run;
  return async (team, agent, message) => {
    const text = JSON.stringify([team, agent, message]);
    if (text !== sent) run = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    sent = text;
    const accepted = await post(`${path`/v1/teams/${team}/agents/${agent}/runs`}?wait=false`, { ...message, run });
    sent = undefined;
    return accepted;
  };
}
