// Signs in with the token, and out again.

import { holds } from "./hold.mjs";

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
  return { requests: one.requests };
}
