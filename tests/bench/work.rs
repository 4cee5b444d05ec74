//! What is measured: the shape of the runs, how many at once, and how slow the model is.

/// Words of the text that is streamed, however many pieces it comes in.
pub(crate) const WORDS: usize = 2000;

/// What the parties do for one row of a table.
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
    /// Whether the node asks its own models and tools past the server.
    pub(crate) near: bool,
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
    /// No call, and an answer of [`WORDS`] words that is streamed in so many pieces as there are
    /// calls elsewhere, with the delay between them.
    Tokens,
    /// No call, and an answer of so many bytes as there are calls elsewhere.
    Large,
    /// One call, whose result has so many bytes as there are calls elsewhere.
    Result,
}

impl Shape {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Delegate => "delegate",
            Self::Parallel => "parallel",
            Self::Tokens => "tokens",
            Self::Large => "large",
            Self::Result => "result",
        }
    }

    fn from_word(word: &str) -> Self {
        use Shape::{Chain, Delegate, Large, Parallel, Result, Tokens};
        [Chain, Delegate, Parallel, Tokens, Large, Result]
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
            Shape::Parallel | Shape::Result => 2,
            Shape::Tokens | Shape::Large => 1,
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
            self.near.to_string(),
        ]
    }

    pub(crate) fn from_args(args: &[&str]) -> Self {
        let [shape, calls, sessions, runs, delay_ms, pad, stream, traces, url, nats, near] = args
        else {
            panic!("eleven words describe the work, not {}", args.len());
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
            near: *near == "true",
        }
    }
}

/// Returns work of the plainest kind: ten calls one after another, in one session.
pub(crate) fn chain() -> Work {
    Work {
        shape: Shape::Chain,
        calls: 10,
        sessions: 1,
        runs: 600,
        delay_ms: 0,
        pad: 0,
        stream: false,
        traces: true,
        url: String::new(),
        nats: String::new(),
        near: false,
    }
}

/// Returns the rows of the relay and of growth, by their ids.
pub(crate) fn rows() -> Vec<(&'static str, Work)> {
    let (one, few, many) = (
        chain(),
        Work { sessions: 32, runs: 36, ..chain() },
        Work { sessions: 256, runs: 6, ..chain() },
    );
    let streamed = |work: &Work| Work { stream: true, ..work.clone() };
    let slow = |work: &Work| Work { delay_ms: 200, runs: 2, ..work.clone() };
    let growth = |calls: usize, runs: usize| Work { pad: 1024, calls, runs, ..chain() };
    vec![
        ("chain-1", one.clone()),
        ("chain-32", few.clone()),
        ("chain-256", many.clone()),
        ("streamed-1", streamed(&one)),
        ("streamed-32", streamed(&few)),
        ("streamed-256", streamed(&many)),
        ("delegate-1", Work { shape: Shape::Delegate, calls: 3, ..chain() }),
        ("parallel-1", Work { shape: Shape::Parallel, calls: 8, ..chain() }),
        ("slow-1", slow(&one)),
        ("slow-32", slow(&few)),
        ("slow-256", slow(&many)),
        ("growth-10", growth(10, 300)),
        ("growth-50", growth(50, 60)),
        ("growth-100", growth(100, 30)),
        ("growth-200", growth(200, 15)),
        ("growth-400", growth(400, 6)),
    ]
}
