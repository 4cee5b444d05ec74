// The page of what teams remember across sessions.

import { badge, empty, foreign, h, keep_focus, prose, put } from "./dom.js";
import { when } from "./format.js";
import { get, path } from "./net.js";

// Facts of a team that are shown.
const SHOWN_MAX = 200;

export function memory(context) {
  const search = h("input", { id: "memory-query", type: "search", value: context.query.query ?? "", placeholder: "words to look for", data: { search: "" } });
  const list = h("div", { class: "cards" });
  const note = h("p", { class: "muted", role: "status" });
  const node = h("div", {}, h("h1", {}, "Memory"),
    h("p", { class: "muted" }, "Facts that agents keep across sessions. Agents forget them with the tool ", h("code", {}, "forget"), "; here they are only looked at."),
    h("div", { class: "filters" }, h("div", { class: "field grow" }, h("label", { for: "memory-query" }, "Search"), search)), note, list);
  search.addEventListener("input", () => {
    context.set({ query: search.value || undefined }, true);
    context.look();
  });

  function card(fact) {
    const to = `#/sessions/${encodeURIComponent(fact.team)}/${encodeURIComponent(fact.session)}`;
    return h("article", { class: "panel fact", data: { row: "" } }, prose(fact.text),
      h("p", { class: "muted" }, foreign(fact.agent), ` of ${fact.team}, ${when(fact.at)}, `, h("a", { to, data: { focus: fact.id } }, "its session"),
        fact.tainted ? [" ", badge("odd", "words of strangers")] : null));
  }

  async function refresh(signal) {
    const query = context.query.query ?? "";
    const { teams } = await get("/v1/teams", signal);
    const lists = await Promise.all(teams.map(async (team) => {
      const { facts } = await get(`${path`/v1/teams/${team.name}/memory`}?limit=${SHOWN_MAX}&query=${encodeURIComponent(query)}`, signal);
      return facts.map((fact) => ({ ...fact, team: team.name }));
    }));
    const all = lists.flat();
    if (!query) all.sort((one, other) => other.at - one.at);
    put(note, all.length ? `${all.length} ${all.length === 1 ? "fact" : "facts"}${query ? " found, the best match first" : ", the newest first"}.${lists.some((list) => list.length === SHOWN_MAX) ? ` Of each team at most ${SHOWN_MAX} are shown.` : ""}` : "");
    keep_focus(list, () => put(list, all.length ? all.map(card) : query
      ? empty("No fact has these words")
      : empty("Nothing is remembered yet", "Give an agent the tools ", h("code", {}, "remember"), " and ", h("code", {}, "recall"), ", and it keeps facts across sessions.")));
  }

  return { title: "Memory", node, refresh, fault: (error) => put(list, empty("Memory cannot be shown", foreign(error.text ?? error.message))) };
}
