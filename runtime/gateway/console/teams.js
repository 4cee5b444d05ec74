// The page of teams: who is in them, what they call, and what is wrong with them.

import { badge, code_block, empty, foreign, h, line, put } from "./dom.js";
import { graph } from "./graph.js";
import { get } from "./net.js";

const EFFECTS = {
  read: ["ok", "only reads: may be made again"],
  idempotent: ["busy", "may be made again with its key"],
  once: ["wait", "is never made twice, and needs leave unless the team allows it"],
};

function effect(word) {
  const [kind, meaning] = EFFECTS[word] ?? ["off", ""];
  const node = badge(kind, word);
  node.title = meaning;
  return node;
}

function agents(team) {
  const rows = team.agents.map((agent) => h("tr", { data: { row: "" } },
    h("th", { scope: "row" }, h("span", { class: "name" }, foreign(agent.name)), agent.name === team.entry ? [" ", badge("off", "entry")] : null),
    h("td", { data: { label: "Does" } }, line(agent.description, 400)),
    h("td", { data: { label: "Models" } }, agent.thinker && agent.thinker !== agent.actor ? [foreign(agent.thinker), " thinks, ", foreign(agent.actor), " acts"]
      : agent.planner ? [foreign(agent.planner), " plans, ", foreign(agent.actor), " acts"] : foreign(agent.actor),
    h("span", { class: "muted" }, ` · ${agent.dialect}`)),
    h("td", { data: { label: "Calls" } }, agent.calls.length ? agent.calls.map((name, at) => [at ? ", " : "", foreign(name)]) : h("span", { class: "muted" }, "nobody")),
    h("td", { class: "row-actions" }, h("a", { class: "button small", to: `#/runs?new&agent_of=${encodeURIComponent(`${team.name}/${agent.name}`)}` }, "Ask"))));
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Agent", "Does", "Models", "Calls"].map((name) => h("th", { scope: "col" }, name)),
    h("th", {}, h("span", { class: "unseen" }, "Actions")))), h("tbody", {}, rows));
}

function arguments_of(tool) {
  const names = Object.keys(tool.parameters?.properties ?? {});
  return names.length === 1 ? "1 parameter" : `${names.length || "no"} parameters`;
}

function tools(team) {
  if (team.tools.length === 0) return h("p", { class: "muted" }, "This team has no tools.");
  const rows = team.tools.map((tool) => h("tr", { data: { row: "" } },
    h("th", { scope: "row" }, h("span", { class: "name" }, foreign(tool.name))),
    h("td", { data: { label: "Does" } }, line(tool.description, 600)),
    h("td", { data: { label: "Effect" } }, effect(tool.effect)),
    h("td", { data: { label: "Arguments" } }, h("details", {}, h("summary", {}, arguments_of(tool)), code_block(JSON.stringify(tool.parameters, null, 2))))));
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Tool", "Does", "Effect", "Arguments"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows));
}

function section(team, at) {
  return h("section", { class: "panel team", "aria-labelledby": `team-${at}` },
    h("div", { class: "title-row" }, h("h2", { id: `team-${at}` }, foreign(team.name)),
      h("a", { class: "button", to: `#/runs?team=${encodeURIComponent(team.name)}` }, "Its runs")),
    team.description ? h("p", {}, foreign(team.description)) : null,
    h("p", { class: "muted" }, "Models: ", team.models.map((name, index) => [index ? ", " : "", foreign(name)])),
    team.fault ? h("div", { class: "notice bad", role: "alert" }, h("strong", {}, "Its tools are not as their sources say. "), foreign(team.fault)) : null,
    team.left_out?.length ? h("details", { class: "notice" }, h("summary", {}, `${team.left_out.length} left out: described by others, and cannot be offered`),
      h("ul", {}, team.left_out.map((reason) => h("li", {}, foreign(reason))))) : null,
    graph(team, at),
    h("h3", {}, "Agents"), agents(team), h("h3", {}, "Tools"), tools(team));
}

export function teams(context) {
  const place = h("div", { class: "stack" });
  const node = h("div", {}, h("h1", {}, "Teams"), place);
  let shown = "";

  async function refresh(signal) {
    const found = (await get("/v1/teams", signal)).teams;
    const [only] = context.params;
    const wanted = only ? found.filter((team) => team.name === only) : found;
    // Teams change seldom; what is open or chosen in the page stays as it is meanwhile.
    const text = JSON.stringify(wanted);
    if (text === shown) return;
    shown = text;
    put(place, wanted.length ? wanted.map(section) : found.length ? empty("No such team", h("a", { to: "#/teams" }, "Go to the teams"), ".")
      : empty("No team", "Name team files when the daemon is started: ", h("code", {}, "callboard serve TEAM.toml"), "."));
  }

  function fault(error) {
    shown = "";
    put(place, empty("Teams cannot be shown", foreign(error.text ?? error.message)));
  }

  return { title: "Teams", node, refresh, fault };
}
