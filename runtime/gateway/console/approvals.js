// The page of all that waits for a person, in all teams.

import { call_card, card_key, open_calls } from "./calls.js";
import { empty, foreign, h, put } from "./dom.js";
import { get } from "./net.js";

const ORDER = { approval: 0, question: 1, unknown: 2 };

export function approvals(context) {
  const list = h("div", { class: "cards" });
  const summary = h("p", { class: "muted", role: "status" });
  const node = h("div", {}, h("h1", {}, "Approvals"), summary, list);
  const cards = new Map();
  let drawn = false;

  async function refresh(signal) {
    const { teams } = await get("/v1/teams", signal);
    const found = (await Promise.all(teams.map((team) => open_calls(team.name, signal)))).flat();
    found.sort((one, other) => ORDER[one.kind] - ORDER[other.kind] || one.since - other.since);
    const keys = new Set();
    for (const call of found) {
      // A card is drawn anew only if what is asked has changed, so that nothing typed is lost.
      const key = card_key(call);
      keys.add(key);
      if (!cards.has(key)) cards.set(key, call_card(call, () => context.look()));
    }
    for (const [key, card] of [...cards]) {
      if (keys.has(key)) continue;
      card.remove();
      cards.delete(key);
    }
    if (found.length === 0) {
      put(summary);
      put(list, empty("Nothing waits for you",
        "Calls that need leave, questions of tools and calls whose outcome nobody knows come here by themselves. On the command line the same is ",
        h("code", {}, "callboard calls list"), "."));
      drawn = false;
      return;
    }
    put(summary, `${found.length} ${found.length === 1 ? "call waits" : "calls wait"} for a person.`);
    if (!drawn) put(list);
    drawn = true;
    [...keys].forEach((key, at) => {
      const card = cards.get(key);
      if (list.children[at] !== card) list.insertBefore(card, list.children[at] ?? null);
    });
  }

  function fault(error) {
    drawn = false;
    put(list, empty("This cannot be shown", foreign(error.text ?? error.message)));
  }

  return { title: "Approvals", node, refresh, fault };
}
