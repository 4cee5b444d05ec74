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

// Opens a stream while the page is seen; returns what ends it. One that is over is not asked for again
// when it ends, and one that is refused is after a look, for as long as that look says that there is
// something to come.
function stream(address, on_message, on_open, is_over, look) {
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
    source = new EventSource(address());
    source.onopen = () => {
      pulse("live");
      on_open?.();
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
  const end = stream(() => "/v1/events", soon, soon, () => false, async () => {
    soon();
    return true;
  });
  return () => {
    end();
    clearInterval(idle);
    clearTimeout(timer);
  };
}

// Follows one run and those below it. What was told before comes again when the stream is made anew,
// so the listener is told to begin anew. The look tells whether the run goes on.
export function follow(address, on_event, on_begin, is_over, look) {
  return stream(() => address, on_event, on_begin, is_over, look);
}
