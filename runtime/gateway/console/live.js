// Follows what happens, by one event stream at a time, and only while the page is seen.

// The least pause between two looks at the same list, and the longest without one.
const LOOK_PAUSE_MS = 1_000;
const LOOK_AGAIN_MS = 15_000;
// How long until a stream is asked for again that was refused.
const COME_AGAIN_MS = 5_000;

const state = { listeners: new Set() };

// Tells whether events come: "live", "waiting", "refused", or "off" where there are none to come.
export function on_pulse(listener) {
  state.listeners.add(listener);
}

function pulse(word) {
  state.listeners.forEach((listener) => listener(word));
}

// Returns what looks, one look at a time, so that no late answer is drawn over a newer one. A look that
// is asked for during another one comes after it; what one waits for is over when none is left.
export function in_turn(look) {
  let under_way;
  let again = false;
  const all = async () => {
    try {
      while (again) {
        again = false;
        await look();
      }
    } finally {
      under_way = undefined;
    }
  };
  return () => {
    again = true;
    under_way ??= all();
    return under_way;
  };
}

// Opens a stream while the page is seen; returns what ends it. A stream whose run is over is closed
// when it ends; one that was refused is opened again after a look, if that look says that more may
// come.
export function stream(address, { on_message, on_open, is_over = () => false, look }) {
  let source;
  let timer;
  let over = false;
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  const open = () => {
    if (over || source || document.hidden) return;
    clearTimeout(timer);
    source = new EventSource(address);
    source.onopen = () => {
      pulse("live");
      on_open();
    };
    source.onmessage = (message) => on_message(JSON.parse(message.data), message.data);
    source.onerror = () => {
      if (is_over()) {
        end();
        return;
      }
      // A browser comes again by itself after a lost connection, and not after an answer of another kind.
      if (source?.readyState === EventSource.CLOSED) refused();
      else pulse("waiting");
    };
  };
  const refused = async () => {
    close();
    pulse("refused");
    // An event stream does not say why; a look does, and leads to where one signs in.
    const goes_on = await look();
    if (over || source) return;
    if (goes_on) timer = setTimeout(open, COME_AGAIN_MS);
    else pulse("off");
  };
  const seen = () => (document.hidden ? close() : open());
  const end = () => {
    over = true;
    close();
    pulse("off");
    document.removeEventListener("visibilitychange", seen);
  };
  document.addEventListener("visibilitychange", seen);
  open();
  return end;
}

// Looks at a list whenever something happened, not too often, and now and then in any case.
export function watch(look) {
  let timer;
  let last = 0;
  const look_in_turn = in_turn(() => {
    last = Date.now();
    return look();
  });
  const soon = () => {
    if (timer !== undefined || document.hidden) return;
    timer = setTimeout(() => {
      timer = undefined;
      look_in_turn();
    }, Math.max(0, last + LOOK_PAUSE_MS - Date.now()));
  };
  const idle = setInterval(() => {
    if (!document.hidden && Date.now() - last >= LOOK_AGAIN_MS) soon();
  }, LOOK_AGAIN_MS);
  const end = stream("/v1/events", {
    on_message: soon,
    on_open: soon,
    async look() {
      soon();
      return true;
    },
  });
  return () => {
    end();
    clearInterval(idle);
    clearTimeout(timer);
  };
}
