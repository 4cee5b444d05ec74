// Draws who calls whom in a team: agents from left to right by how far they are from the entry,
// tools behind them.

import { foreign, h, s } from "./dom.js";

const WIDTH = 178;
const HEIGHT = 50;
const COLUMN = 258;
const ROW = 66;
const MARGIN = 14;

// The most characters of a label that fit into a box.
const LABEL_MAX = 22;

function cut(text, most = LABEL_MAX) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Returns how far each agent is from the entry; those that nobody calls begin anew.
function distances(team) {
  const agents = new Map(team.agents.map((agent) => [agent.name, agent]));
  const far = new Map();
  const walk = (begin) => {
    let front = [begin];
    far.set(begin, 0);
    while (front.length) {
      const next = [];
      for (const name of front) {
        for (const called of agents.get(name).calls) {
          if (agents.has(called) && !far.has(called)) {
            far.set(called, far.get(name) + 1);
            next.push(called);
          }
        }
      }
      front = next;
    }
  };
  if (agents.has(team.entry)) walk(team.entry);
  for (const name of agents.keys()) if (!far.has(name)) walk(name);
  return far;
}

function models_of(agent) {
  const first = agent.thinker ?? agent.planner;
  return first && first !== agent.actor ? `${first} → ${agent.actor}` : agent.actor;
}

// Lays the boxes out in columns, those of a column near to who calls them.
export function layout(team) {
  const far = distances(team);
  const columns = [];
  const put = (column, box) => {
    columns[column] ??= [];
    columns[column].push(box);
  };
  for (const agent of team.agents) {
    put(far.get(agent.name), { name: agent.name, kind: agent.name === team.entry ? "agent entry" : "agent", label: agent.name, note: models_of(agent), calls: agent.calls });
  }
  const called = new Set(team.agents.flatMap((agent) => agent.calls));
  const last = columns.length;
  for (const tool of team.tools) {
    if (called.has(tool.name)) put(last, { name: tool.name, kind: `tool ${tool.effect}`, label: tool.name, note: tool.effect, calls: [] });
  }
  const places = new Map();
  columns.forEach((column, at) => {
    if (at > 0) {
      const callers = (box) => columns.slice(0, at).flat().filter((other) => other.calls.includes(box.name)).map((other) => places.get(other.name).y);
      const middle = (box) => {
        const rows = callers(box);
        return rows.length ? rows.reduce((sum, y) => sum + y, 0) / rows.length : 0;
      };
      column.forEach((box) => { box.middle = middle(box); });
      column.sort((one, other) => one.middle - other.middle);
    }
    column.forEach((box, row) => places.set(box.name, { ...box, x: MARGIN + at * COLUMN, y: MARGIN + row * ROW, column: at }));
  });
  const tallest = Math.max(...columns.map((column) => column.length));
  // Shorter columns stand in the middle.
  columns.forEach((column) => {
    const shift = ((tallest - column.length) * ROW) / 2;
    column.forEach((box) => { places.get(box.name).y += shift; });
  });
  return { places, width: MARGIN * 2 + (columns.length - 1) * COLUMN + WIDTH, height: MARGIN * 2 + (tallest - 1) * ROW + HEIGHT };
}

function edge(from, to) {
  const [y1, y2] = [from.y + HEIGHT / 2, to.y + HEIGHT / 2];
  if (to.column > from.column) {
    const [x1, x2] = [from.x + WIDTH, to.x - 5];
    const bend = Math.min(80, (x2 - x1) / 2 + (to.column - from.column - 1) * 40);
    return `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  // Back to the same column or an earlier one, below the boxes between.
  const [x1, x2] = [from.x + WIDTH / 2, to.x + WIDTH / 2];
  const low = Math.max(from.y, to.y) + HEIGHT + 12;
  if (from === to) return `M${x1 - 20} ${from.y + HEIGHT} C${x1 - 20} ${low + 8} ${x1 + 20} ${low + 8} ${x1 + 20} ${from.y + HEIGHT + 4}`;
  return `M${x1} ${from.y + HEIGHT} C${x1} ${low} ${x2} ${low} ${x2} ${to.y + HEIGHT + 4}`;
}

export function graph(team, id) {
  const { places, width, height } = layout(team);
  const arrow = `arrow-${id}`;
  const edges = [];
  for (const box of places.values()) {
    for (const name of box.calls) {
      const to = places.get(name);
      if (to) edges.push(s("path", { d: edge(box, to), class: `edge ${to.kind.split(" ")[0]}`, "marker-end": `url(#${arrow})` }));
    }
  }
  const boxes = [...places.values()].map((box) => s("g", { class: `box ${box.kind}`, transform: `translate(${box.x} ${box.y})` },
    s("title", {}, `${box.label}: ${box.note}`),
    s("rect", { width: WIDTH, height: HEIGHT, rx: box.kind.startsWith("agent") ? 10 : 3 }),
    s("text", { x: 14, y: 21, class: "box-label" }, foreign_text(cut(box.label))),
    s("text", { x: 14, y: 38, class: "box-note" }, foreign_text(cut(box.note, 27)))));
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height + 10}`, width, height: height + 10, role: "img", "aria-label": `Who calls whom in ${team.name}; the tables say the same` },
    s("defs", {}, s("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { d: "M0 0 8 4 0 8z", class: "arrow" }))),
    edges, boxes);
  return h("div", { class: "graph", tabindex: "0", role: "group", "aria-label": "Graph" }, drawing);
}

// Names have no marks to hide; should one have any, its code is shown as text.
function foreign_text(text) {
  return foreign(text).map((part) => (part instanceof Node ? part.textContent : part)).join("");
}
