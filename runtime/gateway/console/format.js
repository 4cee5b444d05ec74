// Puts numbers and times into words.

export function count(number) {
  return number === undefined || number === null ? "–" : Number(number).toLocaleString("en");
}

// A number in few characters, for places that are narrow.
export function short(number) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= size) return `${(number / size).toFixed(number >= size * 100 ? 0 : 1).replace(/\.0$/, "")}${unit}`;
  }
  return String(Math.round(number));
}

export function tokens(usage) {
  return usage ? count(usage.input_tokens + usage.output_tokens) : "–";
}

export function money(nano) {
  if (!nano) return "–";
  // Of less, not even the first digit is worth a line.
  if (nano < 1e3) return "<$0.000001";
  const dollars = nano / 1e9;
  return `$${dollars >= 0.01 ? dollars.toFixed(2) : dollars.toPrecision(2)}`;
}

export function cost(usage) {
  return money(usage?.cost_nano_usd ?? 0);
}

// A span of time in microseconds.
export function duration(us) {
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 1 : 0)} ms`;
  if (us < 60e6) return `${(us / 1e6).toFixed(1)} s`;
  const seconds = Math.floor(us / 1e6);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

// How long ago a time was, in one unit.
export function age(at, now = Date.now() * 1e3) {
  const seconds = Math.max(0, Math.floor((now - at) / 1e6));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

const pad = (number) => String(number).padStart(2, "0");

export function when(at) {
  const time = new Date(at / 1e3);
  const day = `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
  return `${day} ${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
}

export function day(at) {
  return new Date(at / 1e3).toISOString().slice(0, 10);
}

// The class by which a state is coloured.
export function tone(state) {
  const tones = {
    completed: "ok", ok: "ok", running: "busy", queued: "busy", waiting: "wait", approval: "wait", question: "wait",
    failed: "bad", error: "bad", refused: "bad", unknown: "odd", partial: "odd", budget: "odd", deadline: "odd", cancelled: "off",
  };
  return tones[state] ?? "off";
}
