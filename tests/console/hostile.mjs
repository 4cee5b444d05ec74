// Shows what means no good in every place that takes a text, and checks that it stays a text.

import { holds } from "./hold.mjs";

// The characters that a text may have and that are shown as they are.
const PLAIN = /^[\x20-\x7e]*$/;
// The longest text that is shown at once.
const SHOWN_MAX = 20_000;

export async function hostile({ tab, api, settings }) {
  const { strings, batch } = settings;
  const ask = (input, session) => api("/v1/teams/hostile/agents/lead/runs", { input, session });
  const later = (input) => api("/v1/teams/hostile/agents/lead/runs?wait=false", { input });

  // Prompts and answers: one session in which all of them were said.
  let session;
  const answered = [];
  for (const [at, text] of strings.entries()) {
    const reply = await ask(`say ${at}: ${text}`, session);
    // What looks like a call is read as one, found fault with, and not the answer.
    if (reply.output.trim() === text.trim()) answered.push(text.trim());
    ({ session } = reply);
  }
  holds(answered.length > strings.length - 10, `${answered.length} of ${strings.length} are answers`);
  // Arguments and results of tools, and facts, some at a time.
  const runs = [];
  for (let at = 0; at * batch < strings.length; at += 1) {
    for (const what of ["batch", "keep"]) {
      const reply = await ask(`${what} ${at}:`);
      holds(reply.status === "completed", `${what} ${at}: ${JSON.stringify(reply.error)}`);
      const failed = reply.sources.filter((source) => source.status !== "ok" && source.tool === "echo");
      holds(failed.length === 0, `${what} ${at}: ${JSON.stringify(failed)}`);
      if (what === "batch") runs.push({ at, run: reply.run });
    }
  }
  const asked = await later("ask all:");
  await later("pay all:");

  const one = await tab();
  const { page } = one;
  // Violations in the policy are faults here without exception.
  const text_of = (selector) => page.evaluate((where) => [...document.querySelectorAll(where)].map((node) => node.textContent).join("\n"), selector);
  const has_all = async (selector, list, where) => {
    const found = await text_of(selector);
    const lost = list.filter((text) => PLAIN.test(text) && text.length <= SHOWN_MAX && !found.includes(text));
    holds(lost.length === 0, `${where}: not shown as they stand: ${JSON.stringify(lost.slice(0, 5))}`);
  };

  await one.go("#/teams");
  await page.waitForSelector(".team");
  await one.check("teams");
  await one.picture("hostile-teams");

  await one.go(`#/sessions/hostile/${session}`);
  await page.waitForSelector(`.talk > li:nth-child(${strings.length * 2})`);
  await has_all(".talk .input .prose", strings, "prompts");
  await has_all(".talk .end .prose", answered, "answers");
  const turned = await page.locator(".talk .end .hidden-mark:has-text('U+202E')").count();
  holds(turned > 0, "what turns a text around is made visible");
  await one.check("session");
  await one.picture("hostile-session");

  for (const hash of ["#/runs?inside", "#/runs?text=%3Cscript%3E", "#/sessions", "#/usage"]) {
    await one.go(hash);
    await one.check(hash);
  }
  await one.go("#/runs?inside");
  while (await page.locator("main button:has-text('Show more'):visible").count() > 0) {
    const before = await page.locator("tr[data-run]").count();
    await page.click("main button:has-text('Show more')");
    await page.waitForFunction((rows) => document.querySelectorAll("tr[data-run]").length !== rows || !document.querySelector("main button.quiet:not([hidden])"), before);
  }
  await one.check("all runs");
  await one.picture("hostile-runs");

  for (const { at, run } of runs) {
    await one.go(`#/runs/hostile/${run}`);
    await page.waitForSelector(".item.end");
    const part = strings.slice(at * batch, (at + 1) * batch);
    await has_all(".item.call details:last-of-type pre", part.map((text) => text.trim()).filter((text) => !/^[[{]/.test(text)), `results of ${run}`);
    await page.waitForSelector(".bar-row[aria-label*='echo']");
    for (const bar of await page.locator(".bar-row[aria-label*='echo']").all()) await bar.click();
    await one.check(`run ${at}`);
    if (at < 2) await one.picture(`hostile-run-${at}`);
  }

  await one.go("#/memory");
  await page.waitForSelector(".fact");
  await one.check("memory");
  await one.picture("hostile-memory");

  await one.go(`#/runs/hostile/${asked.run}`);
  await page.waitForSelector(".call-card.question");
  await one.check("question in its run");
  await one.go("#/approvals");
  await page.waitForSelector(".call-card.approval");
  await page.waitForSelector(".call-card.question");
  await has_all(".call-card.question .prose", strings.filter((text) => text.length < 200), "question");
  // Keys and values stand in quotes there, with the marks of JSON.
  await has_all(".call-card.approval pre", strings.filter((text) => text.length < 200).map((text) => JSON.stringify(text)), "arguments");
  await one.check("approvals");
  await one.picture("hostile-approvals");
  await page.click(".call-card.approval >> text='Approve exactly this'");
  await page.waitForSelector(".call-card.approval", { state: "detached" });

  // Addresses that others make up lead to no page.
  for (const text of strings.filter((each) => each.length < 200 && each.isWellFormed())) {
    await page.goto(`${one.base}/#/runs/${encodeURIComponent(text)}/${encodeURIComponent(text)}?text=${encodeURIComponent(text)}`);
  }
  await page.goto(`${one.base}/#/%ff/%`);
  await page.waitForSelector(".empty");
  await one.go("#/runs");
  one.faults = one.faults.filter((fault) => !/status of 400/.test(fault));
  await one.check("made-up addresses");
  return { strings: strings.length, requests: one.requests };
}
