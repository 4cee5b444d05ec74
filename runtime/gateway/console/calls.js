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

// Names what a call asks a person, as far as an event tells it too.
export function asked({ kind, question, question_id }) {
  return JSON.stringify([kind, question, question_id]);
}

// Names what a card asks: if it changes, so does what a person would say.
export function card_key(call) {
  return JSON.stringify([call.team, call.call, asked(call), call.digest, call.attempt, call.since]);
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
  // Keys reach this also while something is on its way.
  if (buttons.some((each) => each.disabled)) return;
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

// Returns the values that a schema allows, each with its title.
function choices(schema) {
  const plain = (schema?.enum ?? []).map((value, at) => [value, schema.enumNames?.[at]]);
  const titled = [...(schema?.oneOf ?? []), ...(schema?.anyOf ?? [])].filter((choice) => "const" in choice).map((choice) => [choice.const, choice.title]);
  return [...plain, ...titled].map(([value, title]) => [value, title ?? value]);
}

// How a number is written in JSON.
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

// Writes a number as it was typed. What is no number goes as a text, and the daemon says what does not fit.
function number(typed) {
  const text = typed.trim();
  if (NUMBER.test(text)) return text;
  return JSON.stringify(text !== "" && Number.isFinite(Number(text)) ? Number(text) : typed);
}

// Makes a field of several choices; returns it and what reads it.
function several(title, note, schema, options, is_required) {
  const chosen = Array.isArray(schema.default) ? schema.default : [];
  const boxes = options.map(([value]) => h("input", { type: "checkbox", checked: chosen.includes(value) }));
  const row = h("fieldset", { class: "field" }, h("legend", { class: "label" }, title), note,
    options.map(([, text], at) => h("label", { class: "option" }, boxes[at], " ", foreign(text))));
  const read = () => {
    const values = options.filter((_, at) => boxes[at].checked).map(([value]) => value);
    return values.length || is_required ? JSON.stringify(values) : undefined;
  };
  return { row, read };
}

// Makes the fields of a form out of its schema, which has texts, numbers, truths and choices alone;
// returns them and what writes down what is filled in.
function form_fields(call) {
  const required = new Set(call.form.required ?? []);
  const readers = [];
  const rows = Object.entries(call.form.properties ?? {}).map(([name, schema], at) => {
    const id = `field-${call.call}-${at}`;
    const words = [foreign(schema.title ?? name), required.has(name) ? " (required)" : ""];
    const title = h("label", { for: id }, words);
    const note = schema.description ? h("p", { class: "muted" }, foreign(schema.description)) : null;
    const read = (take) => readers.push([name, take]);
    if (schema.type === "boolean") {
      const box = h("input", { id, type: "checkbox", checked: schema.default === true });
      read(() => String(box.checked));
      return h("div", { class: "field" }, title, note, box);
    }
    const options = choices(schema.type === "array" ? schema.items : schema);
    if (options.length && schema.type === "array") {
      const field_of = several(words, note, schema, options, required.has(name));
      read(field_of.read);
      return field_of.row;
    }
    if (options.length) {
      const select = h("select", { id }, required.has(name) ? null : h("option", { value: "" }, "–"),
        options.map(([value, text], index) => h("option", { value: String(index), selected: value === schema.default }, foreign(text))));
      read(() => (select.value === "" ? undefined : JSON.stringify(options[Number(select.value)][0])));
      return h("div", { class: "field" }, title, note, select);
    }
    const input = h("input", { id, type: "text", value: schema.default === undefined ? "" : String(schema.default), autocomplete: "off" });
    const is_number = schema.type === "number" || schema.type === "integer";
    read(() => {
      if (input.value === "" && !required.has(name)) return undefined;
      return is_number ? number(input.value) : JSON.stringify(input.value);
    });
    return h("div", { class: "field" }, title, note, input);
  });
  const content = () => {
    const filled = readers.map(([name, take]) => [name, take()]).filter(([, text]) => text !== undefined);
    return `{${filled.map(([name, text]) => `${JSON.stringify(name)}:${text}`)}}`;
  };
  return { rows, content };
}

const answer_place = (call) => path`/v1/teams/${call.team}/runs/${call.run}/answer`;

// Names the question that is answered, so that the answer is not taken for that to a later one.
const question_of = ({ call, question_id }) => ({ call, question_id });

// Writes a body with one more field, which is written already.
const with_text = (body, name, text) => `${JSON.stringify(body).slice(0, -1)},"${name}":${text}}`;

// A question with a form: filled in, or declined.
function form(card, call, done) {
  const { rows, content } = form_fields(call);
  const settled = (text) => () => {
    toast(text);
    done();
  };
  return [h("p", { class: "muted" }, "The tool ", h("span", { class: "name" }, foreign(call.tool)), " asks this. Give it no passwords."), rows,
    h("div", { class: "actions" },
      button("Answer", "primary", () => say(card, answer_place(call), with_text(question_of(call), "content", content()), settled("answered"))),
      button("Decline", "danger", () => say(card, answer_place(call), { ...question_of(call), action: "decline" }, settled("declined"))))];
}

function question(card, call, done) {
  if (call.form) return form(card, call, done);
  const [label, area, answer] = field(`answer-${call.call}`, "Your answer", 3, "");
  const send = () => say(card, answer_place(call), { ...question_of(call), text: answer.value }, () => {
    toast("answered");
    done();
  });
  answer.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  return [label, area, h("div", { class: "actions" }, button("Answer", "primary", send), h("span", { class: "muted" }, "or Ctrl Enter"))];
}

// Takes what was typed as JSON if it is that, with all digits of its numbers, and as a text if not.
function result_of(text) {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
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
    button("It took effect", "primary", () => say(card, where, with_text({ done: true, attempt: call.attempt }, "result", result_of(result.value)), settled)),
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
      call.until ? [call.kind === "approval" ? ", counts as denied at " : ", ends without an answer at ", when(call.until)] : null, call.kind === "unknown" ? `, made ${call.attempt === 1 ? "once" : `${call.attempt} times`}` : null));
  const notice = call.notice ? h("p", { class: "notice" }, call.notice) : null;
  const asked = call.kind === "approval" ? null : prose(call.question);
  const shown = h("div", { class: "exact" }, h("p", { class: "label" }, call.kind === "approval" ? "Approving sends exactly this" : "Arguments"),
    // Who approves has to see all of it.
    code_block(indent(call.written ?? JSON.stringify(call.arguments)), call.kind === "approval" ? Infinity : undefined),
    h("p", { class: "muted digest" }, "digest ", h("code", {}, call.digest)));
  const say_what = { approval, question, unknown }[call.kind];
  put(card, title, brief ? null : h("p", {}, meaning), notice, asked, shown, h("p", { class: "fault", role: "alert" }), say_what ? say_what(card, call, done) : null);
  return card;
}
