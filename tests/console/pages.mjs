// Goes through all pages as a person does: looks, starts a run, follows it, and settles what waits.

import { holds } from "./hold.mjs";

const QUESTION = "Who is Leonardo DiCaprio's girlfriend and what is her age raised to the 0.24 power?";
const ANSWER = "2.16524";

async function ask(tab, agent, message) {
  const { page } = tab;
  await tab.go("#/runs?new");
  await page.selectOption("#new-agent", agent);
  await page.fill("#new-input", message);
  await page.click(".new-run button[type=submit]");
  await page.waitForURL(/#\/runs\/[^/]+\/[^?]+$/);
  await page.waitForSelector(".item.input");
}

// The messages and bars of a run, and of those below it, lead to each other.
async function follow(tab) {
  const { page } = tab;
  await ask(tab, "quickstart/lead", QUESTION);
  await page.waitForSelector(`.item.end:has-text("${ANSWER}") .badge.ok`);
  await page.waitForFunction(() => document.querySelectorAll(".bar-row").length === 21 && !document.querySelector(".bar-fill.busy"));
  holds(await page.locator(".below .item.end").count() === 2, "the runs of both called agents are inside");
  holds(await page.locator(".item.turn.thinker .prose").count() > 4, "thoughts are shown");
  await page.click(".bar-row:has-text('calculate')");
  await page.waitForSelector(".item.call.selected:has-text('25^0.24')");
  holds(await page.locator(".inspector:has-text('execute_tool calculate')").count() === 1, "the span is shown");
  for (const [name, text] of [["arguments", "25^0.24"], ["result", "2.165237809112449"]]) {
    holds(await page.locator(`.inspector [data-content="gen_ai.tool.call.${name}"]:has-text("${text}")`).count() === 1, `its ${name} are shown`);
  }
  await page.click(".bar-row:has-text('invoke_agent') >> nth=0");
  holds(await page.locator(".inspector [data-content='gen_ai.system_instructions']:has-text('You lead a small team')").count() === 1, "instructions are shown");
  await page.click(".bar-row:has-text('chat') >> nth=0");
  holds(await page.locator(".inspector [data-content='gen_ai.input.messages']:has-text('DiCaprio')").count() === 1, "prompts are shown");
  await page.click(".item.end:last-child > .item-head >> nth=-1");
  await page.waitForSelector(".bar-row[aria-pressed=true], .item.selected");
  await page.click(".item.turn.thinker >> nth=0 >> .item-head");
  await page.waitForSelector(".bar-row[aria-pressed=true]:has-text('thinker')");
  return page.url();
}

async function settle(tab) {
  const { page } = tab;
  await ask(tab, "crew/clerk", "pay the bill");
  await page.waitForSelector(".call-card.approval");
  const shown = await page.locator(".call-card .exact pre").textContent();
  holds(shown.includes("18446744073709551615") && shown.includes("ACME <b>Ltd</b>"), `all digits, and markup as text: ${shown}`);
  await tab.picture("run-waiting");
  await page.click(".call-card >> text='Approve exactly this'");
  await page.waitForSelector(".item.end:has-text('It is settled.') .badge.ok");
  holds(await page.locator(".call-card").count() === 0, "an approved call is not open");

  await ask(tab, "crew/clerk", "pay the bill");
  await tab.go("#/approvals");
  await page.fill(".call-card.approval textarea", "too expensive");
  await page.click(".call-card.approval >> text='Deny'");
  await page.waitForSelector(".call-card.approval", { state: "detached" });

  await ask(tab, "crew/clerk", "which colour");
  await page.fill(".item .call-card.question textarea", "blue");
  await page.click(".item .call-card.question >> text='Answer'");
  await page.waitForSelector(".item.end:has-text('Blue it is.')");

  await ask(tab, "crew/clerk", "post the letter");
  await tab.go("#/approvals");
  await page.waitForSelector(".call-card.unknown");
  await tab.picture("approvals-unknown");
  await page.fill(".call-card.unknown textarea", "{\"id\":7}");
  await page.click(".call-card.unknown >> text='It took effect'");
  await page.waitForSelector(".empty:has-text('Nothing waits for you')");

  await ask(tab, "crew/clerk", "slow one");
  await page.waitForSelector(".item.turn .spin");
  await page.waitForSelector(".bar-fill.actor.busy");
  // Nothing is counted until the first turn is over.
  await page.waitForSelector(".facts-line div:has(dt:text-is('Tokens')) dd:text-is('0')");
  await page.click("text='Cancel the run'");
  await page.waitForSelector(".item.end:has(.who:text-is('End')) .badge.off:has-text('cancelled')");

  await ask(tab, "crew/clerk", "remember the door");
  await page.waitForSelector(".item.end .badge.ok");
  await page.click(".facts-line a");
  await page.fill("#go-on", "delegate the price");
  await page.click("main >> text='Send'");
  await page.waitForURL(/#\/runs\//);
  await page.waitForSelector(".item.end:has-text('Tea costs') .badge.ok >> nth=-1");
}

// What a list shows changes while one looks at it, without anything that is done to it.
async function lists(tab, api) {
  const { page } = tab;
  await tab.go("#/runs?team=crew");
  await page.waitForSelector(".pulse .dot.live");
  const { run } = await api("/v1/teams/crew/agents/clerk/runs?wait=false", { input: "which colour, once more" });
  await page.waitForSelector(`tr[data-run="${run}"][data-state=waiting]`);
  await page.waitForSelector(".nav .count:has-text('1')");
  await page.click(`tr[data-run="${run}"] >> text='Cancel'`);
  await page.waitForSelector(`tr[data-run="${run}"][data-state=cancelled]`);
  await page.fill("#filter-text", "once more");
  await page.waitForFunction(() => document.querySelectorAll("tr[data-run]").length === 1);
  await page.fill("#filter-text", "no run has this");
  await page.click(".empty:has-text('No run fits') >> text='Show all runs'");
  await page.waitForFunction(() => document.querySelectorAll("tr[data-run]").length > 1);
  await tab.go("#/runs?state=failed&team=quickstart");
  await page.waitForSelector(".empty");
  await tab.go("#/memory");
  await page.waitForSelector(".fact:has-text('The door is blue.')");
  await page.fill("#memory-query", "purple");
  await page.waitForSelector(".empty:has-text('No fact')");
  await tab.go("#/usage");
  await page.waitForSelector(".chart rect.series");
  await page.waitForSelector("th:text-is('crew / main')");
  for (const [button, seen] of [["Cost", "svg[aria-label^='Cost by day'] text:text-is('0')"], ["Agents", "table"], ["7 days", "svg"]]) {
    await page.click(`.switch >> text="${button}"`);
    await page.waitForSelector(`.switch button[aria-pressed=true]:has-text("${button}")`);
    holds(await page.locator(seen).count() > 0, `usage shows ${seen}`);
  }
}

// All that a mouse reaches is reached by keys.
async function keys(tab) {
  const { page } = tab;
  await tab.go("#/teams");
  await tab.go("#/teams");
  await page.keyboard.press("Tab");
  holds(await page.evaluate(() => document.activeElement.id) === "skip", "the first stop leads to the content");
  await page.keyboard.press("Enter");
  holds(await page.evaluate(() => document.activeElement.id) === "main", "and the next is the content");
  for (const [key, hash] of [["r", "#/runs"], ["a", "#/approvals"], ["s", "#/sessions"], ["m", "#/memory"], ["u", "#/usage"], ["t", "#/teams"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.waitForFunction((wanted) => location.hash === wanted, hash);
  }
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open] kbd");
  await tab.picture("keys");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("n");
  await page.waitForSelector("#new-input:focus");
  await page.keyboard.press("Escape");
  await tab.go("#/runs");
  await page.waitForSelector("tr[data-run]");
  await page.keyboard.press("/");
  holds(await page.evaluate(() => document.activeElement.id) === "filter-text", "/ leads to the filter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const second = await page.evaluate(() => [...document.querySelectorAll("tr[data-run]")].findIndex((row) => row.contains(document.activeElement)));
  holds(second === 1, `j and j lead to the second run, not to ${second}`);
  holds(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle) !== "none", "the focus is seen");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/runs\/[^/]+\/./);
  await page.goBack();
  await page.waitForSelector("tr[data-run]");
  const { width, height } = page.viewportSize();
  await page.setViewportSize({ width, height: 320 });
  for (const key of "jjjjjjjjkkkkkk") await page.keyboard.press(key);
  const hidden = await page.evaluate(() => document.querySelector(".bar").getBoundingClientRect().bottom - document.activeElement.getBoundingClientRect().top);
  holds(hidden <= 0, `the focus is ${hidden} px below the bar of the pages`);
  await page.setViewportSize({ width, height });

  for (const hash of ["#/teams", "#/runs", "#/approvals", "#/usage"]) {
    await tab.go(hash);
    const stops = await page.evaluate(() => {
      const all = [...document.querySelectorAll("a, button, input, select, textarea, summary, [tabindex='0']")];
      return all.filter((node) => node.checkVisibility({ visibilityProperty: true }) && !node.disabled).length;
    });
    await page.evaluate(() => {
      document.activeElement.blur();
      window.__stops = new Set();
      document.addEventListener("focusin", (event) => window.__stops.add(event.target));
    });
    for (let at = 0; at < stops + 3; at += 1) await page.keyboard.press("Tab");
    const reached = await page.evaluate(() => window.__stops.size);
    holds(reached >= stops, `${hash}: Tab reaches ${reached} of ${stops}`);
  }
}

// Tells what of a page cannot be seen though it is meant to: its name in the bar of the pages, what was
// used on the last day, and the bar that was chosen.
function unseen() {
  const is_inside = ({ left, right, top, bottom }) => left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight;
  const chosen = [...document.querySelectorAll(".nav [aria-current], .bar-row[aria-pressed=true]")].filter((node) => !is_inside(node.getBoundingClientRect()));
  const days = [...document.querySelectorAll("rect.series")].filter((node) => node.getBoundingClientRect().right > innerWidth);
  return [...chosen, ...days].map((node) => node.outerHTML.slice(0, 200));
}

export async function pages({ tab, api, settings, views }) {
  const first = await tab();
  const { page } = first;
  for (const [hash, text] of [["#/approvals", "Nothing waits for you"], ["#/runs", "No run yet"], ["#/sessions", "No session yet"], ["#/memory", "Nothing is remembered yet"], ["#/usage", "Nothing was used"], ["#/nowhere", "There is no such page"], ["#/runs/crew/none", "cannot be shown"]]) {
    await page.goto(`${first.base}/${hash}`);
    await page.waitForSelector(`.empty:has-text("${text}")`);
    await first.check(hash);
  }
  const run = await follow(first);
  await settle(first);
  await lists(first, api);
  await keys(first);
  await first.check("after all was done");
  await page.close();

  const names = { teams: "#/teams", runs: "#/runs", "new-run": "#/runs?new", run: run.slice(run.indexOf("#")), sessions: "#/sessions", memory: "#/memory", usage: "#/usage", approvals: "#/approvals" };
  const { run: waiting } = await api("/v1/teams/crew/agents/clerk/runs?wait=false", { input: "pay the bill" });
  await api("/v1/teams/crew/agents/clerk/runs?wait=false", { input: "which colour" });
  await api("/v1/teams/crew/agents/clerk/runs", { input: "W".repeat(200) });
  Object.assign(names, { "run-open": `#/runs/crew/${waiting}`, session: `#/sessions/crew/${waiting}` });
  let requests = 0;
  for (const view of views) {
    const one = await tab(view);
    for (const [name, hash] of Object.entries(names)) {
      await one.go(hash);
      if (name === "approvals" || name === "run-open") await one.page.waitForSelector(".call-card");
      if (name === "run") await one.page.waitForFunction(() => document.querySelectorAll(".bar-row").length === 21);
      if (name === "run") await one.page.click(".bar-row:has-text('calculate')");
      await one.page.waitForSelector(".nav .count:has-text('2')");
      const lost = await one.page.evaluate(unseen);
      holds(lost.length === 0, `${name} ${view}: not seen: ${lost}`);
      await one.picture(`${name}-${view}`);
      await one.check(`${name} ${view}`);
      await one.audit(`${name} ${view}`);
      const moves = view === "phone" ? await one.page.evaluate(() => document.getAnimations().length) : 0;
      holds(moves === 0, `${name}: something moves though less motion is asked for`);
    }
    requests += one.requests;
    await one.page.close();
  }
  return { pages: Object.keys(names).length, views: views.length, requests, pictures: settings.pictures };
}
