// Bars by day, stacked by what they are made of. A table beside says the same.

import { h, s } from "./dom.js";

const WIDTH = 900;
const HEIGHT = 240;
const LEFT = 56;
const BOTTOM = 26;
const TOP = 12;

// Colours that are told apart; what comes after them shares the last.
export const SERIES_MAX = 7;

// Returns a round number not below another.
export function round_up(number) {
  if (number <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= number);
}

// Draws days, each `{ label, parts: [{ name, value }] }`, with the parts in the order of `names`.
export function bars(days, names, { title, text }) {
  const total = (day) => day.parts.reduce((sum, part) => sum + part.value, 0);
  const top = round_up(Math.max(...days.map(total), 0));
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const pace = (WIDTH - LEFT - 8) / days.length;
  const wide = Math.min(pace * 0.7, 56);
  const lines = [0, 0.5, 1].map((part) => s("g", { class: "grid" },
    s("line", { x1: LEFT, x2: WIDTH - 8, y1: y(top * part), y2: y(top * part) }),
    s("text", { x: LEFT - 8, y: y(top * part) + 4, "text-anchor": "end" }, part ? text(top * part) : "0")));
  const every = Math.ceil(days.length / 10);
  const columns = days.map((day, at) => {
    const x = LEFT + pace * at + (pace - wide) / 2;
    let below = 0;
    const parts = names.map((name, series) => {
      const value = day.parts.filter((part) => part.name === name).reduce((sum, part) => sum + part.value, 0);
      if (!value) return null;
      const bar = s("rect", { x, width: wide, y: y(below + value), height: Math.max(0.75, y(below) - y(below + value)), class: `series s${Math.min(series, SERIES_MAX - 1)}` },
        s("title", {}, `${day.label}, ${name}: ${text(value)}`));
      below += value;
      return bar;
    });
    const label = (days.length - 1 - at) % every === 0 ? s("text", { x: Math.min(x + wide / 2, WIDTH - 18), y: HEIGHT - 8, "text-anchor": "middle" }, day.label.slice(5)) : null;
    return s("g", {}, parts, label);
  });
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}; the table says the same` }, lines, columns);
  const legend = names.map((name, series) => h("li", {}, h("span", { class: `swatch s${Math.min(series, SERIES_MAX - 1)}`, "aria-hidden": "true" }), name));
  return h("figure", { class: "chart" }, h("div", { class: "chart-scroll", tabindex: "0", role: "group", "aria-label": title }, drawing), h("figcaption", {}, h("ul", { class: "legend" }, legend)));
}
