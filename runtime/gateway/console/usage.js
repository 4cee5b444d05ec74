// The page of what models used: tokens and money by day, agent and model.

import { bars } from "./chart.js";
import { empty, foreign, h, keep_focus, put } from "./dom.js";
import { count, day, money, short } from "./format.js";
import { get, path } from "./net.js";

const DAY_US = 86_400_000_000;
const DAYS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]];

const SUM = () => ({ turns: 0, input: 0, output: 0, cost: 0 });

function add(sum, row) {
  sum.turns += row.turns;
  sum.input += row.usage.input_tokens;
  sum.output += row.usage.output_tokens;
  sum.cost += row.usage.cost_nano_usd ?? 0;
  return sum;
}

// Sums rows up by a name that each has.
function by(rows, name_of) {
  const sums = new Map();
  for (const row of rows) sums.set(name_of(row), add(sums.get(name_of(row)) ?? SUM(), row));
  return sums;
}

function table(title, name, sums) {
  const rows = [...sums].map(([key, sum]) => h("tr", {}, h("th", { scope: "row" }, foreign(key)),
    [["Turns", count(sum.turns)], ["Tokens read", count(sum.input)], ["Tokens written", count(sum.output)], ["Cost", money(sum.cost)]]
      .map(([label, text]) => h("td", { data: { label }, class: "number" }, text))));
  return h("section", {}, h("h2", {}, title), h("table", { class: "list numbers" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, name), ["Turns", "Tokens read", "Tokens written", "Cost"].map((text) => h("th", { scope: "col", class: "number" }, text)))), h("tbody", {}, rows)));
}

function tile(name, value, note) {
  return h("div", { class: "tile" }, h("span", { class: "muted" }, name), h("strong", {}, value), note ? h("span", { class: "muted" }, note) : null);
}

function switcher(label, options, value, change) {
  return h("div", { class: "switch", role: "group", "aria-label": label }, options.map(([key, text]) => {
    const button = h("button", { type: "button", "aria-pressed": String(key === value), data: { focus: `${label} ${key}` } }, text);
    button.addEventListener("click", () => change(key));
    return button;
  }));
}

export function usage(context) {
  const controls = h("div", { class: "filters" });
  const place = h("div", { class: "stack" });
  const node = h("div", {}, h("h1", {}, "Usage"), controls, place);
  let rows = [];
  let teams = [];

  async function refresh(signal) {
    const { teams: found_teams } = await get("/v1/teams", signal);
    const days = context.query.days ?? "30";
    const lists = await Promise.all(found_teams.map(async (team) => {
      const { usage: found } = await get(`${path`/v1/teams/${team.name}/usage`}?days=${encodeURIComponent(days)}`, signal);
      return found.map((row) => ({ ...row, team: team.name }));
    }));
    [teams, rows] = [found_teams, lists.flat()];
    draw();
  }

  function draw() {
    const { days = "30", what = "tokens", split = "model" } = context.query;
    keep_focus(controls, () => put(controls, switcher("Time", DAYS, days, (value) => context.set({ days: value })),
      switcher("What", [["tokens", "Tokens"], ["cost", "Cost"]], what, (value) => context.set({ what: value })),
      switcher("By", [["model", "Models"], ["agent", "Agents"], ["team", "Teams"]], split, (value) => context.set({ split: value }))));
    if (rows.length === 0) {
      put(place, empty("Nothing was used in this time", "Each turn of a model is counted here, with its cost if the team file gives prices. ", h("a", { to: "#/runs?new" }, "Start a run"), "."));
      return;
    }
    const all = rows.reduce(add, SUM());
    const named = (row, part) => (teams.length > 1 ? `${row.team} / ${row[part]}` : row[part]);
    const name_of = (row) => (split === "team" ? row.team : named(row, split));
    const value_of = (row) => (what === "cost" ? row.usage.cost_nano_usd ?? 0 : row.usage.input_tokens + row.usage.output_tokens);
    const names = [...by(rows, name_of)].sort(([, one], [, other]) => other.input + other.output - one.input - one.output).map(([name]) => name);
    const today = Math.floor((Date.now() * 1e3) / DAY_US) * DAY_US;
    const shown = Array.from({ length: Number(days) }, (_, back) => today - (Number(days) - 1 - back) * DAY_US);
    const columns = shown.map((at) => ({ label: day(at), parts: rows.filter((row) => row.day === at).map((row) => ({ name: name_of(row), value: value_of(row) })) }));
    const is_cost = what === "cost";
    put(place,
      h("div", { class: "tiles" }, tile("Tokens", count(all.input + all.output), `${count(all.input)} read, ${count(all.output)} written`),
        tile("Cost", money(all.cost), all.cost ? "by the prices of the team file" : "no prices are given"), tile("Model turns", count(all.turns))),
      is_cost && !all.cost ? h("p", { class: "notice" }, "No cost is known: give models a price in the team file.") : null,
      bars(columns, names, { title: is_cost ? "Cost by day" : "Tokens by day", text: is_cost ? money : short }),
      h("div", { class: "columns" }, table("Models", "Model", by(rows, (row) => named(row, "model"))), table("Agents", "Agent", by(rows, (row) => named(row, "agent")))),
      table("Days (UTC)", "Day", new Map([...by(rows, (row) => day(row.day))].reverse())));
  }

  return { title: "Usage", node, refresh, redraw: () => context.look(), fault: (error) => put(place, empty("Usage cannot be shown", foreign(error.text ?? error.message))) };
}
