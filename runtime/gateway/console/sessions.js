// The pages of sessions: the list, and what was said in one.

import { badge, empty, error_code, foreign, h, keep_focus, prose, put } from "./dom.js";
import { age, cost, count, tokens, tone, when } from "./format.js";
import { get, path, sender } from "./net.js";

// Sessions of a team that are shown.
const SHOWN_MAX = 200;

export function sessions() {
  const body = h("tbody", {});
  const table = h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Session", "Agent", "Last active", "Begun", "Entries"].map((name) => h("th", { scope: "col" }, name)))), body);
  const place = h("div", {});
  const note = h("p", { class: "muted" });
  const node = h("div", {}, h("h1", {}, "Sessions"), h("p", { class: "muted" }, "A session is one conversation with one agent. Those of agents that others call are among them."), place, note);

  function row(session) {
    const to = `#/sessions/${encodeURIComponent(session.team)}/${encodeURIComponent(session.session)}`;
    const cell = (label, ...content) => h("td", { data: { label } }, ...content);
    return h("tr", { data: { row: "" } },
      h("td", {}, h("a", { to, class: "id", data: { focus: `${session.team}/${session.session}` } }, foreign(session.session))),
      cell("Agent", h("span", { class: "muted" }, foreign(session.team), " / "), foreign(session.agent)),
      cell("Last active", h("time", { data: { since: String(session.at) }, title: when(session.at) }, age(session.at)), " ago"),
      cell("Begun", when(session.begun)), cell("Entries", count(session.slots)));
  }

  async function refresh(signal) {
    const { teams } = await get("/v1/teams", signal);
    const lists = await Promise.all(teams.map(async (team) => {
      const { sessions: found } = await get(`${path`/v1/teams/${team.name}/sessions`}?limit=${SHOWN_MAX}`, signal);
      return found.map((session) => ({ ...session, team: team.name }));
    }));
    const all = lists.flat().sort((one, other) => other.at - one.at);
    put(note, lists.some((list) => list.length === SHOWN_MAX) ? `Of each team the ${SHOWN_MAX} that were active last are shown.` : "");
    if (all.length === 0) {
      put(place, empty("No session yet", "A session begins with the first message to an agent. ", h("a", { to: "#/runs?new" }, "Start a run"), "."));
      return;
    }
    keep_focus(body, () => put(body, all.map(row)));
    if (place.firstChild !== table) put(place, table);
  }

  return { title: "Sessions", node, refresh, fault: (error) => put(place, empty("Sessions cannot be shown", foreign(error.text ?? error.message))) };
}

export function session(context) {
  const [team, id] = context.params;
  const facts = h("p", { class: "muted" });
  const said = h("ol", { class: "items talk" });
  const input = h("textarea", { id: "go-on", rows: "3", required: true, placeholder: "Say more in this session" });
  const fault = h("p", { class: "fault", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Send");
  const form = h("form", { class: "panel" }, h("label", { for: "go-on" }, "Go on"), input, fault, h("div", { class: "actions" }, button, h("span", { class: "muted" }, "or Ctrl Enter")));
  const node = h("div", {},
    h("p", { class: "crumbs" }, h("a", { to: "#/sessions" }, "Sessions"), " / ", foreign(team)),
    h("h1", { class: "id-title" }, "Session ", h("span", { class: "id" }, foreign(id))), facts, said, form);
  let agent;
  let shown = "";
  // Until the session is read it is not known whom to send to.
  form.hidden = true;

  const send_run = sender();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // Keys reach this also while a message is on its way.
    if (button.disabled) return;
    button.disabled = true;
    try {
      const accepted = await send_run(team, agent, { input: input.value, session: id });
      context.go(`#/runs/${encodeURIComponent(team)}/${encodeURIComponent(accepted.run)}`);
    } catch (error) {
      put(fault, foreign(error.text ?? error.message));
      button.disabled = false;
    }
  });

  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  function exchange(one) {
    const to = `#/runs/${encodeURIComponent(team)}/${encodeURIComponent(one.run)}`;
    return [
      h("li", { class: "item input", data: { row: "" } },
        h("div", { class: "item-head" }, h("span", { class: "who" }, "Asked"), h("a", { to }, "run"), h("span", { class: "muted" }, when(one.at))), prose(one.input)),
      h("li", { class: "item end" },
        h("div", { class: "item-head" }, h("span", { class: "who" }, foreign(agent)), badge(one.status ? tone(one.status) : "busy", one.status ?? "in work"),
          h("span", { class: "muted" }, one.usage ? `${tokens(one.usage)} tokens${one.usage.cost_nano_usd ? `, ${cost(one.usage)}` : ""}` : "")),
        one.error ? h("p", { class: "fault" }, foreign(one.error.message), " ", error_code(one.error)) : null, one.output ? prose(one.output) : null),
    ];
  }

  async function refresh(signal) {
    const found = await get(path`/v1/teams/${team}/sessions/${id}`, signal);
    agent = found.agent;
    // Those of called agents have ids of their calls, and take messages of their callers alone.
    form.hidden = found.exchanges.some((one) => one.parent);
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    put(facts, "with ", foreign(agent), ` since ${when(found.begun)}, last active ${when(found.at)}`);
    put(said, found.more ? h("li", { class: "muted" }, "What was said before is not shown; the list of runs has it.") : null, found.exchanges.map(exchange));
    if (!found.exchanges.length) put(said, empty("Nothing is left of what was said", "Its runs are older than what the team keeps."));
  }

  function fail(error) {
    shown = "";
    put(said, empty("This session cannot be shown", foreign(error.text ?? error.message)));
  }

  return { title: `Session ${id}`, node, refresh, fault: fail };
}
