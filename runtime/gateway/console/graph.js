// Draws who calls whom in a team: agents from left to right by how far they are from the entry,
// tools behind them.

import { foreign, h, s } from "./dom.js";

const WIDTH = 178;
const HEIGHT = 50;
const COLUMN = 258;
const GAP = 16;
const MARGIN = 14;

// The most characters of a label, and of the note below it, that fit into a box.
const LABEL_MAX = 17;
const NOTE_MAX = 22;

function cut(text, most) {
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

// Makes the boxes of a team by their columns, and what leads from one to another.
function columns_of(team) {
  const far = distances(team);
  const columns = [];
  const put = (at, box) => {
    columns[at] ??= [];
    columns[at].push({ ...box, column: at, from: [], height: HEIGHT });
  };
  for (const agent of team.agents) {
    const kind = agent.name === team.entry ? "agent entry" : "agent";
    put(far.get(agent.name), { name: agent.name, kind, note: models_of(agent), calls: agent.calls });
  }
  const called = new Set(team.agents.flatMap((agent) => agent.calls));
  const last = columns.length;
  for (const tool of team.tools) {
    if (called.has(tool.name)) put(last, { name: tool.name, kind: `tool ${tool.effect}`, note: tool.effect, calls: [] });
  }
  return columns;
}

// Finds the way of each call; one over several columns gets a place of its own in those between, so
// that no line runs behind a box.
function ways(columns) {
  const boxes = new Map(columns.flat().map((box) => [box.name, box]));
  const found = [];
  for (const box of boxes.values()) {
    for (const to of box.calls.map((name) => boxes.get(name)).filter(Boolean)) {
      const stops = [box];
      for (let at = box.column + 1; at < to.column; at += 1) {
        const stop = { column: at, from: [stops.at(-1)], height: 6 };
        columns[at].push(stop);
        stops.push(stop);
      }
      if (to.column > box.column) to.from.push(stops.at(-1));
      found.push([...stops, to]);
    }
  }
  return found;
}

// Lays the boxes out in columns, those of a column near to who calls them.
export function layout(team) {
  const columns = columns_of(team);
  const edges = ways(columns);
  const tall = (column) => column.reduce((sum, box) => sum + box.height + GAP, -GAP);
  const tallest = Math.max(...columns.map(tall));
  columns.forEach((column, at) => {
    const middle = (box) => (box.from.length ? box.from.reduce((sum, other) => sum + other.y + other.height / 2, 0) / box.from.length : 0);
    column.forEach((box) => { box.middle = middle(box); });
    if (at > 0) column.sort((one, other) => one.middle - other.middle);
    // Shorter columns stand in the middle.
    let y = MARGIN + (tallest - tall(column)) / 2;
    for (const box of column) {
      Object.assign(box, { x: MARGIN + at * COLUMN, y });
      y += box.height + GAP;
    }
  });
  const boxes = columns.flat().filter((box) => box.name);
  return { boxes, edges, width: MARGIN * 2 + (columns.length - 1) * COLUMN + WIDTH, height: MARGIN * 2 + tallest };
}

function curve(way) {
  const [from, to] = [way[0], way.at(-1)];
  if (to.column <= from.column) return back(from, to);
  let [x, y] = [from.x + WIDTH, from.y + from.height / 2];
  let line = `M${x} ${y}`;
  for (const stop of way.slice(1)) {
    const [next_x, next_y] = [stop === to ? stop.x - 5 : stop.x, stop.y + stop.height / 2];
    const bend = (next_x - x) / 2;
    line += ` C${x + bend} ${y} ${next_x - bend} ${next_y} ${next_x} ${next_y}`;
    [x, y] = [next_x, next_y];
    if (stop !== to) {
      x += WIDTH;
      line += ` H${x}`;
    }
  }
  return line;
}

// Leads back to the same column or an earlier one, below the boxes.
function back(from, to) {
  const low = Math.max(from.y, to.y) + HEIGHT + GAP - 2;
  const [x1, x2] = from === to ? [from.x + WIDTH / 2 - 20, from.x + WIDTH / 2 + 20] : [from.x + WIDTH / 2, to.x + WIDTH / 2];
  return `M${x1} ${from.y + HEIGHT} C${x1} ${low} ${x2} ${low} ${x2} ${to.y + HEIGHT + 4}`;
}

export function graph(team, id) {
  const { boxes, edges, width, height } = layout(team);
  const arrow = `arrow-${id}`;
  const lines = edges.map((way) => s("path", { d: curve(way), class: `edge ${way.at(-1).kind.split(" ")[0]}`, "marker-end": `url(#${arrow})` }));
  const shapes = boxes.map((box) => s("g", { class: `box ${box.kind}`, transform: `translate(${box.x} ${box.y})` },
    s("title", {}, `${box.name}: ${box.note}`),
    s("rect", { width: WIDTH, height: HEIGHT, rx: box.kind.startsWith("agent") ? 10 : 3 }),
    s("text", { x: 14, y: 21, class: "box-label" }, foreign_text(cut(box.name, LABEL_MAX))),
    s("text", { x: 14, y: 38, class: "box-note" }, foreign_text(cut(box.note, NOTE_MAX)))));
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height + 10}`, width, height: height + 10, role: "img", "aria-label": `Who calls whom in ${team.name}; the tables say the same` },
    s("defs", {}, s("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { d: "M0 0 8 4 0 8z", class: "arrow" }))),
    lines, shapes);
  return h("div", { class: "graph", tabindex: "0", role: "group", "aria-label": "Graph" }, drawing);
}

// Names have no marks to hide; should one have any, its code is shown as text.
function foreign_text(text) {
  return foreign(text).map((part) => (part instanceof Node ? part.textContent : part)).join("");
}
