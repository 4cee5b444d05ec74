// The page of one run: what was said beside when it was said, while it goes on and afterwards.

import { asked, call_card, card_key, open_calls } from "./calls.js";
import { Conversation } from "./conversation.js";
import { badge, code_block, empty, foreign, h, keep_focus, prose, put, toast } from "./dom.js";
import { age, cost, count, duration, tokens, tone, when } from "./format.js";
import { members, shown } from "./json.js";
import { in_turn, stream } from "./live.js";
import { get, path, post } from "./net.js";
import { Story } from "./story.js";
import { Waterfall, arrange } from "./waterfall.js";

// The least pause between two looks at the spans while events come.
const SPANS_PAUSE_MS = 700;
// How often bars of what is in work grow.
const GROW_MS = 500;

const CONTENT = {
  invoke_agent: [["gen_ai.system_instructions", "Instructions"], ["gen_ai.input.messages", "Asked"], ["gen_ai.output.messages", "Answer"]],
  chat: [["gen_ai.input.messages", "Prompt: what was new to the model"], ["gen_ai.output.messages", "Reply"], ["callboard.feedback.text", "Feedback"]],
  execute_tool: [["gen_ai.tool.call.arguments", "Arguments"], ["gen_ai.tool.call.result", "Result"]],
};

function part(piece) {
  switch (piece.type) {
    case "text": return prose(piece.content);
    case "reasoning": return h("div", {}, h("span", { class: "label" }, "reasoning"), prose(piece.content));
    case "tool_call": return h("div", {}, h("span", { class: "label" }, "calls ", foreign(piece.name)), code_block(shown(piece.arguments ?? {})));
    case "tool_call_response": return h("div", {}, h("span", { class: "label" }, "result"), code_block(shown(piece.result ?? piece.response ?? "")));
    default: return code_block(JSON.stringify(piece, null, 2));
  }
}

// Draws messages in the form of the conventions, or a text that is none.
function messages(text) {
  let list;
  try {
    list = JSON.parse(text);
  } catch {
    return code_block(text);
  }
  if (!Array.isArray(list)) return code_block(shown(text));
  return list.map((message) => {
    const parts = Array.isArray(message.parts) ? message.parts : [message];
    return h("div", { class: "message" }, message.role ? h("span", { class: "label" }, foreign(message.role)) : null, parts.map(part));
  });
}

function attributes(values) {
  const rows = Object.entries(values).map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, foreign(name)), h("td", {}, foreign(typeof value === "string" ? value : JSON.stringify(value)))));
  return h("table", { class: "facts" }, h("tbody", {}, rows));
}

// Draws all that is known of a span.
function inspector(row) {
  if (!row) return h("p", { class: "muted" }, "Choose a bar or a message to see what stands behind it.");
  if (!row.span) return h("div", {}, h("h3", {}, foreign(row.name)), h("p", { class: "muted" }, "in work; its span comes when it ends"));
  const { span } = row;
  const wanted = CONTENT[span.attributes["gen_ai.operation.name"]] ?? [];
  const has = (name) => span.attributes[name] !== undefined;
  const content = wanted.filter(([name]) => has(name)).map(([name, title]) => {
    const value = String(span.attributes[name]);
    const body = name.endsWith("messages") || name.endsWith("instructions") ? messages(value) : code_block(shown(value));
    return h("details", { open: true, data: { content: name } }, h("summary", {}, title), body);
  });
  const rest = Object.fromEntries(Object.entries(span.attributes).filter(([name]) => !wanted.some(([known]) => known === name)));
  const happened = (span.events ?? []).map((event) => h("li", {}, foreign(event.name), " ", h("span", { class: "muted" }, when(event.at)),
    Object.keys(event.attributes ?? {}).length ? attributes(event.attributes) : null));
  return h("div", {},
    h("h3", {}, foreign(span.name)),
    h("p", { class: "muted" }, `${duration(span.end - span.start)} from ${when(span.start)}`),
    span.error ? h("p", { class: "fault" }, foreign(span.error)) : null,
    wanted.length && !content.length ? h("p", { class: "muted not-captured" }, "Texts: not captured (", h("code", {}, "trace.store"), " of the team file)") : content,
    happened.length ? h("details", { open: true }, h("summary", {}, "Events"), h("ul", { class: "plain" }, happened)) : null,
    span.links?.length ? h("details", {}, h("summary", {}, "Links"), code_block(JSON.stringify(span.links, null, 2))) : null,
    h("details", {}, h("summary", {}, "Attributes"), attributes(rest)));
}

export function run(context) {
  const [team, id] = context.params;
  const place = path`/v1/teams/${team}/runs/${id}`;
  const story = new Story(id);
  const cards = new Map();
  let spans = [];
  let rows = [];
  let view;
  let selected;
  let timer;
  let inspected;
  let is_unknown = false;

  const facts = h("div", { class: "run-facts" });
  const cancel = h("button", { type: "button", class: "danger", hidden: true }, "Cancel the run");
  const waits = h("section", { class: "waits", "aria-label": "Waits for you" });
  const inside = h("section", { class: "panel inspector", "aria-label": "What stands behind it" }, inspector());
  const conversation = new Conversation(story, { on_select: (key) => select(key, "conversation"), on_open_call: place_card });
  const waterfall = new Waterfall({ on_select: (key) => select(key, "waterfall") });
  const lost = h("div", {});
  const whole = h("span", {});
  const columns = h("div", { class: "run-columns" },
    h("section", { "aria-label": "Conversation" }, h("h2", {}, "Conversation"), conversation.node),
    h("section", { class: "run-side", "aria-label": "Waterfall" }, h("h2", {}, "Waterfall"), h("div", { class: "panel" }, waterfall.node), inside));
  const node = h("div", { class: "run-page" },
    h("p", { class: "crumbs" }, h("a", { to: `#/runs?team=${encodeURIComponent(team)}` }, "Runs"), " / ", foreign(team), whole),
    h("div", { class: "title-row" }, h("h1", { class: "id-title" }, "Run ", h("span", { class: "id" }, foreign(id))), cancel),
    facts, waits, lost, columns);

  cancel.addEventListener("click", async () => {
    cancel.disabled = true;
    try {
      await post(`${place}/cancel`);
      toast("The run is told to end");
    } catch (error) {
      toast(error.text ?? error.message, "bad");
    }
    cancel.disabled = false;
    refresh();
  });

  function draw_facts() {
    if (!view) return;
    const root = story.root;
    const state = root?.status ?? (view.state === "ended" ? view.status : view.state);
    const doing = view.state === "running" && !root?.status ? `${view.phase}, step ${view.step}` : "";
    const ended = root?.ended_at;
    const took = root ? (ended ? duration(ended - root.at) : h("time", { data: { since: String(root.at) } }, age(root.at))) : "–";
    const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
    // While it is in work, what it and the runs below it used is summed up here.
    const own = rows.filter((row) => row.own && story.runs.has(row.span.run));
    const sum = (name) => own.reduce((so_far, row) => so_far + row[name], 0);
    keep_focus(facts, () => put(facts, h("dl", { class: "facts-line" },
      fact("State", badge(tone(state), state), doing ? h("span", { class: "muted" }, ` ${doing}`) : null),
      fact("Agent", foreign(view.agent)),
      fact("Session", h("a", { to: `#/sessions/${encodeURIComponent(team)}/${encodeURIComponent(view.session)}`, data: { focus: "session" } }, foreign(view.session))),
      fact("Begun", root ? when(root.at) : "–"), fact(ended ? "Took" : "For", took),
      fact("Tokens", root?.usage ? tokens(root.usage) : count(sum("tokens"))),
      fact("Cost", cost(root?.usage ?? { cost_nano_usd: sum("cost") })))));
    cancel.hidden = view.state === "ended" || root?.status !== undefined;
  }

  function inspect() {
    const row = rows.find((each) => each.key === selected);
    const text = JSON.stringify([selected, row?.name, row?.span]);
    // What is unfolded in it stays so while there is nothing new.
    if (text !== inspected) put(inside, inspector(row));
    inspected = text;
  }

  function select(key, from) {
    selected = key;
    const row = rows.find((each) => each.key === key);
    // In one column, what stands behind a bar is below it, and the conversation is far from it.
    const goes_there = from === "waterfall" && matchMedia("(min-width: 1001px)").matches;
    conversation.select(key, goes_there);
    waterfall.select(key, from === "conversation");
    // A hop below a call has no message of its own; its call is shown.
    if (row && from === "waterfall" && !conversation.nodes.has(key)) {
      const up = rows.slice(0, rows.indexOf(row)).reverse().find((each) => each.depth < row.depth && conversation.nodes.has(each.key));
      if (up) conversation.select(up.key, goes_there);
    }
    inspect();
  }

  function draw_rows() {
    rows = arrange(spans, story, Date.now() * 1e3);
    waterfall.draw(rows);
  }

  // Leads from a run that another one asked for to the first of all.
  function draw_whole() {
    const first = story.root?.depth > 0 && spans.find((span) => !story.runs.has(span.run))?.run;
    if (!first || whole.firstChild) return;
    put(whole, " / called in ", h("a", { to: `#/runs/${encodeURIComponent(team)}/${encodeURIComponent(first)}` }, "run ", foreign(first)));
  }

  async function load_spans() {
    // Before the first turn is over there are none to ask for.
    const is_early = story.root && !story.root.status && !story.root.items.some((item) => item.done || item.kind === "call");
    try {
      if (!is_early) ({ spans } = await get(path`/v1/teams/${team}/traces/${id}`, context.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      // A trace is known when its first span is.
      if (error.status !== 404) throw error;
    }
    draw_rows();
    draw_facts();
    draw_whole();
    if (selected) inspect();
  }

  function place_card(item, place_of_card) {
    const held = cards.get(item.call);
    if (held && asked(held.call) === asked(item.waits)) put(place_of_card, held.card);
    else place_of_card.append(h("p", { class: "muted" }, foreign(item.waits.question)));
  }

  // Finds what waits for a person in this run and those below it.
  async function load_calls() {
    const calls = await open_calls(team, context.signal);
    const known = new Set();
    let elsewhere = 0;
    for (const call of calls) {
      const item = story.calls.get(call.call);
      if (!item) continue;
      known.add(call.call);
      if (card_key(call) !== cards.get(call.call)?.key) cards.set(call.call, { call, key: card_key(call), card: call_card(call, () => refresh(), true) });
      const { card } = cards.get(call.call);
      item.waits = { question: call.question, kind: call.kind, question_id: call.question_id };
      const box = conversation.nodes.get(item.key)?.querySelector(":scope > .open-call");
      if (!box) conversation.changed([item]);
      else if (!box.contains(card)) put(box, card);
      elsewhere += 1;
    }
    for (const key of [...cards.keys()]) {
      if (known.has(key)) continue;
      cards.delete(key);
      const item = story.calls.get(key);
      if (item?.waits) {
        item.waits = undefined;
        conversation.changed([item]);
      }
    }
    const jump = h("button", { type: "button", class: "primary", data: { focus: "jump" } }, elsewhere === 1 ? "Go to it" : "Go to the first");
    jump.addEventListener("click", () => {
      const card = cards.get([...known][0])?.card;
      card?.scrollIntoView({ block: "center" });
      card?.querySelector("textarea, button")?.focus({ preventScroll: true });
    });
    keep_focus(waits, () => put(waits, elsewhere ? h("p", { class: "notice" }, `${elsewhere} ${elsewhere === 1 ? "call waits" : "calls wait"} for you. `, jump) : null));
  }

  async function load_run() {
    view = await get(place, context.signal);
    put(lost);
    columns.hidden = false;
    draw_facts();
    await load_spans();
  }

  const refresh = in_turn(async () => {
    if (context.signal.aborted) return;
    const parts = await Promise.allSettled([load_run(), load_calls(), context.count()]);
    const failed = parts.find((each) => each.status === "rejected" && each.reason.name !== "AbortError");
    is_unknown = failed?.reason.status === 404;
    if (failed) fault(failed.reason);
  });

  function fault(error) {
    put(lost, empty("This run cannot be shown", foreign(error.text ?? error.message)));
    columns.hidden = !story.root;
  }

  function soon() {
    if (timer === undefined) {
      timer = setTimeout(() => {
        timer = undefined;
        refresh();
      }, SPANS_PAUSE_MS);
    }
  }

  function take(event, written) {
    // What a call is made with is shown as it is written, with all digits of its numbers.
    if (event.event === "call_started") event.arguments = members(written).get("arguments");
    conversation.changed(story.take(event));
    columns.hidden = false;
    if (event.event === "delta") return;
    soon();
  }

  const grow = setInterval(() => {
    if (!document.hidden && !story.root?.status) draw_rows();
  }, GROW_MS);
  // What was told before is told again when the stream is opened anew.
  const end_stream = stream(`${place}/events?tree=true`, {
    on_message: take,
    on_open: soon,
    is_over: () => story.root?.status !== undefined,
    async look() {
      await refresh();
      return view?.state !== "ended" && !is_unknown;
    },
  });

  return {
    title: `Run ${id}`, node, refresh, fault,
    stop() {
      end_stream();
      clearInterval(grow);
      clearTimeout(timer);
    },
  };
}
