// The console: finds the page that the address names, and keeps it up to date.

import { approvals } from "./approvals.js";
import { empty, h, put, toast } from "./dom.js";
import { age } from "./format.js";
import { listen } from "./keys.js";
import { on_pulse, watch } from "./live.js";
import { memory } from "./memory.js";
import { get, on_signed_out, post } from "./net.js";
import { open_calls } from "./calls.js";
import { run } from "./run.js";
import { runs } from "./runs.js";
import { session, sessions } from "./sessions.js";
import { sign_in } from "./sign_in.js";
import { teams } from "./teams.js";
import { usage } from "./usage.js";

const PAGES = [
  { name: "teams", title: "Teams", list: teams, one: teams },
  { name: "runs", title: "Runs", list: runs, one: run, parameters: 2 },
  { name: "approvals", title: "Approvals", list: approvals },
  { name: "sessions", title: "Sessions", list: sessions, one: session, parameters: 2 },
  { name: "memory", title: "Memory", list: memory },
  { name: "usage", title: "Usage", list: usage },
];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const pulse = document.getElementById("pulse");
const sign_out = document.getElementById("sign-out");

// How often open calls are counted where no notices come.
const COUNT_MS = 15_000;

let current;
let is_signed_in = true;
// How often open calls were counted; of two counts the later one holds.
let counts = 0;

// Reads the address: `#/page/parameter/..?query`.
function address() {
  const [way, query = ""] = location.hash.slice(2).split("?");
  const [name, ...params] = way.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { name, params: params.filter(Boolean), query: Object.fromEntries(new URLSearchParams(query)) };
}

function hash_of({ name, params, query }) {
  const way = [name, ...params].map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = pairs.map(([key, value]) => (value === "" ? key : `${encodeURIComponent(key)}=${encodeURIComponent(value)}`)).join("&");
  return `#/${way}${text ? `?${text}` : ""}`;
}

function show_nav(name) {
  for (const link of nav.querySelectorAll("a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  reveal();
}

// Where the bar of the pages is too narrow for all, the page that is open is seen there.
function reveal() {
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function leave() {
  current?.stop();
  current = undefined;
}

// Opens a page: draws it, looks, and looks again when something happened.
function open(make, where) {
  leave();
  const left = new AbortController();
  let looking = new AbortController();
  let refresh = async () => {};
  let redraw;
  const context = {
    ...where, signal: left.signal,
    look: () => refresh(),
    count: count_calls,
    go: (hash) => { location.hash = hash; },
    // Changes the query of the address; quietly if the page shows it already.
    set(change, quietly = false) {
      Object.assign(context.query, change);
      history.replaceState(null, "", hash_of({ ...where, query: context.query }));
      if (!quietly) (redraw ?? refresh)();
    },
  };
  const page = make(context);
  // What a page asks for is given up when it is left, which is no fault.
  const attempt = async (work) => {
    try {
      await work?.();
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) return;
      page.fault?.(error);
      main.setAttribute("aria-busy", "false");
    }
  };
  refresh = () => attempt(async () => {
    if (left.signal.aborted) return;
    // Of two looks the later one counts, whichever is answered first.
    looking.abort();
    looking = new AbortController();
    await page.refresh(looking.signal);
    if (!left.signal.aborted) main.setAttribute("aria-busy", "false");
  });
  redraw = page.redraw && (() => attempt(page.redraw));
  put(main, page.node);
  main.setAttribute("aria-busy", "true");
  document.title = `${page.title} · Callboard`;
  // A page that follows a run has a stream of its own, and is told nothing of other runs.
  const counting = page.stop && setInterval(() => document.hidden || count_calls(), COUNT_MS);
  const ends = page.stop ? () => page.stop() : watch(async () => {
    await Promise.all([refresh(), count_calls()]);
  });
  current = {
    key: hash_of({ ...where, query: {} }), page, context, redraw,
    stop() {
      left.abort();
      looking.abort();
      clearInterval(counting);
      ends();
    },
  };
  refresh().then(count_calls);
  main.scrollIntoView({ block: "start" });
}

function route() {
  if (!is_signed_in) return;
  if (!location.hash.startsWith("#/")) {
    if (!location.hash) location.replace("#/teams");
    return;
  }
  const where = address();
  const page = PAGES.find((each) => each.name === where.name);
  show_nav(where.name);
  if (!page || (where.params.length && (!page.one || (page.parameters ?? 1) !== where.params.length))) {
    leave();
    put(main, empty("There is no such page", h("a", { to: "#/teams" }, "Go to the teams"), "."));
    main.setAttribute("aria-busy", "false");
    document.title = "No such page · Callboard";
    return;
  }
  // On the same page only what it shows changes.
  if (current?.redraw && current.key === hash_of({ ...where, query: {} })) {
    for (const key of Object.keys(current.context.query)) delete current.context.query[key];
    Object.assign(current.context.query, where.query);
    current.redraw();
    return;
  }
  open(where.params.length ? page.one : page.list, where);
}

// Shows on the tab how many calls wait for a person.
async function count_calls() {
  const badge = nav.querySelector("[data-page=approvals] .count");
  counts += 1;
  const mine = counts;
  let open_now = 0;
  try {
    const { teams: all } = await get("/v1/teams");
    const lists = await Promise.all(all.map((team) => open_calls(team.name)));
    open_now = lists.flat().length;
  } catch {
    // What is not known is not shown.
  }
  if (mine !== counts) return;
  const was_hidden = badge.hidden;
  badge.hidden = open_now === 0;
  put(badge, String(open_now), h("span", { class: "unseen" }, " open"));
  if (badge.hidden !== was_hidden) reveal();
}

function ask_to_sign_in() {
  if (!is_signed_in) return;
  is_signed_in = false;
  leave();
  nav.hidden = true;
  sign_out.hidden = true;
  put(pulse);
  const page = sign_in(start);
  document.title = `${page.title} · Callboard`;
  put(main, page.node);
  main.setAttribute("aria-busy", "false");
  main.querySelector("input").focus();
}

async function start() {
  let state;
  try {
    state = await get("/v1/sign-in");
  } catch (error) {
    put(main, empty("The daemon does not answer", error.message));
    return;
  }
  is_signed_in = true;
  if (!state.signed_in) {
    ask_to_sign_in();
    return;
  }
  nav.hidden = false;
  sign_out.hidden = !state.required;
  route();
}

put(nav, PAGES.map((page) => h("a", { to: `#/${page.name}`, data: { page: page.name } }, page.title,
  page.name === "approvals" ? h("span", { class: "count", hidden: true }) : null)));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
sign_out.addEventListener("click", async () => {
  try {
    await post("/v1/sign-out");
    ask_to_sign_in();
  } catch (error) {
    toast(error.text ?? error.message, "bad");
  }
});
on_signed_out(ask_to_sign_in);
on_pulse((word) => {
  const text = { live: "live", waiting: "connecting", refused: "not connected", off: "" }[word];
  put(pulse, text ? h("span", { class: `dot ${word}`, "aria-hidden": "true" }) : null, text ? h("span", { class: "pulse-word" }, text) : null);
});
listen();
// Ages grow while one looks at them.
setInterval(() => {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-since]")) {
    const text = age(Number(time.dataset.since));
    if (time.textContent !== text) time.textContent = text;
  }
}, 1_000);
window.addEventListener("hashchange", route);
start();
