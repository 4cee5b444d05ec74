// The page of all runs, and the form that starts one.

import { open_calls } from "./calls.js";
import { badge, empty, foreign, h, keep_focus, line, put, toast } from "./dom.js";
import { age, cost, count, duration, tokens, tone, when } from "./format.js";
import { get, path, post, sender } from "./net.js";

// Rows that are fetched at first, and how many more each time.
const ROWS = 100;
// The longest list that the daemon gives.
const ROWS_MAX = 10_000;

const STATES = ["in work", "waiting", "completed", "partial", "failed", "refused", "cancelled", "budget", "deadline", "unknown"];

function choice(id, label, options, value, change) {
  const select = h("select", { id, data: { focus: id } }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  select.addEventListener("change", () => change(select.value));
  return h("div", { class: "field" }, h("label", { for: id }, label), select);
}

function start_form(context, teams, chosen) {
  const agents = teams.flatMap((team) => team.agents.map((agent) => ({
    key: `${team.name}/${agent.name}`, text: `${team.name} / ${agent.name}${agent.name === team.entry ? " (entry)" : ""}`, entry: agent.name === team.entry,
  })));
  const first = chosen ?? agents.find((agent) => agent.entry)?.key;
  const select = h("select", { id: "new-agent" }, agents.map((agent) => h("option", { value: agent.key, selected: agent.key === first }, agent.text)));
  const input = h("textarea", { id: "new-input", rows: "4", required: true, placeholder: "What is 25^0.24?", maxlength: "1000000" });
  const fault = h("p", { class: "fault", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Run");
  const close = h("button", { type: "button", class: "quiet" }, "Close");
  const form = h("form", { class: "panel new-run", "aria-label": "Start a run" },
    h("div", { class: "field" }, h("label", { for: "new-agent" }, "Agent"), select),
    h("div", { class: "field" }, h("label", { for: "new-input" }, "Message"), input),
    fault, h("div", { class: "actions" }, button, close, h("span", { class: "muted" }, "or Ctrl Enter")));
  const send_run = sender();
  const send = async () => {
    // Keys reach this also while a message is on its way.
    if (button.disabled || !form.reportValidity()) return;
    button.disabled = true;
    const [team, agent] = select.value.split("/");
    try {
      const accepted = await send_run(team, agent, { input: input.value });
      context.go(`#/runs/${encodeURIComponent(team)}/${encodeURIComponent(accepted.run)}`);
    } catch (error) {
      put(fault, foreign(error.text ?? error.message));
      button.disabled = false;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  close.addEventListener("click", () => context.set({ new: undefined }));
  return form;
}

// Says how a run stands, in a word for its badge.
function state_of(run, waiting) {
  if (run.status) return run.status;
  return waiting.has(run.run) ? "waiting" : "in work";
}

export function runs(context) {
  const filters = h("div", { class: "filters" });
  const form_place = h("div", {});
  const body = h("tbody", {});
  const table = h("table", { class: "list runs" }, h("thead", {}, h("tr", {},
    ["State", "Asked", "Agent", "Age", "Took", "Tokens", "Cost"].map((name) => h("th", { scope: "col" }, name)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))), body);
  const place = h("div", {});
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show more");
  const start = h("a", { class: "button primary", to: "#/runs?new" }, "Start a run");
  const node = h("div", {}, h("div", { class: "title-row" }, h("h1", {}, "Runs"), start), form_place, filters, place, more);
  let limit = ROWS;
  let all = [];
  let teams = [];
  let waiting = new Set();
  let filtered;

  more.addEventListener("click", () => {
    limit = Math.min(limit * 4, ROWS_MAX);
    context.look();
  });

  async function refresh(signal) {
    const { teams: found_teams } = await get("/v1/teams", signal);
    const found_waiting = new Set();
    const of_team = async (team) => {
      const [found, calls] = await Promise.all([
        get(`${path`/v1/teams/${team.name}/runs`}?limit=${limit}`, signal), open_calls(team.name, signal)]);
      calls.filter((call) => call.waits).forEach((call) => found_waiting.add(call.run));
      return found.runs.map((run) => ({ ...run, team: team.name }));
    };
    const lists = await Promise.all(found_teams.map(of_team));
    [teams, waiting] = [found_teams, found_waiting];
    more.hidden = !lists.some((list) => list.length >= limit) || limit >= ROWS_MAX;
    all = lists.flat().sort((one, other) => other.at - one.at);
    draw();
  }

  // Returns what the filters are drawn from.
  const filters_of = () => JSON.stringify([context.query, teams.map((each) => [each.name, each.agents.map((one) => one.name)])]);

  function draw_filters() {
    filtered = filters_of();
    const { team = "", agent = "", state = "", text = "" } = context.query;
    const names = [...new Set(teams.filter((each) => !team || each.name === team).flatMap((each) => each.agents.map((one) => one.name)))].sort();
    const search = h("input", { id: "filter-text", type: "search", value: text, placeholder: "words of the message or an id", data: { search: "", focus: "filter-text" } });
    search.addEventListener("input", () => {
      context.set({ text: search.value || undefined }, true);
      filtered = filters_of();
      draw_rows();
    });
    const inside = h("input", { id: "filter-inside", type: "checkbox", checked: context.query.inside !== undefined, data: { focus: "filter-inside" } });
    inside.addEventListener("change", () => context.set({ inside: inside.checked ? "" : undefined }));
    const any = (name) => ["", name];
    keep_focus(filters, () => put(filters,
      h("div", { class: "field grow" }, h("label", { for: "filter-text" }, "Filter"), search),
      teams.length > 1 ? choice("filter-team", "Team", [any("all"), ...teams.map((each) => [each.name, each.name])], team, (value) => context.set({ team: value || undefined })) : null,
      choice("filter-agent", "Agent", [any("all"), ...names.map((name) => [name, name])], agent, (value) => context.set({ agent: value || undefined })),
      choice("filter-state", "State", [any("all"), ...STATES.map((name) => [name, name])], state, (value) => context.set({ state: value || undefined })),
      h("div", { class: "field check" }, inside, h("label", { for: "filter-inside" }, "with called agents"))));
  }

  function draw() {
    const is_typing = document.activeElement?.id === "filter-text";
    // Drawn anew, a list that is open under the hand would close.
    if (!is_typing && filtered !== filters_of()) draw_filters();
    const is_new = context.query.new !== undefined;
    if (is_new && !form_place.firstChild && teams.length) {
      put(form_place, start_form(context, teams, context.query.agent_of));
      form_place.querySelector("textarea").focus();
    } else if (!is_new) put(form_place);
    start.hidden = is_new;
    draw_rows();
  }

  function draw_rows() {
    const { team, agent, state, text, inside } = context.query;
    const words = (text ?? "").toLowerCase();
    // While it waits for a call of an agent that waits for a person, it waits as well.
    const above = new Map(all.map((run) => [run.run, run.parent]));
    for (const run of [...waiting]) {
      for (let up = above.get(run); up; up = above.get(up)) waiting.add(up);
    }
    const shown = all.filter((run) => (!team || run.team === team) && (!agent || run.agent === agent) && (inside !== undefined || !run.parent)
      && (!state || state_of(run, waiting) === state)
      && (!words || run.input.toLowerCase().includes(words) || run.run.toLowerCase().includes(words)));
    if (shown.length === 0) {
      put(place, all.length === 0
        ? empty("No run yet", "Start one here, or on the command line with ", h("code", {}, `callboard ask ${teams[0]?.name ?? "TEAM"} "…"`), ".")
        : empty("No run fits the filter", more.hidden ? `There are ${count(all.length)} runs that do not. ` : `None of the newest ${count(all.length)} does, and there are more. `,
          h("a", { to: "#/runs" }, "Show all runs"), "."));
      return;
    }
    keep_focus(body, () => put(body, shown.slice(0, limit * 2).map(row)));
    if (place.firstChild !== table) put(place, table);
  }

  function row(run) {
    const state = state_of(run, waiting);
    const key = `${run.team}/${run.run}`;
    const to = `#/runs/${encodeURIComponent(run.team)}/${encodeURIComponent(run.run)}`;
    const cell = (label, ...content) => h("td", { class: content[0] === "–" ? "none" : undefined, data: { label } }, ...content);
    const cancel = h("button", { type: "button", class: "quiet small", data: { focus: `cancel ${key}` }, "aria-label": `Cancel run ${run.run}` }, "Cancel");
    cancel.addEventListener("click", async () => {
      cancel.disabled = true;
      try {
        await post(path`/v1/teams/${run.team}/runs/${run.run}/cancel`);
      } catch (error) {
        toast(error.text ?? error.message, "bad");
      }
      context.look();
    });
    return h("tr", { data: { row: "", run: run.run, state } },
      cell("State", badge(run.status ? tone(run.status) : state === "waiting" ? "wait" : "busy", state)),
      h("td", { class: "asked" }, h("a", { to, data: { focus: key } }, run.parent ? h("span", { class: "muted" }, "↳ ") : null, run.input.trim() ? line(run.input, 140) : "(empty)")),
      cell("Agent", teams.length > 1 ? h("span", { class: "muted" }, `${run.team} / `) : null, foreign(run.agent)),
      cell("Age", h("time", { data: { since: String(run.at) }, title: when(run.at) }, age(run.at))),
      cell("Took", run.ended ? duration(run.ended - run.at) : "–"),
      cell("Tokens", tokens(run.usage)), cell("Cost", cost(run.usage)),
      h("td", { class: "row-actions" }, run.status ? null : cancel));
  }

  return { title: "Runs", node, refresh, redraw: draw, fault: (error) => put(place, empty("Runs cannot be shown", foreign(error.text ?? error.message))) };
}
