// Reads JSON without losing how it was written: numbers keep their digits, keys their order.

function end_of_text(text, at) {
  for (at += 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  throw new SyntaxError("the text does not end");
}

function skip(text, at) {
  while (at < text.length && " \n\r\t".includes(text[at])) at += 1;
  return at;
}

// Returns where the value that begins here ends.
function end_of_value(text, at) {
  if (text[at] === '"') return end_of_text(text, at);
  let depth = 0;
  for (; at < text.length; at += 1) {
    const mark = text[at];
    if (mark === '"') at = end_of_text(text, at) - 1;
    else if (mark === "{" || mark === "[") depth += 1;
    else if (mark === "}" || mark === "]") {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (mark === "," || " \n\r\t".includes(mark))) return at;
  }
  return at;
}

// Returns the values of an object as they are written, by key.
export function members(text) {
  const found = new Map();
  let at = skip(text, skip(text, 0) + 1);
  while (text[at] === '"') {
    const end = end_of_text(text, at);
    const key = JSON.parse(text.slice(at, end));
    const from = skip(text, skip(text, end) + 1);
    const to = end_of_value(text, from);
    found.set(key, text.slice(from, to));
    at = skip(text, to);
    if (text[at] === ",") at = skip(text, at + 1);
  }
  return found;
}

// Returns the items of an array as they are written.
export function items(text) {
  const found = [];
  let at = skip(text, skip(text, 0) + 1);
  while (at < text.length && text[at] !== "]") {
    const to = end_of_value(text, at);
    found.push(text.slice(at, to));
    at = skip(text, to);
    if (text[at] === ",") at = skip(text, at + 1);
  }
  return found;
}

// Indents what is written, and changes nothing else.
export function indent(text) {
  let out = "";
  let depth = 0;
  const fresh = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text[at];
    if (mark === '"') {
      const end = end_of_text(text, at);
      out += text.slice(at, end);
      at = end - 1;
    } else if (mark === "{" || mark === "[") {
      const next = skip(text, at + 1);
      const closes = mark === "{" ? "}" : "]";
      if (text[next] === closes) {
        out += mark + closes;
        at = next;
      } else {
        depth += 1;
        out += mark + fresh();
      }
    } else if (mark === "}" || mark === "]") {
      depth -= 1;
      out += fresh() + mark;
    } else if (mark === ",") out += `,${fresh()}`;
    else if (mark === ":") out += ": ";
    else if (!" \n\r\t".includes(mark)) out += mark;
  }
  return out;
}

// Shows a value that was parsed, or a text that may be JSON.
export function shown(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  const text = value.trim();
  if (!/^[[{]/.test(text)) return value;
  try {
    JSON.parse(text);
    return indent(text);
  } catch {
    return value;
  }
}
