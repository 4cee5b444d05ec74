// Makes the story of a run, and of those below it, out of its events.

// A story of one run.
function begin(event) {
  return { run: event.run, session: event.session, agent: event.agent, depth: event.depth, at: event.at, items: [], turns: 0 };
}

// Compares two positions in a journal, `<slot>.<n>`.
function is_after(one, other) {
  const [slot, number] = one.split(".").map(Number);
  const [last_slot, last_number] = other.split(".").map(Number);
  return slot > last_slot || (slot === last_slot && number > last_number);
}

export class Story {
  // Tells the story of a run by its id.
  constructor(root) {
    this.root_id = root;
    this.runs = new Map();
    this.calls = new Map();
    this.told = new Map();
  }

  get root() {
    return this.runs.get(this.root_id);
  }

  // Takes an event, and returns the items that it changed. What was told before changes nothing.
  take(event) {
    if (event.id !== undefined) {
      const last = this.told.get(event.session);
      if (last !== undefined && !is_after(event.id, last)) return [];
      this.told.set(event.session, event.id);
    }
    let run = this.runs.get(event.run);
    if (!run) {
      run = begin(event);
      this.runs.set(event.run, run);
    }
    const change = this[event.event];
    const changed = change ? [change.call(this, run, event)].flat().filter(Boolean) : [];
    return this.root?.status ? [...changed, ...this.settle(event.at)] : changed;
  }

  add(run, item, event) {
    const whole = { run: run.run, at: event.at, ...item };
    whole.key ??= `note:${run.run}:${run.items.length}`;
    run.items.push(whole);
    return whole;
  }

  // Returns the turn that a model is at.
  turn(run, step, role) {
    const turn = run.turn;
    return turn && turn.step === step && (role === undefined || turn.role === role) ? turn : undefined;
  }

  run_accepted(run, event) {
    run.input = event.input;
    run.status = undefined;
    return this.add(run, { kind: "input", key: `run:${run.run}`, text: event.input }, event);
  }

  run_joined(run, event) {
    return this.add(run, { kind: "note", text: `This message joins the run ${event.joined}, which is in work.`, to: event.joined }, event);
  }

  run_resumed(run, event) {
    const turn = run.turn;
    if (turn && !turn.done) turn.text = "";
    return [turn, this.add(run, { kind: "note", text: "Taken up again after a restart." }, event)];
  }

  steered(run, event) {
    return this.add(run, { kind: "input", text: event.input, joined: event.by }, event);
  }

  model_asked(run, event) {
    const number = run.turns;
    run.turns += 1;
    const ended = run.turn;
    if (ended) ended.busy = false;
    run.turn = this.add(run, {
      kind: "turn", key: `turn:${run.run}:${number}`, step: event.step, role: event.role, model: event.model, text: "", busy: true,
    }, event);
    return [ended, run.turn];
  }

  delta(run, event) {
    const turn = this.turn(run, event.step, event.role);
    if (!turn || turn.done) return undefined;
    turn.text += event.text;
    turn.streams = true;
    return turn;
  }

  model_retried(run, event) {
    const turn = this.turn(run, event.step, event.role);
    if (!turn || turn.done) return undefined;
    turn.text = "";
    turn.failed = `${event.model} failed (${event.error.message}) and is asked again`;
    return turn;
  }

  model_switched(run, event) {
    const turn = this.turn(run, event.step, event.role);
    if (!turn) return undefined;
    turn.text = "";
    turn.failed = `${event.from} failed (${event.error.message}), ${event.to} is asked instead`;
    return turn;
  }

  thought(run, event) {
    const turn = this.turn(run, event.step);
    if (!turn) return this.add(run, { kind: "turn", step: event.step, role: "thinker", text: event.text, done: true }, event);
    Object.assign(turn, { text: event.text, done: true, busy: false, streams: false, thought: true });
    return turn;
  }

  planned(run, event) {
    const turn = this.turn(run, event.step);
    if (!turn) return undefined;
    Object.assign(turn, { planned: { tool: event.tool, task: event.task, thoughts: event.thoughts }, text: "", done: true, busy: false });
    return turn;
  }

  feedback_given(run, event) {
    const turn = run.turn;
    if (!turn) return undefined;
    Object.assign(turn, { feedback: event.feedback, done: true, busy: false });
    return turn;
  }

  call_started(run, event) {
    const turn = run.turn;
    if (turn) Object.assign(turn, { done: true, busy: false, text: turn.thought ? turn.text : "" });
    const call = this.add(run, {
      kind: "call", key: `call:${event.call}`, call: event.call, tool: event.tool, arguments: event.arguments, is_agent: event.is_agent,
      busy: true,
    }, event);
    this.calls.set(event.call, call);
    return [turn, call];
  }

  call_suspended(run, event) {
    return this.change_call(event, { waits: { question: event.question, kind: event.kind, question_id: event.question_id } });
  }

  call_repeated(run, event) {
    return this.change_call(event, { waits: undefined, busy: true, attempt: event.attempt, reason: event.reason });
  }

  question_ended(run, event) {
    return this.change_call(event, { waits: undefined, busy: true });
  }

  call_progress(run, event) {
    const { done, total, text } = event;
    const share = total ? `${Math.round((done / total) * 100)} %` : String(done ?? "");
    return this.change_call(event, { progress: [share, text].filter(Boolean).join(" ") });
  }

  call_resolved(run, event) {
    return this.change_call(event, { waits: undefined, resolved: event.done });
  }

  call_ended(run, event) {
    const { status, output, duration_us } = event;
    return this.change_call(event, { busy: false, waits: undefined, status, output, duration_us, ended_at: event.at });
  }

  change_call(event, change) {
    const call = this.calls.get(event.call);
    return call && Object.assign(call, change);
  }

  run_ended(run, event) {
    const turn = run.turn;
    if (turn) Object.assign(turn, { done: true, busy: false, text: turn.thought ? turn.text : "" });
    Object.assign(run, { status: event.status, usage: event.usage, ended_at: event.at });
    const { status, output, usage, error } = event;
    return [turn, this.add(run, { kind: "end", key: `end:${run.run}`, status, output, usage, error }, event)];
  }

  // Ends what is in work below a root that is over: its end may come later, and is then not told.
  settle(at) {
    const settled = [];
    for (const run of this.runs.values()) {
      if (!run.status) Object.assign(run, { status: "ended", ended_at: at });
      for (const item of run.items.filter((each) => each.busy || each.waits)) {
        settled.push(Object.assign(item, { busy: false, waits: undefined, done: true, status: item.status ?? "ended" }));
      }
    }
    return settled;
  }
}
