// Drives the console in a browser through one scenario: node drive.mjs SCENARIO SETTINGS, where the
// settings are JSON. What does not hold ends it with a message.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { holds } from "./hold.mjs";
import { hostile } from "./hostile.mjs";
import { pages } from "./pages.mjs";
import { seldom } from "./seldom.mjs";
import { signing_in } from "./signing_in.mjs";

const [, , scenario, text] = process.argv;
const settings = JSON.parse(text);
const load = createRequire(`${settings.packages}/`);
const { chromium } = load("playwright-core");
const checker = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

const VIEWS = {
  light: { viewport: { width: 1280, height: 860 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 }, colorScheme: "light", hasTouch: true, reducedMotion: "reduce" },
};

// A page in the browser with all that it must not do.
class Tab {
  constructor(page, base) {
    this.page = page;
    this.base = base;
    this.faults = [];
    this.requests = 0;
    // What the browser itself says of answers that a scenario asks for.
    this.expected = /status of 40[149]|status of 429/;
  }

  async watch() {
    const { page } = this;
    page.on("dialog", (dialog) => {
      this.faults.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("popup", () => this.faults.push("a window was opened"));
    page.on("download", () => this.faults.push("something was downloaded"));
    page.on("pageerror", (error) => this.faults.push(`an error: ${error.stack}`));
    page.on("console", (message) => {
      const is_bad = ["error", "warning"].includes(message.type()) && !this.expected.test(message.text());
      if (is_bad) this.faults.push(`the browser says: ${message.text()}`);
    });
    page.on("request", (request) => {
      this.requests += 1;
      if (new URL(request.url()).origin !== this.base) this.faults.push(`a request to ${request.url()}`);
    });
    page.on("websocket", (socket) => this.faults.push(`a socket to ${socket.url()}`));
    await page.addInitScript(() => {
      window.__violations = [];
      document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
  }

  // Goes to a page and waits until it is drawn.
  async go(hash) {
    const { page } = this;
    const at = `${this.base}/${hash}`;
    if (page.url() === at) await page.reload();
    else await page.goto(at);
    await page.waitForSelector("main[aria-busy=false]");
    await page.waitForSelector("main h1, main .empty");
  }

  // Checks that nothing ran, and that nothing but the console's own elements is in the page.
  async check(where) {
    const found = await this.page.evaluate(() => ({
      hit: window.__hit, polluted: {}.polluted, violations: window.__violations,
      foreign: [...document.querySelectorAll("main script, main style, main link, main iframe, main object, main embed, main img, main video, main audio, main base, main meta, body > :not(header):not(main):not(.skip):not(.toasts):not(noscript):not(dialog)")].map((node) => node.outerHTML.slice(0, 200)),
      links: [...document.querySelectorAll("a")].map((link) => link.getAttribute("href")).filter((href) => href !== "#main" && !href.startsWith("#/")),
      handlers: [...document.querySelectorAll("main *")].filter((node) => [...node.attributes].some((attribute) => attribute.name.startsWith("on"))).length,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    }));
    holds(found.hit === undefined && found.polluted === undefined, `${where}: a script ran`);
    holds(found.violations.length === 0, `${where}: the policy was broken: ${found.violations}`);
    holds(found.foreign.length === 0, `${where}: foreign elements: ${found.foreign}`);
    holds(found.links.length === 0, `${where}: links lead elsewhere: ${found.links}`);
    holds(found.handlers === 0, `${where}: attributes that run something`);
    holds(found.wide <= 0, `${where}: it is ${found.wide} px wider than the screen`);
    holds(this.faults.length === 0, `${where}: ${this.faults.join("\n")}`);
  }

  // Has the page checked by the rules of WCAG 2 that a program can check.
  async audit(where) {
    await this.page.evaluate(checker);
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"], resultTypes: ["violations"] }));
    const told = violations.map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.html} ${node.any.map((check) => check.message)}`).join(" | ")}`);
    holds(told.length === 0, `${where}: ${told.join("\n")}`);
  }

  async picture(name) {
    await this.page.screenshot({ path: `${settings.pictures}/${name}.png`, fullPage: false });
  }
}

const env = { ...process.env, LD_LIBRARY_PATH: settings.libraries, XDG_DATA_HOME: settings.data_home };
const browser = await chromium.launch({ executablePath: settings.browser, env, args: ["--no-sandbox", "--disable-gpu"] });

async function tab(view = "light") {
  const context = await browser.newContext(VIEWS[view]);
  context.setDefaultTimeout(settings.patience_ms);
  const one = new Tab(await context.newPage(), settings.base);
  await one.watch();
  return one;
}

// Asks the daemon as a program does.
async function api(path, body) {
  const headers = settings.token ? { authorization: `Bearer ${settings.token}` } : {};
  const answer = await fetch(`${settings.base}${path}`, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  holds(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

try {
  const figures = await { pages, hostile, seldom, signing_in }[scenario]({ tab, api, settings, views: Object.keys(VIEWS) });
  console.log(JSON.stringify(figures ?? {}));
  await browser.close();
} catch (error) {
  console.error(error.stack ?? error);
  process.exit(1);
}
