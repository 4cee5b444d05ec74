// Signs in with the token, and out again.

import { spawn } from "node:child_process";

import { holds } from "./hold.mjs";

// Ends the daemon as a crash would, and starts it again at the same address.
function restart({ pid, command: [program, ...args] }) {
  process.kill(pid, "SIGKILL");
  return spawn(program, args, { stdio: "ignore" });
}

// Follows a run over a restart of the daemon, which knows nobody that was signed in before.
async function over_a_restart(one, settings) {
  const { page } = one;
  await page.goto(`${one.base}/#/runs?new`);
  await page.fill("#new-input", "slow one");
  await page.click(".new-run button[type=submit]");
  await page.waitForSelector(".item.turn .spin");
  await page.waitForSelector(".pulse .dot.live");
  await one.check("a run in work");
  // What the browser says of a daemon that is away.
  one.expected = /status of 40[149]|net::ERR_/;
  const daemon = restart(settings.daemon);
  try {
    await page.waitForSelector(".sign-in input[type=password]");
    await page.fill("#token", settings.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".pulse .dot.live");
    await page.click("text='Cancel the run'");
    await page.waitForSelector(".item.end .badge.off:has-text('cancelled')");
    await one.check("after a restart");
  } finally {
    daemon.kill("SIGKILL");
  }
}

export async function signing_in({ tab, settings }) {
  const one = await tab();
  const { page } = one;
  const asked = () => page.waitForSelector(".sign-in input[type=password]");
  await page.goto(`${one.base}/#/runs`);
  await asked();
  await one.audit("sign in");
  await one.picture("sign-in");
  holds(await page.locator(".nav").isHidden(), "no pages are offered to strangers");
  await page.fill("#token", "not the token at all");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sign-in .fault:has-text('E1014')");
  await page.fill("#token", settings.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".empty:has-text('No run yet')");
  holds(page.url().endsWith("#/runs"), "the page that was asked for is shown");
  await page.waitForSelector(".pulse .dot.live");
  const kept = await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length, document.documentElement.outerHTML]);
  holds(kept[0] === "" && kept[1] === 0 && kept[2] === 0, "scripts see no cookie, and nothing is stored");
  holds(!kept[3].includes(settings.token), "the token is not in the page");
  const [cookie, ...more] = await page.context().cookies();
  holds(more.length === 0 && cookie.httpOnly && cookie.sameSite === "Strict" && !cookie.value.includes(settings.token), JSON.stringify(cookie));
  await page.reload();
  await page.waitForSelector(".empty:has-text('No run yet')");
  await page.goto(`${one.base}/#/runs?new`);
  await page.fill("#new-input", "hello");
  await page.click(".new-run button[type=submit]");
  await page.waitForSelector(".item.end .badge");
  await one.check("signed in");

  // Who is not signed out is told so.
  const { expected } = one;
  one.expected = /net::ERR_/;
  await page.route("**/v1/sign-out", (route) => route.abort());
  await page.click("text='Sign out'");
  await page.waitForSelector(".toast.bad:has-text('cannot be reached')");
  await page.unroute("**/v1/sign-out");
  one.expected = expected;
  await page.click("text='Sign out'");
  await asked();
  holds((await page.context().cookies()).length === 0, "the cookie is gone");
  const status = await page.evaluate(async () => (await fetch("/v1/teams")).status);
  holds(status === 401, `signed out, and answered with ${status}`);
  // Who is signed out by the daemon is asked again where they are.
  await page.fill("#token", settings.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".item.end");
  await page.context().clearCookies();
  // A look of the page's own may learn of it before the next click, which then has no nav to go to.
  await page.evaluate(() => {
    location.hash = "#/sessions";
  });
  await asked();
  await one.check("signed out");
  await page.fill("#token", settings.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".nav a");
  await over_a_restart(one, settings);
  return { requests: one.requests };
}
