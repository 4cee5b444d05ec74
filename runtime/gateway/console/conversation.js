// Draws the story of a run: what was asked, thought, called, answered and found fault with.

import { badge, code_block, error_code, foreign, h, prose, put } from "./dom.js";
import { shown } from "./json.js";
import { cost, duration, tokens, tone } from "./format.js";

const ROLES = { thinker: "thinks", actor: "acts" };

function head(item, ...parts) {
  return h("button", { type: "button", class: "item-head", "aria-pressed": "false", data: { focus: item.key } }, ...parts);
}

function folded(title, body, open = false) {
  return h("details", { open }, h("summary", {}, title), body);
}

function feedback(given) {
  const texts = typeof given === "string" ? [given] : [given.message ?? given.text ?? JSON.stringify(given, null, 2)];
  return h("div", { class: "feedback" }, h("span", { class: "label" }, `Feedback ${given.code ?? ""}`), prose(texts.join("\n")));
}

const DRAW = {
  input(item, story) {
    const run = story.runs.get(item.run);
    const who = item.joined ? "A message joins" : run.depth > 0 ? `Task for ${run.agent}` : `Asked ${run.agent}`;
    return [head(item, h("span", { class: "who" }, who)), prose(item.text)];
  },

  turn(item) {
    const doing = ROLES[item.role] ?? item.role;
    const parts = [head(item, h("span", { class: "who" }, `${item.model ?? "model"} ${doing}`), h("span", { class: "muted" }, `step ${item.step}`),
      item.busy ? h("span", { class: "spin", "aria-label": "in work" }) : null)];
    if (item.failed) parts.push(h("p", { class: "fault" }, foreign(item.failed)));
    if (item.planned) {
      parts.push(h("p", {}, "plans ", h("strong", {}, foreign(item.planned.tool)), ": ", foreign(item.planned.task)));
      if (item.planned.thoughts) parts.push(prose(item.planned.thoughts));
    }
    if (item.text) parts.push(item.streams ? code_block(item.text) : prose(item.text));
    if (item.feedback) parts.push(feedback(item.feedback));
    return parts;
  },

  call(item, story, place) {
    const state = item.waits ? "waiting" : item.busy ? "running" : item.status;
    const parts = [head(item, h("span", { class: "who" }, item.is_agent ? "asks " : "calls ", h("span", { class: "name" }, foreign(item.tool))),
      badge(tone(state), state ?? ""), item.duration_us === undefined ? null : h("span", { class: "muted" }, duration(item.duration_us)),
      item.attempt ? h("span", { class: "muted" }, `attempt ${item.attempt}`) : null)];
    if (!item.waits) parts.push(folded("with", code_block(shown(item.arguments)), true));
    if (item.waits) parts.push(h("div", { class: "open-call", data: { call: item.call } }));
    if (item.busy && item.progress) parts.push(h("p", { class: "muted" }, foreign(item.progress)));
    if (item.reason) parts.push(h("p", { class: "muted" }, "made again: ", foreign(item.reason)));
    if (item.resolved !== undefined) parts.push(h("p", { class: "muted" }, item.resolved ? "A person said that it took effect." : "A person said that it did not take effect."));
    if (item.is_agent) parts.push(place(item.call));
    if (item.output !== undefined) parts.push(folded(item.status === "ok" ? "result" : `result: ${item.status}`, code_block(shown(item.output)), true));
    return parts;
  },

  note(item) {
    return [h("p", { class: "muted" }, foreign(item.text))];
  },

  end(item) {
    const used = item.usage ? [`${tokens(item.usage)} tokens`, item.usage.cost_nano_usd ? cost(item.usage) : null].filter(Boolean).join(", ") : "";
    const parts = [head(item, h("span", { class: "who" }, item.output ? "Answer" : "End"), badge(tone(item.status), item.status), h("span", { class: "muted" }, used))];
    if (item.error) parts.push(h("p", { class: "fault" }, foreign(item.error.message), " ", error_code(item.error)));
    if (item.output) parts.push(prose(item.output));
    return parts;
  },
};

export class Conversation {
  // Takes what is told when an item is chosen, and when an open call is drawn.
  constructor(story, { on_select, on_open_call }) {
    this.story = story;
    this.on_select = on_select;
    this.on_open_call = on_open_call;
    this.nodes = new Map();
    this.lists = new Map();
    this.node = h("div", { class: "conversation" });
    this.selected = undefined;
    this.late = new Set();
  }

  list(run) {
    if (!this.lists.has(run)) this.lists.set(run, h("ol", { class: "items" }));
    return this.lists.get(run);
  }

  // Draws what changed, at most once a frame.
  changed(items) {
    const was_idle = this.late.size === 0;
    items.forEach((item) => this.late.add(item));
    if (was_idle && this.late.size > 0) requestAnimationFrame(() => this.flush());
  }

  flush() {
    const late = [...this.late];
    this.late.clear();
    for (const item of late) this.draw(item);
    const root = this.story.root;
    if (root && !this.node.contains(this.list(root.run))) put(this.node, this.list(root.run));
  }

  draw(item) {
    const place = (call) => {
      const child = [...this.story.runs.values()].find((run) => run.run === call);
      return h("div", { class: "below" }, this.list(child?.run ?? call));
    };
    let node = this.nodes.get(item.key);
    if (!node) {
      node = h("li", { class: `item ${item.kind} ${item.role ?? ""}`, data: { key: item.key, row: "" } });
      this.nodes.set(item.key, node);
      this.list(item.run).append(node);
      node.addEventListener("click", (event) => {
        const by_head = event.target.closest(".item-head")?.parentElement === node;
        if (by_head) this.on_select(item.key);
      });
    }
    const active = document.activeElement;
    const had_focus = node.contains(active);
    const parts = DRAW[item.kind](item, this.story, place);
    node.classList.toggle("slim", parts.length === 1);
    node.dataset.tone = tone(item.status);
    put(node, parts);
    if (this.selected === item.key) this.mark(node, true);
    const open = node.querySelector(":scope > .open-call");
    if (open) this.on_open_call(item, open);
    // What had the focus may be in a card, or in a run below, which are put back as they were.
    if (had_focus) (node.contains(active) ? active : node.querySelector(".item-head"))?.focus({ preventScroll: true });
  }

  mark(node, on) {
    node.classList.toggle("selected", on);
    node.querySelector(":scope > .item-head")?.setAttribute("aria-pressed", String(on));
  }

  // Shows which item is chosen.
  select(key, scroll) {
    const before = this.nodes.get(this.selected);
    if (before) this.mark(before, false);
    this.selected = key;
    const node = this.nodes.get(key);
    if (!node) return;
    this.mark(node, true);
    for (let up = node.parentElement; up; up = up.parentElement) {
      if (up.tagName === "DETAILS") up.open = true;
    }
    if (scroll) node.scrollIntoView({ block: "center" });
  }
}
