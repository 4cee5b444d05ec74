// Draws the spans of a trace, and what is in work, as bars along time.

import { foreign, h, keep_focus, put } from "./dom.js";
import { count, duration } from "./format.js";

const span_id = (context) => context.split("-")[2];

// Returns the key of the item that a span stands for in the story.
export function key_of(span) {
  const { attributes, run } = span;
  switch (attributes["gen_ai.operation.name"]) {
    case "invoke_agent": return `run:${run}`;
    case "chat": return `turn:${run}:${attributes["callboard.turn"]}`;
    case "execute_tool": return `call:${attributes["gen_ai.tool.call.id"]}`;
    default: return `span:${span_id(span.context)}`;
  }
}

function kind_of(span) {
  if (span.error) return "failed";
  const operation = span.attributes["gen_ai.operation.name"];
  if (operation === "chat") return span.attributes["callboard.role"] ?? "chat";
  return { invoke_agent: "agent", execute_tool: "tool" }[operation] ?? "hop";
}

// Tells whether what a span says to be used is its own, as `SpanRecord::model_usage` of the daemon
// does: it stands for a turn of a model, or for a call of a tool that asks one. Others repeat what
// these used.
function is_own({ attributes }) {
  const operation = attributes["gen_ai.operation.name"];
  return operation === "chat" || (operation === "execute_tool" && "callboard.model" in attributes);
}

// Makes rows out of finished spans.
function of_spans(spans) {
  return spans.map((span) => ({
    key: key_of(span), own: is_own(span), id: span_id(span.context), parent: span.parent && span_id(span.parent), name: span.name, kind: kind_of(span),
    start: span.start, end: span.end, span,
    tokens: (span.attributes["gen_ai.usage.input_tokens"] ?? 0) + (span.attributes["gen_ai.usage.output_tokens"] ?? 0),
    cost: span.attributes["callboard.usage.cost_nano_usd"] ?? 0,
  }));
}

// Makes rows out of what the story knows to be in work; their spans come when they end.
function of_story(story, known, now) {
  const rows = [];
  for (const run of story.runs.values()) {
    if (run.status) continue;
    const key = `run:${run.run}`;
    if (!known.has(key)) {
      const above = story.calls.has(run.run) ? `call:${run.run}` : undefined;
      rows.push({ key, above, name: `invoke_agent ${run.agent}`, kind: "agent", start: run.at, end: now, busy: true, tokens: 0 });
    }
    for (const item of run.items) {
      const is_open = (item.kind === "turn" && item.busy) || (item.kind === "call" && (item.busy || item.waits));
      if (!is_open || known.has(item.key)) continue;
      const name = item.kind === "turn" ? `chat ${item.model}` : `execute_tool ${item.tool}`;
      rows.push({ key: item.key, above: key, name, kind: item.waits ? "waits" : item.kind === "turn" ? item.role : "tool", start: item.at, end: now, busy: true, tokens: 0 });
    }
  }
  return rows;
}

// Orders rows as a tree, each below its parent, by their begin.
export function arrange(spans, story, now) {
  const rows = of_spans(spans);
  const known = new Map(rows.map((row) => [row.key, row]));
  rows.push(...of_story(story, known, now));
  const by_id = new Map(rows.filter((row) => row.id).map((row) => [row.id, row]));
  const by_key = new Map(rows.map((row) => [row.key, row]));
  const below = new Map();
  const roots = [];
  for (const row of rows) {
    // While a run is in work its own span is not there, and its parts hang below its bar.
    let up = row.above ? by_key.get(row.above) : by_id.get(row.parent);
    if (!up && row.span && row.span.attributes["gen_ai.operation.name"] !== "invoke_agent") up = by_key.get(`run:${row.span.run}`);
    if (!up && row.span) up = by_key.get(`call:${row.span.run}`);
    if (up && up !== row) below.set(up, [...(below.get(up) ?? []), row]);
    else roots.push(row);
  }
  const ordered = [];
  const walk = (row, depth) => {
    if (row.depth !== undefined) return;
    row.depth = depth;
    ordered.push(row);
    (below.get(row) ?? []).sort((one, other) => one.start - other.start || one.end - other.end).forEach((child) => walk(child, depth + 1));
  };
  roots.sort((one, other) => one.start - other.start).forEach((row) => walk(row, 0));
  return ordered;
}

export class Waterfall {
  constructor({ on_select }) {
    this.on_select = on_select;
    this.selected = undefined;
    this.body = h("div", { class: "bars", role: "list" });
    this.scale = h("div", { class: "scale", "aria-hidden": "true" });
    this.none = h("p", { class: "muted" }, "Nothing is known of when it was done.");
    this.node = h("div", { class: "waterfall" }, this.scale, this.none, this.body);
  }

  draw(rows) {
    this.none.hidden = rows.length > 0;
    const start = Math.min(...rows.map((row) => row.start));
    const end = Math.max(...rows.map((row) => row.end), start + 1);
    const share = (at) => `${(((at - start) / (end - start)) * 100).toFixed(3)}%`;
    const ticks = rows.length ? [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", {}, part ? duration((end - start) * part) : "0")) : [];
    put(this.scale, h("span", { class: "scale-name" }), h("span", { class: "scale-ticks" }, ticks));
    keep_focus(this.body, () => put(this.body, rows.map((row) => this.bar(row, share))));
  }

  bar(row, share) {
    const took = duration(row.end - row.start);
    const what = `${row.name}, ${row.busy ? "in work" : took}${row.span?.error ? ", failed" : ""}`;
    const [operation, ...names] = row.name.split(" ");
    const button = h("button", {
      type: "button", class: "bar-row", "aria-label": what, "aria-pressed": String(row.key === this.selected),
      data: { row: "", focus: row.key, key: row.key },
      vars: { depth: String(row.depth), from: share(row.start), until: share(row.end) },
    },
    h("span", { class: "bar-name" }, h("span", { class: "muted op" }, foreign(operation)), " ", foreign(names.join(" "))),
    h("span", { class: "bar-lane" }, h("span", { class: `bar-fill ${row.kind} ${row.busy ? "busy" : ""}` })),
    h("span", { class: "bar-time" }, row.busy ? "…" : took),
    h("span", { class: "bar-tokens" }, row.tokens ? count(row.tokens) : ""));
    button.addEventListener("click", () => this.on_select(row.key));
    return h("div", { role: "listitem" }, button);
  }

  select(key, scroll) {
    this.selected = key;
    for (const button of this.body.querySelectorAll(".bar-row")) {
      const is_it = button.dataset.key === key;
      button.setAttribute("aria-pressed", String(is_it));
      if (is_it && scroll) button.scrollIntoView({ block: "nearest" });
    }
  }
}
