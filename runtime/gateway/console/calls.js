// Open calls: what a person is asked, exactly, and what the person can say.

import { badge, code_block, foreign, h, prose, put, toast } from "./dom.js";
import { age, tone, when } from "./format.js";
import { indent, items, members } from "./json.js";
import { get_text, path, post } from "./net.js";

// Lists the open calls of a team, each with its arguments as they are written.
export async function open_calls(team, signal) {
  const text = await get_text(path`/v1/teams/${team}/calls?limit=1000`, signal);
  return items(members(text).get("calls")).map((raw) => ({ ...JSON.parse(raw), team, written: members(raw).get("arguments") }));
}

const KINDS = {
  approval: ["needs leave", "The call is not made unless you allow it."],
  question: ["asks", "The run waits for your answer."],
  unknown: ["outcome unknown", "Nobody knows whether the call took effect. Look at the other side, then say what came of it."],
};

function button(text, kind, act) {
  const node = h("button", { type: "button", class: kind }, text);
  node.addEventListener("click", act);
  return node;
}

// Sends what the person said, and tells what became of it.
async function say(card, where, body, done) {
  const buttons = [...card.querySelectorAll("button")];
  buttons.forEach((each) => { each.disabled = true; });
  const fault = card.querySelector(".fault");
  put(fault);
  try {
    await post(where, body);
    done();
  } catch (error) {
    put(fault, foreign(error.text ?? error.message));
  }
  buttons.forEach((each) => { each.disabled = false; });
}

function field(id, label, rows, hint) {
  const input = h("textarea", { id, rows: String(rows), placeholder: hint, spellcheck: "false", data: { focus: id } });
  return [h("label", { for: id }, label), input, input];
}

function approval(card, call, done) {
  const where = (verb) => path`/v1/teams/${call.team}/calls/${call.call}/${verb}`;
  const [label, area, reason] = field(`reason-${call.call}`, "Reason, if you deny it (the model reads it)", 2, "not this month");
  return [label, area, h("div", { class: "actions" },
    button("Approve exactly this", "primary", () => say(card, where("approve"), { digest: call.digest }, () => {
      toast(`${call.tool} is allowed`);
      done();
    })),
    button("Deny", "danger", () => say(card, where("deny"), { reason: reason.value }, () => {
      toast(`${call.tool} is denied`);
      done();
    })))];
}

function question(card, call, done) {
  const [label, area, answer] = field(`answer-${call.call}`, "Your answer", 3, "");
  const send = () => say(card, path`/v1/teams/${call.team}/runs/${call.run}/answer`, { call: call.call, text: answer.value }, () => {
    toast("answered");
    done();
  });
  answer.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  return [label, area, h("div", { class: "actions" }, button("Answer", "primary", send), h("span", { class: "muted" }, "Ctrl Enter"))];
}

// Takes what was typed as JSON if it is that, and as a text if not.
function result_of(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function unknown(card, call, done) {
  const where = path`/v1/teams/${call.team}/calls/${call.call}/resolve`;
  const [label, area, result] = field(`result-${call.call}`, "Its result, if it took effect (JSON or text)", 2, "{\"id\":7}");
  const settled = () => {
    toast("settled");
    done();
  };
  return [label, area, h("div", { class: "actions" },
    button("It took effect", "primary", () => say(card, where, { done: true, result: result_of(result.value), attempt: call.attempt }, settled)),
    button("It did not", "danger", () => say(card, where, { done: false, attempt: call.attempt }, settled)))];
}

// Draws an open call with what can be said of it. `brief` leaves out what stands around it already.
export function call_card(call, done, brief = false) {
  const [word, meaning] = KINDS[call.kind] ?? [call.kind, ""];
  const card = h("article", { class: `call-card ${call.kind}`, "aria-label": `${call.tool} ${word}`, data: { call: call.call, row: "", digest: call.digest } });
  const run_page = `#/runs/${encodeURIComponent(call.team)}/${encodeURIComponent(call.run)}`;
  const title = h("header", {},
    h("h3", {}, h("span", { class: "name" }, foreign(call.tool)), " ", badge(tone(call.kind === "unknown" ? "unknown" : "waiting"), word)),
    brief ? null : h("p", { class: "muted" }, `${call.team} · `, foreign(call.agent), " in ", h("a", { to: run_page, data: { focus: `run-${call.call}` } }, "run ", foreign(call.run))),
    h("p", { class: "muted" }, "open for ", h("time", { data: { since: String(call.since) }, title: when(call.since) }, age(call.since)),
      call.until ? [", decided without you at ", when(call.until)] : null, call.kind === "unknown" ? `, made ${call.attempt === 1 ? "once" : `${call.attempt} times`}` : null));
  const asked = call.kind === "approval" ? null : prose(call.question);
  const shown = h("div", { class: "exact" }, h("p", { class: "label" }, call.kind === "approval" ? "Approving sends exactly this" : "Arguments"),
    code_block(indent(call.written ?? JSON.stringify(call.arguments))),
    h("p", { class: "muted digest" }, "digest ", h("code", {}, call.digest)));
  const say_what = { approval, question, unknown }[call.kind];
  put(card, title, brief ? null : h("p", {}, meaning), asked, shown, h("p", { class: "fault", role: "alert" }), say_what ? say_what(card, call, done) : null);
  return card;
}
