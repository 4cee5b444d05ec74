// Builds elements. Texts become text nodes, and nothing here turns a text into markup or an address.

const SVG = "http://www.w3.org/2000/svg";

// What an attribute may be; addresses lead to pages of the console alone.
const ATTRIBUTES = new Set([
  "aria-controls", "aria-current", "aria-describedby", "aria-expanded", "aria-haspopup", "aria-hidden", "aria-label",
  "aria-labelledby", "aria-live", "aria-pressed", "aria-selected", "autocomplete", "autofocus", "checked", "class", "cols",
  "colspan", "cx", "cy", "d", "datetime", "disabled", "for", "height", "hidden", "id", "lang", "marker-end", "maxlength", "min",
  "max", "name", "open", "pattern", "placeholder", "points", "preserveAspectRatio", "r", "required", "role", "rows", "rx",
  "scope", "selected", "spellcheck", "tabindex", "text-anchor", "title", "type", "value", "viewBox", "width", "x", "x1",
  "x2", "y", "y1", "y2", "dy", "dx", "refX", "refY", "orient", "markerWidth", "markerHeight", "transform", "dir",
]);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, text] of Object.entries(value)) {
        if (text !== undefined) element.dataset[key] = text;
      }
    } else if (name === "to") {
      if (!value.startsWith("#/")) throw new Error(`no page of the console: ${value}`);
      element.setAttribute("href", value);
    } else if (name === "vars") {
      for (const [key, text] of Object.entries(value)) element.style.setProperty(`--${key}`, text);
    } else if (ATTRIBUTES.has(name)) {
      element.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new Error(`attribute ${name} is not set here`);
    }
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// Makes an HTML element.
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// Makes an SVG element.
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Puts nodes in the place of an element's children.
export function put(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// What no reader sees or what makes a line read otherwise than it stands: control characters but
// tab and line feed, marks of direction, tags, private use, lone surrogates, and joiners where there
// is nothing to join.
const JOINED = "\\p{Extended_Pictographic}\\u{1f3fb}-\\u{1f3ff}\\ufe0f\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Devanagari}\\p{Script=Bengali}"
  + "\\p{Script=Gujarati}\\p{Script=Gurmukhi}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Oriya}\\p{Script=Sinhala}\\p{Script=Tamil}\\p{Script=Telugu}";
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e\\u200b\\u200e\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffc\\ue000-\\uf8ff\\u{e0000}-\\u{e0fff}\\u{f0000}-\\u{10ffff}]"
  + `|(?<![${JOINED}])[\\u200c\\u200d]|\\p{Cs}`, "gu");

// The longest text that is shown at once; the rest comes on demand.
const SHOWN_MAX = 20_000;

function code(mark) {
  return `U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function marked(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    parts.push(h("span", { class: "hidden-mark", title: "a character that is not seen otherwise" }, code(found[0])));
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

// Shows a text from outside as it stands: what hides or turns it is made visible.
export function foreign(text, most = SHOWN_MAX) {
  const whole = String(text ?? "");
  if (whole.length <= most) return marked(whole);
  const rest = h("button", { type: "button", class: "more" }, `show ${(whole.length - most).toLocaleString("en")} more characters`);
  const place = h("span", {}, rest);
  rest.addEventListener("click", () => put(place, marked(whole.slice(most))));
  return [...marked(whole.slice(0, most)), place];
}

// The same in one line of some length.
export function line(text, most = 200) {
  const whole = String(text ?? "").replace(/\s+/g, " ").trim();
  return marked(whole.length > most ? `${whole.slice(0, most)}…` : whole);
}

// A text from outside that keeps its lines.
export function prose(text) {
  return h("div", { class: "prose", dir: "auto" }, foreign(text));
}

// A text from outside in the type of machines.
export function code_block(text, most = SHOWN_MAX) {
  return h("pre", { class: "code", tabindex: "0" }, foreign(text, most));
}

export function empty(title, ...help) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), help.length ? h("p", {}, ...help) : null);
}

// The code of an error, with the command that explains it.
export function error_code({ code }) {
  return h("code", { title: `callboard explain ${code}` }, code);
}

export function badge(kind, ...text) {
  return h("span", { class: `badge ${kind}` }, ...text);
}

// Renders anew and puts the focus back where it was, by the key of what had it.
export function keep_focus(container, render) {
  const active = document.activeElement;
  const key = active && container.contains(active) ? active.closest("[data-focus]")?.dataset.focus : undefined;
  render();
  if (key === undefined) return;
  for (const candidate of container.querySelectorAll("[data-focus]")) {
    if (candidate.dataset.focus === key) {
      candidate.focus({ preventScroll: true });
      return;
    }
  }
}

const toasts = () => document.getElementById("toasts");

// Tells something in passing.
export function toast(text, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, foreign(text));
  toasts().append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12_000 : 5_000);
}
