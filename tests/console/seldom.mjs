// Shows the console what a daemon says seldom: answers that are lost, late or refused, questions that
// change, and forms of all kinds. The daemon gives the page; what the page asks for is answered here.

import { holds } from "./hold.mjs";

const DIGITS = "1234567890123456789012345678901234567890.10";
const AGENTS = ["clerk", "helper"].map((name) => ({ name, description: "Helps.", actor: "main", dialect: "native", calls: [] }));
const TOOL = { name: "a".repeat(64), description: "Helps.", effect: "read", parameters: {} };
const CLERK = { ...AGENTS[0], calls: [TOOL.name] };
const TEAM = { name: "crew", description: "Helps.", entry: "clerk", models: ["main"], tools: [TOOL], agents: [CLERK, AGENTS[1]] };

// What may pass until something is asked for.
const HELD_MAX_MS = 60_000;

// Makes an open call out of what is not as usual.
function open_call(more) {
  return {
    call: "c-1", kind: "question", run: "r", session: "r", agent: "clerk", tool: "ask_user", arguments: {}, digest: "d", attempt: 1,
    question: "Which colour?", waits: true, since: 1_000_000, ...more,
  };
}

function usage_of(input_tokens) {
  return { input_tokens, output_tokens: 0 };
}

// Makes a finished span that says that tokens were used, each of which costs a cent.
function span(run, operation, tokens, more = {}, error = undefined) {
  const id = tokens.toString(16).padStart(16, "0");
  const attributes = {
    "gen_ai.operation.name": operation, "gen_ai.usage.input_tokens": tokens, "callboard.usage.cost_nano_usd": tokens * 10_000_000, ...more,
  };
  return { context: `00-t-${id}-01`, name: `${operation} ${tokens}`, start: 1_000_000, end: 2_000_000, run, attributes, error };
}

// Makes the events of a run and one below it, which name their kinds and what is told with them.
function events_of(list) {
  const counts = new Map();
  return list.map(([run, event, more], at) => {
    counts.set(run, (counts.get(run) ?? -1) + 1);
    return {
      id: `${counts.get(run)}.0`, at: Date.now() * 1e3 - 60_000_000 + at, trace_id: "t", session: run, run, agent: "clerk",
      depth: run === "r" ? 0 : 1, event, ...more,
    };
  });
}

const STARTED = ["r", "call_started", { call: "c-1", tool: "ask_user", arguments: {}, is_agent: false }];

// A daemon as it is written down here. `refuses` names paths that are not answered, `held` such whose
// answers wait until they are let go, `unknown` such of what is not known.
class World {
  constructor() {
    this.calls = [];
    this.runs = [];
    this.more = {};
    this.events = [];
    this.rows = [];
    this.spans = [];
    this.many = 1;
    this.unknown = undefined;
    this.refuses = undefined;
    this.held = undefined;
    this.waiting = [];
    this.posts = [];
    this.lost = 0;
  }

  answer(path, query) {
    const run = { run: "r", session: "r", agent: "clerk", at: 1_000_000, input: "go", trace_id: "t", state: "running", phase: "acting", step: 1 };
    const times = (one) => Array.from({ length: this.many }, () => one);
    const fact = { id: "f", team: "crew", agent: "clerk", session: "s", at: 1, text: `found by ${query.get("query")}.` };
    const session = { session: "s", agent: "clerk", at: 1, begun: 1, slots: 1, exchanges: [{ ...run, run: "s", output: "said" }] };
    return {
      "/v1/sign-in": { required: false, signed_in: true }, "/v1/teams": { teams: [TEAM] },
      "/v1/teams/crew/calls": { calls: this.calls }, "/v1/teams/crew/runs": { runs: this.runs.map((name) => ({ ...run, run: name, ...this.more })) },
      "/v1/teams/crew/runs/r": run, "/v1/teams/crew/traces/r": { spans: this.spans }, "/v1/teams/crew/sessions/s": session,
      "/v1/teams/crew/sessions": { sessions: times(session) }, "/v1/teams/crew/memory": { facts: times(fact) },
      "/v1/teams/crew/usage": { usage: this.rows.concat(query.get("days") === "7" ? [{ day: 0, agent: "clerk", model: "seven", turns: 1, usage: usage_of(7) }] : []) },
    }[path];
  }

  async serve(page) {
    await page.route(/\/v1\//, async (route) => {
      const request = route.request();
      const { pathname, search, searchParams } = new URL(request.url());
      // A request that the page has given up cannot be answered.
      const give = (what) => route.fulfill(what).catch(() => {});
      if (this.refuses?.test(pathname)) return route.abort();
      if (request.method() === "POST") {
        this.posts.push({ path: pathname, text: request.postData() });
        if (this.held?.test(pathname)) await new Promise((resolve) => this.waiting.push(resolve));
        if (this.lost > 0) {
          this.lost -= 1;
          return route.abort();
        }
        return give({ json: { run: "r", session: "r", status: "accepted" } });
      }
      if (pathname.endsWith("/events") && !this.unknown?.test(pathname)) {
        const told = (pathname === "/v1/events" ? [{}] : this.events).map((event) => `data: ${JSON.stringify(event)}\n\n`);
        return give({ contentType: "text/event-stream", body: `retry: 100\n\n${told.join("")}` });
      }
      if (this.held?.test(pathname + search)) await new Promise((resolve) => this.waiting.push(resolve));
      const json = this.answer(pathname, searchParams);
      return give(json ? { json } : { status: 404, json: { error: { code: "E1004", message: "not known" } } });
    });
  }

  // Lets go what is held.
  release() {
    this.held = undefined;
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  // Waits until something is held.
  async holding(page) {
    const until = Date.now() + HELD_MAX_MS;
    while (this.waiting.length === 0) {
      holds(Date.now() < until, "nothing is asked for that could be held");
      await World.frame(page);
    }
  }

  // Waits until what the page has to draw is drawn.
  static frame(page) {
    return page.evaluate(() => new Promise(requestAnimationFrame));
  }

  // Lets go what is held, and tells whether the page shows a text of it.
  async shows(page, text, path) {
    await page.evaluate((wanted) => {
      const main = document.getElementById("main");
      window.__seen = false;
      new MutationObserver(() => { window.__seen ||= main.textContent.includes(wanted); }).observe(main, { childList: true, subtree: true });
    }, text);
    this.release();
    await World.look(page, path);
    return page.evaluate(() => window.__seen);
  }

  // Waits until the page has looked anew, which takes two of its looks, since one may be under way.
  static async look(page, path) {
    for (let at = 0; at < 2; at += 1) await page.waitForResponse((answer) => new URL(answer.url()).pathname === path);
    await World.frame(page);
  }

  body(at) {
    return JSON.parse(this.posts.at(at).text);
  }
}

// A message that is sent again is the same run; another message is another.
async function one_message_is_one_run({ page, go, world }) {
  for (const [hash, field, button] of [["#/runs?new", "#new-input", ".new-run button[type=submit]"], ["#/sessions/crew/s", "#go-on", "main >> text='Send'"]]) {
    world.posts = [];
    await go(hash);
    await page.waitForSelector(`${field}, .item`);
    world.lost = 2;
    for (const [at, text] of ["pay", "pay", "pay twice"].entries()) {
      await page.fill(field, text);
      world.held = /runs/;
      await (at === 0 ? page.click(button) : page.press(field, "Control+Enter"));
      await world.holding(page);
      await page.press(field, "Control+Enter");
      world.release();
      await (at < 2 ? page.waitForSelector(".fault:has-text('cannot be reached')") : page.waitForURL(/#\/runs\/crew\/r$/));
    }
    const runs = world.posts.map((_, at) => world.body(at).run);
    holds(runs.length === 3 && runs.every((run) => /^[0-9a-f]{32}$/.test(run)), `${hash}: one run for each message: ${runs}`);
    holds(runs[0] === runs[1] && runs[1] !== runs[2], `${hash}: the same message is the same run: ${runs}`);
  }
}

const DAYS = [["mo", "Monday"], ["tu", "Tuesday"], ["we", "Wednesday"]].map(([value, title]) => ({ const: value, title }));

// What is filled in, field by field: its schema, what a person does, and what is sent.
const FIELDS = [
  [{ type: "array", items: { anyOf: DAYS } }, [["check", "Monday"], ["check", "Wednesday"]], '["mo","we"]'],
  [{ type: "array", items: { oneOf: DAYS }, default: ["tu"] }, [["check", "Wednesday"]], '["tu","we"]'],
  [{ type: "array", items: { enum: ["a", "b"], enumNames: ["First"] }, default: ["a", "b"] }, [["uncheck", "First"]], '["b"]'],
  [{ type: "array", items: { enum: ["a", "b"] } }, [], undefined],
  [{ type: "array", items: { enum: ["a", "b"] }, needed: true }, [], "[]"],
  [{ type: "string", anyOf: DAYS }, [["select", "Tuesday"]], '"tu"'],
  [{ type: "string", oneOf: DAYS, default: "we" }, [], '"we"'],
  [{ type: "string", enum: ["a", "b"], enumNames: ["First", "Second"] }, [["select", "Second"]], '"b"'],
  [{ type: "string", enum: ["a", "b"] }, [], undefined],
  [{ type: "boolean", default: true }, [], "true"],
  [{ type: "number" }, [["fill", ` ${DIGITS} `]], DIGITS],
  [{ type: "integer" }, [["fill", "18446744073709551616"]], "18446744073709551616"],
  [{ type: "number" }, [["fill", "1.50e-3"]], "1.50e-3"],
  [{ type: "number" }, [["fill", "007"]], "7"],
  [{ type: "number" }, [["fill", "1,5"]], '"1,5"'],
  [{ type: "number" }, [], undefined],
  [{ type: "string" }, [["fill", DIGITS]], `"${DIGITS}"`],
  [{ type: "string", needed: true }, [], '""'],
];

// A form of each kind of field is filled in, and sent as it was.
async function forms_are_filled_in({ page, go, world, tab }) {
  const properties = Object.fromEntries(FIELDS.map(([{ needed, ...schema }], at) => [`field ${at}`, schema]));
  const required = FIELDS.flatMap(([{ needed }], at) => (needed ? [`field ${at}`] : []));
  world.calls = [open_call({ form: { type: "object", properties, required } })];
  world.posts = [];
  await go("#/approvals");
  for (const [at, [, acts]] of FIELDS.entries()) {
    const field = page.locator(".call-card .field").nth(at);
    for (const [act, text] of acts) {
      if (act === "fill") await field.locator("input").fill(text);
      else if (act === "select") await field.locator("select").selectOption({ label: text });
      else await field.getByLabel(text)[act]();
    }
  }
  await tab.audit("a form");
  await page.click(".call-card >> text='Answer'");
  await page.waitForSelector(".toast:has-text('answered')");
  const filled = FIELDS.flatMap(([, , text], at) => (text === undefined ? [] : [`"field ${at}":${text}`]));
  holds(world.posts[0].text === `{"call":"c-1","content":{${filled.join(",")}}}`, world.posts[0].text);

  for (const [typed, sent] of [[`{"id":${DIGITS}}`, `{"id":${DIGITS}}`], [DIGITS, DIGITS], ["it is paid", '"it is paid"'], ["", '""']]) {
    world.calls = [open_call({ kind: "unknown" })];
    world.posts = [];
    await go("#/approvals");
    await page.fill(".call-card.unknown textarea", typed);
    await page.click(".call-card >> text='It took effect'");
    await page.waitForSelector(".toast:has-text('settled')");
    holds(world.posts[0].text === `{"done":true,"attempt":1,"result":${sent}}`, world.posts[0].text);
  }
  world.calls = [];
}

// A call that asks another question gets another card, and an answer names its question.
async function cards_ask_what_is_asked({ page, go, world }) {
  const steps = [
    { kind: "question", question: "Which colour?", question_id: "q-1", since: 1_000_000 },
    { kind: "question", question: "Which taste?", question_id: "q-2", since: 1_000_000 },
    { kind: "question", question: "Which taste?", question_id: "q-2", since: 2_000_000 },
    { kind: "approval", question: "allow it?", since: 2_000_000 },
    { kind: "question", question: "Which size?", question_id: "q-3", since: 3_000_000 },
  ];
  world.events = events_of([["r", "run_accepted", { input: "go" }], STARTED]);
  for (const hash of ["#/approvals", "#/runs/crew/r"]) {
    world.calls = [open_call(steps[0])];
    await go(hash);
    for (const step of steps) {
      world.calls = [open_call(step)];
      await page.waitForFunction(({ kind, question }) => {
        const card = document.querySelector(".call-card");
        const [area, prose] = [card?.querySelector("textarea"), card?.querySelector(".prose")];
        return card?.matches(`.${kind}`) && area.value === "" && (kind === "approval" || prose.textContent === question);
      }, step);
      await page.fill(".call-card textarea", "red");
      await World.look(page, "/v1/teams/crew/calls");
      holds(await page.inputValue(".call-card textarea") === "red", `${hash}: what is typed stays while the question does`);
    }
    world.posts = [];
    await page.press(".call-card textarea", "Control+Enter");
    await page.waitForSelector(".toast:has-text('answered')");
    holds(world.posts[0].text === JSON.stringify({ call: "c-1", question_id: "q-3", text: "red" }), `${hash}: ${world.posts[0].text}`);
  }
  world.calls = [];
}

// When a run is over nothing below it is in work, whether its end was told or not.
async function all_ends_with_the_root({ page, go, world }) {
  const asked = (run) => [run, "model_asked", { step: 1, role: "actor", model: "main" }];
  const over = (run, output) => [run, "run_ended", { status: "cancelled", output, usage: usage_of(1) }];
  const begun = [["r", "run_accepted", { input: "go" }], ["r", "call_started", { call: "below", tool: "helper", arguments: {}, is_agent: true }],
    ["below", "run_accepted", { input: "help" }], asked("below")];
  const waits = [["below", "call_started", { call: "c-2", tool: "ask_user", arguments: {}, is_agent: false }], ["below", "call_suspended", { call: "c-2", question: "Which?", kind: "question" }]];
  for (const [list, ends] of [
    [[...begun, over("r", "")], 1],
    [[...begun, ...waits, over("r", "")], 1],
    [[...begun, over("r", ""), ...waits], 1],
    [[...begun, over("r", ""), asked("below"), over("below", "")], 2],
  ]) {
    world.events = events_of(list);
    await go("#/runs/crew/r");
    await page.waitForFunction((count) => document.querySelectorAll(".item.end").length === count, ends);
    await page.waitForSelector(".pulse:not(:has(.dot))", { state: "attached" });
    await World.frame(page);
    const busy = ".item .spin, .bar-fill, .open-call, .badge.busy";
    await page.waitForFunction((selector) => !document.querySelector(selector), busy);
  }
  world.events = [];
}

// What cannot be shown is shown when the daemon is back.
async function pages_come_back({ page, go, world }) {
  world.calls = [open_call({})];
  for (const [hash, what] of [["#/teams", ".team"], ["#/sessions/crew/s", ".item.end:has-text('said')"], ["#/approvals", ".call-card"]]) {
    await go(hash);
    await page.waitForSelector(what);
    world.refuses = /./;
    await page.waitForSelector(".empty:has-text('cannot be shown')");
    world.refuses = undefined;
    await page.waitForSelector(what);
    holds(await page.locator(".empty").count() === 0, `${hash}: it is shown again`);
  }
  world.calls = [];
}

// An answer that comes late is not drawn over one to a later question.
async function late_answers_are_dropped({ page, go, world }) {
  await go("#/memory");
  world.held = /query=a$/;
  await page.fill("#memory-query", "a");
  await world.holding(page);
  await page.fill("#memory-query", "ab");
  await page.waitForSelector(".fact:has-text('found by ab.')");
  holds(!await world.shows(page, "found by a.", "/v1/teams/crew/memory"), "what is found by the last words is shown");
  await go("#/usage");
  await page.waitForSelector(".empty");
  world.held = /days=7$/;
  await page.click(".switch >> text='7 days'");
  await world.holding(page);
  await page.click(".switch >> text='90 days'");
  await page.waitForSelector(".switch button[aria-pressed=true]:has-text('90 days')");
  holds(!await world.shows(page, "seven", "/v1/teams/crew/usage"), "the usage of the time that was chosen last is shown");
}

// What waits is counted and shown on the page of a run as it is elsewhere.
async function what_waits_is_known({ page, go, world }) {
  world.events = events_of([["r", "run_accepted", { input: "go" }], STARTED]);
  await go("#/runs/crew/r");
  await page.waitForSelector(".item.call");
  for (const count of [1, 2]) {
    world.calls = Array.from({ length: count }, (_, at) => open_call({ call: `c-${at + 1}` }));
    await page.waitForSelector(`.nav .count:has-text('${count}')`);
  }
  // What waits is shown also if nobody knows where the run stands.
  world.refuses = /runs\/r$/;
  await go("#/teams");
  await go("#/runs/crew/r");
  await page.waitForSelector(".empty:has-text('cannot be shown')");
  await page.waitForSelector(".call-card.question");
  world.refuses = undefined;
  world.calls = [];
}

// While a run is in work, what it and those below it used is summed up out of what each span says of
// its own; others repeat that, and those of the run above are not of it.
async function what_is_used_is_counted_once({ page, go, world }) {
  world.events = events_of([["r", "run_accepted", { input: "go", depth: 1 }], STARTED, ["below", "run_accepted", { input: "help" }]]);
  const model = { "callboard.model": "main" };
  world.spans = [
    span("above", "chat", 1_000, { ...model, "callboard.role": "actor" }),
    span("r", "chat", 1, { ...model, "callboard.role": "thinker" }),
    span("r", "chat", 2, { ...model, "callboard.role": "actor" }),
    span("r", "chat", 4, { ...model, "callboard.role": "actor" }, "it fell over"),
    span("below", "execute_tool", 8, { ...model, "gen_ai.tool.call.id": "c-3" }),
    span("below", "execute_tool", 16, { ...model, "gen_ai.tool.call.id": "c-4" }, "it fell over"),
    span("r", "execute_tool", 2_000, { "gen_ai.tool.call.id": "c-5" }),
    span("below", "invoke_agent", 4_000),
  ];
  await go("#/runs/crew/r");
  for (const [name, value] of [["Tokens", "31"], ["Cost", "$0.31"]]) {
    await page.waitForSelector(`.facts-line div:has(dt:text-is('${name}')) dd:text-is('${value}')`);
  }
  await page.click(".crumbs a:has-text('run above')");
  await page.waitForURL(/#\/runs\/crew\/above$/);
  [world.events, world.spans] = [[], []];
}

// Of what is not known there is nothing to show, and nothing to wait for.
async function what_is_not_known_is_not_waited_for({ page, go, world, tab }) {
  world.unknown = /none/;
  const looked = World.look(page, "/v1/teams/crew/runs/none");
  await go("#/runs/crew/none");
  await looked;
  await page.waitForSelector(".pulse:not(:has(.dot))", { state: "attached" });
  holds(await page.locator(".run-columns:visible").count() === 0, "no empty panels are shown");
  for (const [hash, text, title] of [["#/sessions/crew/none", "This session cannot be shown", "Session none"], ["#/teams/none", "No such team", "Teams"], ["#/nowhere", "There is no such page", "No such page"]]) {
    await page.goto("about:blank");
    await page.goto(`${tab.base}/${hash}`);
    await page.waitForSelector(`main[aria-busy=false] .empty:has-text('${text}')`);
    holds(await page.locator("main form:visible").count() === 0, `${hash}: nothing can be sent`);
    holds(await page.title() === `${title} · Callboard`, `${hash}: ${await page.title()}`);
  }
  world.unknown = undefined;
}

// Lists that are cut say so.
async function long_lists_say_so({ page, go, world }) {
  for (const [hash, text] of [["#/sessions", "the 200 that were active last are shown"], ["#/memory", "at most 200 are shown"]]) {
    for (const many of [199, 200]) {
      world.many = many;
      await go(hash);
      await page.waitForSelector("main[aria-busy=false]");
      holds((await page.textContent("main")).includes(text) === (many === 200), `${hash}: ${many}`);
    }
  }
  world.many = 1;
}

// Long names are not wider than the boxes that they stand in, and break no values beside them in two.
async function long_names_find_their_place({ page, go, world }) {
  await go("#/teams");
  await page.waitForSelector(".box.tool");
  const wide = await page.evaluate(() => [...document.querySelectorAll(".box")].filter((box) => {
    const frame = box.querySelector("rect").getBoundingClientRect();
    return [...box.querySelectorAll("text")].some((text) => text.getBoundingClientRect().right > frame.right);
  }).map((box) => box.textContent));
  holds(wide.length === 0, `wider than their boxes: ${wide}`);
  world.runs = ["one"];
  world.more = { agent: TOOL.name, input: "W".repeat(200), status: "completed", ended: 62_000_000, usage: { ...usage_of(1), cost_nano_usd: 50_000 } };
  await go("#/runs");
  await page.waitForSelector("tr[data-run=one]");
  const broken = await page.evaluate(() => [...document.querySelectorAll(".runs :is([data-label=Age], [data-label=Took], [data-label=Cost])")].filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
  }).map((cell) => cell.textContent));
  holds(broken.length === 0, `broken in two: ${broken}`);
  [world.runs, world.more] = [[], {}];
}

// What is under the hand on the page of a run stays while the page looks anew.
async function looks_at_a_run_disturb_nobody({ page, go, world }) {
  const list = [["r", "run_accepted", { input: "go" }], ["r", "call_started", { call: "below", tool: "helper", arguments: {}, is_agent: true }],
    ["below", "run_accepted", { input: "help" }], ["below", "call_started", { call: "c-2", tool: "ask_user", arguments: {}, is_agent: false }]];
  world.events = events_of(list);
  world.calls = [open_call({ call: "c-2", run: "below" })];
  world.spans = [span("r", "chat", 1, { "callboard.turn": 0 })];
  await go("#/runs/crew/r");
  await page.click(".bar-row:has-text('chat')");
  await page.click(".inspector summary:text-is('Attributes')");
  for (const selector of [".facts-line a", ".waits button", ".call-card textarea"]) {
    await page.focus(selector);
    await World.look(page, "/v1/teams/crew/runs/r");
    holds(await page.evaluate((where) => document.activeElement.matches(where), selector), `the focus stays on ${selector}`);
  }
  holds(await page.locator(".inspector details[open]:has(summary:text-is('Attributes'))").count() === 1, "what is unfolded stays so");
  await page.keyboard.type("re");
  world.events = events_of([...list, ["r", "call_progress", { call: "below", text: "half of it" }]]);
  await page.waitForSelector(".item.call:has-text('half of it')");
  await page.keyboard.type("d");
  holds(await page.inputValue(".call-card textarea") === "red", "one goes on typing while the call above is drawn anew");
  [world.events, world.calls, world.spans] = [[], [], []];
}

// Lists and buttons that are under the hand stay while the page looks anew.
async function looks_disturb_nobody({ page, go, world }) {
  world.runs = ["one"];
  await go("#/runs");
  await page.waitForSelector("tr[data-run=one]");
  await page.evaluate(() => { window.__list = document.querySelector("#filter-state"); });
  world.runs = ["one", "two"];
  await page.waitForSelector("tr[data-run=two]");
  world.refuses = /cancel$/;
  await page.click("tr[data-run=two] >> text='Cancel'");
  await page.waitForSelector(".toast.bad:has-text('cannot be reached')");
  world.refuses = undefined;
  holds(await page.evaluate(() => window.__list.isConnected), "filters are drawn anew only if they change");
  await page.selectOption("#filter-state", "failed");
  await page.waitForSelector(".empty:has-text('No run fits')");
  holds(!await page.evaluate(() => window.__list.isConnected), "and are if they do");

  await go("#/usage");
  await page.focus(".switch >> text='30 days'");
  world.rows = [{ day: 0, agent: "clerk", model: "thirty", turns: 1, usage: { ...usage_of(30), cost_nano_usd: 30 } }];
  await page.waitForSelector("tr:has-text('thirty') td:text-is('<$0.000001')");
  holds(await page.evaluate(() => document.activeElement.textContent) === "30 days", "the focus stays");
  world.rows = [];
}

export async function seldom({ tab }) {
  const one = await tab();
  const { page } = one;
  one.expected = /status of 40[149]|net::ERR_/;
  const world = new World();
  await world.serve(page);
  const go = async (hash) => {
    await page.goto("about:blank");
    await page.goto(`${one.base}/${hash}`);
    await page.waitForSelector("main h1");
  };
  const all = [
    one_message_is_one_run,
    forms_are_filled_in,
    cards_ask_what_is_asked,
    all_ends_with_the_root,
    pages_come_back,
    late_answers_are_dropped,
    what_waits_is_known,
    what_is_used_is_counted_once,
    what_is_not_known_is_not_waited_for,
    long_lists_say_so,
    long_names_find_their_place,
    looks_at_a_run_disturb_nobody,
    looks_disturb_nobody,
  ];
  for (const each of all) {
    try {
      await each({ page, go, world, tab: one });
    } catch (error) {
      throw new Error(`${each.name}: ${error.message}`, { cause: error });
    }
    await one.check(each.name);
  }
  return { requests: one.requests };
}
