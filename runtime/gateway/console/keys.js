// Shortcuts of the keyboard, and their list.

import { h } from "./dom.js";

const PAGES = { t: "teams", r: "runs", a: "approvals", s: "sessions", m: "memory", u: "usage" };

const LIST = [
  ["g then t, r, a, s, m, u", "Teams, runs, approvals, sessions, memory, usage"],
  ["n", "Start a run"],
  ["/", "Go to the filter or search"],
  ["j and k", "Next and previous in a list or waterfall"],
  ["Enter", "Open what has the focus"],
  ["Esc", "Close, or leave a field"],
  ["?", "This list"],
];

function dialog() {
  const rows = LIST.map(([keys, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, keys)), h("td", {}, what)));
  const close = h("button", { type: "button", class: "primary", autofocus: true }, "Close");
  const node = h("dialog", { class: "sheet", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keyboard"),
    h("table", { class: "keys" }, h("tbody", {}, rows)),
    h("p", { class: "muted" }, "Everything can be reached with Tab as well."),
    h("div", { class: "actions" }, close));
  close.addEventListener("click", () => node.close());
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
}

// Moves the focus along what can be chosen on a page.
function move(step) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.offsetParent !== null);
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at === -1 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  const target = next.matches("a, button, [tabindex]") ? next : next.querySelector("a, button");
  target?.focus();
  next.scrollIntoView({ block: "nearest" });
}

function is_typing(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

export function listen() {
  let went = false;
  document.getElementById("keys").addEventListener("click", dialog);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && is_typing(event.target)) event.target.blur();
    if (is_typing(event.target) || document.querySelector("dialog[open]")) return;
    const after_g = went;
    went = false;
    if (after_g && PAGES[event.key]) location.hash = `#/${PAGES[event.key]}`;
    else if (event.key === "g") went = true;
    else if (event.key === "?") dialog();
    else if (event.key === "n") location.hash = "#/runs?new";
    else if (event.key === "/") document.querySelector("main [data-search]")?.focus();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else return;
    event.preventDefault();
  });
}
