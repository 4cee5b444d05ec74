//! What is measured: the shape of the runs, how many at once, and how slow the model is.

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// What each run does.
    pub(crate) shape: Shape,
    /// Calls of one run, one after another.
    pub(crate) calls: usize,
    /// Sessions at once.
    pub(crate) sessions: usize,
    /// Runs of each session that count; one more comes before and does not.
    pub(crate) runs: usize,
    /// Milliseconds that the model takes.
    pub(crate) delay_ms: u64,
    /// Bytes of text beside each call.
    pub(crate) pad: usize,
    /// Whether replies are streamed.
    pub(crate) stream: bool,
    /// Whether runs have traces.
    pub(crate) traces: bool,
    /// The model server.
    pub(crate) url: String,
    /// The NATS server; empty for the bus inside the process.
    pub(crate) nats: String,
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Calls one after another, then the answer.
    Chain,
    /// An agent that asks another, which makes the calls.
    Delegate,
    /// All calls in one turn.
    Parallel,
}

impl Shape {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Delegate => "delegate",
            Self::Parallel => "parallel",
        }
    }

    fn from_word(word: &str) -> Self {
        [Self::Chain, Self::Delegate, Self::Parallel]
            .into_iter()
            .find(|shape| shape.word() == word)
            .expect("a shape")
    }
}

impl Work {
    /// Model turns of one run.
    pub(crate) const fn steps(&self) -> usize {
        match self.shape {
            Shape::Chain => self.calls + 1,
            Shape::Delegate => self.calls + 3,
            Shape::Parallel => 2,
        }
    }

    /// What the user says; the model server answers by it.
    pub(crate) fn request(&self, conversation: &str) -> String {
        let Self { shape, calls, pad, delay_ms, .. } = self;
        format!("{} {calls} pad {pad} delay {delay_ms} conversation {conversation}", shape.word())
    }

    pub(crate) fn title(&self) -> String {
        let Self { shape, calls, sessions, delay_ms, pad, stream, .. } = self;
        let delay = if *delay_ms > 0 { format!(", model {delay_ms} ms") } else { String::new() };
        let pad = if *pad > 0 { format!(", {pad} B a turn") } else { String::new() };
        let stream = if *stream { ", streamed" } else { "" };
        format!("{} {calls}, {sessions} at once{delay}{pad}{stream}", shape.word())
    }

    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![
            self.shape.word().to_owned(),
            self.calls.to_string(),
            self.sessions.to_string(),
            self.runs.to_string(),
            self.delay_ms.to_string(),
            self.pad.to_string(),
            self.stream.to_string(),
            self.traces.to_string(),
            self.url.clone(),
            self.nats.clone(),
        ]
    }

    pub(crate) fn from_args(args: &[&str]) -> Self {
        let [shape, calls, sessions, runs, delay_ms, pad, stream, traces, url, nats] = args else {
            panic!("ten words describe the work, not {}", args.len());
        };
        Self {
            shape: Shape::from_word(shape),
            calls: calls.parse().expect("a number of calls"),
            sessions: sessions.parse().expect("a number of sessions"),
            runs: runs.parse().expect("a number of runs"),
            delay_ms: delay_ms.parse().expect("milliseconds"),
            pad: pad.parse().expect("bytes"),
            stream: *stream == "true",
            traces: *traces == "true",
            url: (*url).to_owned(),
            nats: (*nats).to_owned(),
        }
    }
}

/// Returns the rows of the table.
pub(crate) fn rows() -> Vec<Work> {
    let chain = Work {
        shape: Shape::Chain,
        calls: 10,
        sessions: 1,
        runs: 400,
        delay_ms: 0,
        pad: 0,
        stream: false,
        traces: true,
        url: String::new(),
        nats: String::new(),
    };
    vec![
        chain.clone(),
        Work { sessions: 32, runs: 20, ..chain.clone() },
        Work { sessions: 256, runs: 4, ..chain.clone() },
        Work { stream: true, ..chain.clone() },
        Work { shape: Shape::Delegate, calls: 3, ..chain.clone() },
        Work { shape: Shape::Parallel, calls: 8, runs: 400, ..chain.clone() },
        Work { pad: 1024, runs: 100, ..chain.clone() },
        Work { pad: 1024, calls: 200, runs: 5, ..chain.clone() },
        Work { delay_ms: 200, runs: 2, ..chain.clone() },
        Work { delay_ms: 200, sessions: 256, runs: 2, ..chain },
    ]
}
