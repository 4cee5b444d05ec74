// Follows what happens, by one event stream at a time, and only while the page is seen.

// The least pause between two looks at the same list, and the longest without one.
const LOOK_PAUSE_MS = 1_000;
const LOOK_AGAIN_MS = 15_000;

const state = { listeners: new Set() };

// Tells whether events come: "live", "waiting" or "off".
export function on_pulse(listener) {
  state.listeners.add(listener);
}

function pulse(word) {
  state.listeners.forEach((listener) => listener(word));
}

// Opens a stream while the page is seen; returns what ends it.
function stream(address, on_message, on_open) {
  let source;
  let over = false;
  const close = () => {
    source?.close();
    source = undefined;
  };
  const open = () => {
    if (over || source || document.hidden) return;
    source = new EventSource(address());
    source.onopen = () => {
      pulse("live");
      on_open?.();
    };
    source.onmessage = (message) => on_message(JSON.parse(message.data), message.data);
    source.onerror = () => pulse(source?.readyState === EventSource.CLOSED ? "off" : "waiting");
  };
  const seen = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", seen);
  open();
  return () => {
    over = true;
    close();
    pulse("off");
    document.removeEventListener("visibilitychange", seen);
  };
}

// Looks at a list whenever something happened, not too often, and now and then in any case.
export function watch(look) {
  let timer;
  let last = 0;
  let under_way = false;
  let again = false;
  const run = async () => {
    timer = undefined;
    if (under_way) {
      again = true;
      return;
    }
    under_way = true;
    last = Date.now();
    try {
      await look();
    } finally {
      under_way = false;
    }
    if (again) {
      again = false;
      soon();
    }
  };
  const soon = () => {
    if (timer !== undefined || document.hidden) return;
    timer = setTimeout(run, Math.max(0, last + LOOK_PAUSE_MS - Date.now()));
  };
  const idle = setInterval(() => {
    if (!document.hidden && Date.now() - last >= LOOK_AGAIN_MS) soon();
  }, LOOK_AGAIN_MS);
  const end = stream(() => "/v1/events", soon, soon);
  return () => {
    end();
    clearInterval(idle);
    clearTimeout(timer);
  };
}

// Follows one run and those below it. What was told before comes again when the stream is made anew,
// so the listener is told to begin anew.
export function follow(address, on_event, on_begin) {
  return stream(() => address, on_event, on_begin);
}
