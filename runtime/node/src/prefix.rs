//! Conversations that a model actor holds, so that a history travels once and not at every step.
//!
//! A conversation is named by the digest of its head and messages. The asking side keeps the
//! digest of what it sent; the model's side keeps the messages. Either may forget at any time.

mod pieces;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agents_core::dialect::{self, Prompt};
use foldhash::fast::RandomState;
use model::{Messages, Part};
use tokio::time::Instant;
use wire::chat::{Head, Mark, Marks};
use wire::{Digest, Message, ModelReply, ModelRequest, ModelRole, Name, RunId};

pub(crate) use pieces::in_pieces;

/// Bytes that one model actor holds for all conversations together, heads included.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a head or a message takes beside its text, in bytes, about.
const HELD_BYTES_EACH: usize = 128;

/// What an ordinary message takes as JSON, in bytes.
const MESSAGE_BYTES: usize = 512;

/// How long a conversation is held after its last turn was asked for, which is longer than most
/// turns and calls take. A run that waits longer sends it whole once more.
const HELD: Duration = Duration::from_mins(10);

/// How often a head or a message is held: as it is, and as it was sent.
const HELD_TIMES: usize = 2;

/// Heads that are noted before those that are gone are looked for: more than a model's agents have.
const HEADS_MIN: usize = 64;

/// Conversations for which room is kept when there are none.
const ROOM_MIN: usize = 64;

/// Returns the mark of a conversation without messages.
fn mark_of(head: &Head) -> Mark {
    let json = serde_json::to_vec(head).unwrap_or_default();
    Mark { digest: Digest::of(&json), bytes: HELD_TIMES * json.len() + HELD_BYTES_EACH }
}

/// Returns the mark of a conversation that goes on with some messages.
fn extended(mark: Mark, messages: &[Arc<Message>]) -> Mark {
    let mut json = Vec::with_capacity(MESSAGE_BYTES);
    messages.iter().fold(mark, |Mark { digest, bytes }, message| {
        json.clear();
        if serde_json::to_writer(&mut json, message).is_err() {
            json.clear();
        }
        let more = HELD_TIMES * json.len() + HELD_BYTES_EACH;
        Mark { digest: digest.then(&json), bytes: bytes + more }
    })
}

/// What one run has sent to one model in one role.
#[derive(Clone, Debug)]
struct Sent {
    run: RunId,
    /// The head with which it began, and its mark. What began with another one is another
    /// conversation, however alike its messages are.
    head: (Arc<Head>, Mark),
    mark: Mark,
    /// What begins every later prompt.
    kept: dialect::Kept,
}

/// The asking side: what was sent, by role and model.
#[derive(Debug, Default)]
pub(crate) struct SentPrefixes {
    sent: HashMap<(ModelRole, Name), Sent, RandomState>,
}

/// A prompt as it is sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The new messages only, if something was sent before; else everything.
    pub(crate) request: ModelRequest,
    /// What was sent before.
    before: Option<Before>,
}

/// What stands before a request for a model that holds it.
#[derive(Debug)]
struct Before {
    head: Arc<Head>,
    /// The messages, and how many of them.
    messages: (Arc<Vec<Arc<Message>>>, usize),
}

impl Outgoing {
    /// Returns the request for a model that holds nothing.
    pub(crate) fn whole(&self) -> ModelRequest {
        let whole = self.request.clone();
        let Some(Before { head, messages: (before, count) }) = &self.before else { return whole };
        let before = before.get(..*count).unwrap_or_default();
        ModelRequest {
            base: None,
            head: Some(head.clone()),
            messages: [before, &whole.messages].concat(),
            keep: count + whole.keep,
            ..whole
        }
    }
}

impl SentPrefixes {
    /// Forgets what was sent: no run is in work that could go on with it.
    pub(crate) fn clear(&mut self) {
        self.sent = HashMap::default();
    }

    /// Returns what begins every later prompt of a role in a run, if anything was sent.
    pub(crate) fn kept(&self, run: &RunId, place: &(ModelRole, Name)) -> Option<&dialect::Kept> {
        let sent = self.sent.get(place).filter(|sent| sent.run == *run);
        sent.map(|sent| &sent.kept)
    }

    /// Turns a prompt into a request and remembers what the model will hold afterwards. The prompt
    /// was rendered after what is [kept](Self::kept).
    pub(crate) fn outgoing(
        &mut self,
        run: &RunId,
        (role, model): (ModelRole, &Name),
        mut prompt: Prompt,
    ) -> Outgoing {
        let keep = prompt.keep.min(prompt.known + prompt.messages.len());
        self.sent.retain(|_, sent| sent.run == *run);
        let place = (role, model.clone());
        let (head, head_mark, before) = match self.sent.remove(&place) {
            Some(Sent { head: (head, head_mark), mark, kept, .. })
                if is_same(&head, &prompt.head) && kept.messages().len() <= keep =>
            {
                (head, head_mark, Some((mark, kept)))
            }
            other => {
                // Another conversation begins, which says all anew.
                if let Some(Sent { kept, .. }) = other {
                    prompt.messages = prompt.all(&kept);
                    prompt.known = 0;
                }
                (prompt.head.clone(), mark_of(&prompt.head), None)
            }
        };
        let (base, mut kept) = match before {
            Some((mark, kept)) => (Some(mark), kept),
            None => (None, dialect::Kept::default()),
        };
        let from = kept.messages().len();
        let sent_before = from.saturating_sub(prompt.known).min(prompt.messages.len());
        let new = prompt.messages.get(sent_before..).unwrap_or_default();
        let more = new.get(..keep - from).unwrap_or_default();
        let mark = extended(base.unwrap_or(head_mark), more);
        // What was kept begins this prompt as well, so that only what follows it is added.
        kept.add(&prompt);
        let before = base
            .is_some()
            .then(|| Before { head: head.clone(), messages: (kept.messages().clone(), from) });
        let request = ModelRequest {
            role,
            base: base.map(|base| base.digest),
            head: base.is_none().then(|| head.clone()),
            messages: prompt.messages.split_off(sent_before),
            keep: keep - from,
            fills: false,
            max_tokens: None,
            observed: None,
            marks: Some(Marks { head: head_mark, kept: mark }),
        };
        let sent = Sent { run: run.clone(), head: (head, head_mark), mark, kept };
        self.sent.insert(place, sent);
        Outgoing { request, before }
    }
}

fn is_same(one: &Arc<Head>, other: &Arc<Head>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// A conversation as the model's side holds it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// By what later turns name the part of it that is held.
    pub(crate) digest: Digest,
    pub(crate) head: Arc<Part<Head>>,
    pub(crate) messages: Messages,
    /// How many of the newest messages are of this turn alone.
    pub(crate) passing: usize,
}

/// Tells whether a reply is the last word of its conversation: it has no calls, and could have.
/// Should the conversation go on nevertheless, it is sent whole once more.
pub(crate) fn is_last_word(head: &Head, request: &ModelRequest, reply: &ModelReply) -> bool {
    let goes_on = request.observed.as_ref().is_some_and(|observed| observed.hidden.is_some());
    reply.calls.is_empty() && !head.tools.is_empty() && !goes_on
}

/// A conversation that is held, about how many bytes it takes, and its place in the order.
#[derive(Debug)]
struct Kept {
    held: Held,
    bytes: usize,
    at: u64,
    since: Instant,
}

/// The model's side: conversations by digest, the oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct HeldPrefixes {
    held: HashMap<Digest, Kept, RandomState>,
    /// Their digests by the order in which they came.
    order: BTreeMap<u64, Digest>,
    next: u64,
    bytes: usize,
    /// The heads of these and of the turns under way: all sessions of an agent have the same.
    heads: HashMap<Digest, Weak<Part<Head>>, RandomState>,
    /// When so many are noted, those that are gone are forgotten.
    heads_max: usize,
}

impl HeldPrefixes {
    /// Completes a request to its whole conversation; `None` if its base is not held.
    pub(crate) fn complete(&mut self, request: &ModelRequest) -> Option<Held> {
        let (mut conversation, mark) = match (&request.base, &request.head) {
            (Some(base), _) => {
                let Kept { held, bytes, .. } = self.drop(base)?;
                (held, Mark { digest: *base, bytes })
            }
            (None, head) => {
                let head = head.clone().unwrap_or_default();
                let mark = request.marks.map_or_else(|| mark_of(&head), |marks| marks.head);
                let (digest, head) = (mark.digest, self.shared(mark.digest, head));
                (Held { digest, head, messages: Messages::default(), passing: 0 }, mark)
            }
        };
        let kept = request.messages.get(..request.keep.min(request.messages.len()))?;
        conversation.messages.extend(kept.iter().cloned());
        let mark = match request.marks {
            Some(Marks { kept: known, .. }) => {
                debug_assert_eq!(known.digest, extended(mark, kept).digest);
                known
            }
            None => extended(mark, kept),
        };
        conversation.digest = mark.digest;
        self.insert(mark, conversation.clone());
        let rest = request.messages.get(kept.len()..).unwrap_or_default();
        conversation.messages.extend(rest.iter().cloned());
        conversation.passing = rest.len();
        Some(conversation)
    }

    /// Returns a head that is held already in place of one that is the same.
    fn shared(&mut self, digest: Digest, head: Arc<Head>) -> Arc<Part<Head>> {
        if let Some(known) = self.heads.get(&digest).and_then(Weak::upgrade) {
            return known;
        }
        if self.heads.len() >= self.heads_max {
            self.heads.retain(|_, head| head.strong_count() > 0);
            self.heads_max = HEADS_MIN.max(2 * self.heads.len());
        }
        let head: Arc<Part<Head>> = Arc::new(head.into());
        self.heads.insert(digest, Arc::downgrade(&head));
        head
    }

    fn insert(&mut self, Mark { digest, bytes }: Mark, held: Held) {
        let at = self.next;
        self.next += 1;
        self.drop(&digest);
        self.held.insert(digest, Kept { held, bytes, at, since: Instant::now() });
        self.bytes += bytes;
        self.order.insert(at, digest);
        while self.bytes > HELD_BYTES_MAX && self.drop_first(|_| true) {}
    }

    /// Forgets what was not gone on with for [`HELD`].
    pub(crate) fn expire(&mut self) {
        let now = Instant::now();
        while self.drop_first(|kept| now.saturating_duration_since(kept.since) >= HELD) {}
        self.give_back();
    }

    /// Gives the room back that many took once.
    fn give_back(&mut self) {
        if self.held.is_empty() && self.held.capacity() > ROOM_MIN {
            self.held = HashMap::default();
        }
    }

    /// Drops the one that came first, if it is one to be dropped. Tells whether it was.
    fn drop_first(&mut self, is_due: impl Fn(&Kept) -> bool) -> bool {
        let Some((_, &first)) = self.order.first_key_value() else { return false };
        self.held.get(&first).is_some_and(is_due) && self.drop(&first).is_some()
    }

    /// Forgets a conversation that is over.
    pub(crate) fn end(&mut self, digest: &Digest) {
        self.drop(digest);
        self.give_back();
    }

    fn drop(&mut self, digest: &Digest) -> Option<Kept> {
        let kept = self.held.remove(digest)?;
        self.bytes -= kept.bytes;
        self.order.remove(&kept.at);
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;
    use wire::chat::{Observed, TurnDetail};
    use wire::{FinishReason, SessionId, ToolCall, ToolSpec, Usage};

    use super::*;

    fn message(text: &str) -> Arc<Message> {
        Arc::new(Message::User { content: text.to_owned() })
    }

    fn prompt(texts: &[&str], keep: usize) -> Prompt {
        Prompt {
            head: Arc::default(),
            known: 0,
            messages: texts.iter().map(|text| message(text)).collect(),
            keep,
            whole: dialect::Whole::default(),
            faults: Vec::new(),
        }
    }

    /// Leaves out of a prompt what was kept of its role before.
    fn after(sent: &SentPrefixes, run: &RunId, model: &Name, prompt: Prompt) -> Prompt {
        let kept = sent.kept(run, &(ModelRole::Actor, model.clone()));
        let known = kept.map_or(0, |kept| kept.messages().len());
        Prompt { known, messages: prompt.messages[known..].to_vec(), ..prompt }
    }

    fn texts(held: &Held) -> Vec<&str> {
        held.messages.iter().map(Message::content).collect()
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn request(head: &Head) -> ModelRequest {
        ModelRequest {
            role: ModelRole::Actor,
            base: None,
            head: Some(Arc::new(head.clone())),
            messages: Vec::new(),
            keep: 0,
            fills: false,
            max_tokens: None,
            observed: None,
            marks: None,
        }
    }

    #[test]
    fn a_growing_conversation_is_sent_in_pieces() {
        let run = RunId::new("r").unwrap();
        let small = name("small");
        let actor = (ModelRole::Actor, &small);
        let mut sent = SentPrefixes::default();
        let mut held = HeldPrefixes::default();
        let first = sent.outgoing(&run, actor, prompt(&["a", "b", "ask"], 2));
        assert!(first.request.base.is_none());
        assert_eq!(texts(&held.complete(&first.request).unwrap()), ["a", "b", "ask"]);

        let second = after(&sent, &run, &small, prompt(&["a", "b", "c", "ask"], 3));
        assert_eq!((second.known, second.messages.len()), (2, 2));
        let second = sent.outgoing(&run, actor, second);
        let short = second.request;
        assert_eq!(short.messages.len(), 2);
        assert_eq!(texts(&held.complete(&short).unwrap()), ["a", "b", "c", "ask"]);

        let third = sent.outgoing(&run, actor, prompt(&["a", "b", "c", "d", "ask"], 4));
        let mut forgetful = HeldPrefixes::default();
        assert!(forgetful.complete(&third.request).is_none());
        assert_eq!(
            texts(&forgetful.complete(&third.whole()).unwrap()),
            ["a", "b", "c", "d", "ask"]
        );
    }

    #[test]
    fn what_a_model_is_sent_is_what_was_meant_however_head_and_model_change() {
        let run = RunId::new("r").unwrap();
        let mut sent = SentPrefixes::default();
        let mut models: HashMap<&str, HeldPrefixes> = HashMap::new();
        // The model, the head, the messages, how many are kept, and whether only the new ones go.
        let turns: [(&str, &str, &[&str], usize, bool); 9] = [
            ("small", "search", &["find it"], 0, false),
            ("small", "search", &["find it", "again"], 0, true),
            ("small", "calculate", &["compute it"], 0, false),
            ("math", "calculate", &["compute it"], 0, false),
            ("small", "calculate", &["compute more"], 0, true),
            ("small", "search", &["find more"], 0, false),
            ("math", "calculate", &["compute more"], 0, true),
            ("small", "search", &["system", "find more"], 1, true),
            ("small", "calculate", &["system", "compute"], 1, false),
        ];
        for (index, (model, tool, messages, keep, is_short)) in turns.into_iter().enumerate() {
            let head = Head { stop: vec![tool.to_owned()], ..Head::default() };
            let prompt = Prompt { head: Arc::new(head.clone()), ..prompt(messages, keep) };
            let model_name = name(model);
            let prompt = after(&sent, &run, &model_name, prompt);
            let outgoing = sent.outgoing(&run, (ModelRole::Actor, &model_name), prompt);
            assert_eq!(outgoing.request.base.is_some(), is_short, "turn {index}");
            let whole = outgoing.whole();
            for (held, request) in [
                (models.entry(model).or_default(), outgoing.request),
                (&mut HeldPrefixes::default(), whole),
            ] {
                let whole = held.complete(&request).unwrap();
                let found = (&**whole.head, texts(&whole));
                assert_eq!(found, (&head, messages.to_vec()), "turn {index}");
            }
        }
    }

    #[test]
    fn heads_count_as_well() {
        let mut held = HeldPrefixes::default();
        for n in 0..9 {
            let stop = vec![n.to_string(), "x".repeat(8 << 20)];
            held.complete(&request(&Head { stop, ..Head::default() })).unwrap();
        }
        assert_eq!(held.held.len(), 3, "heads of a little more than 8 MiB, held twice");
        assert_eq!(held.held.len(), held.order.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_goes_on_with_is_forgotten() {
        let run = RunId::new("r").unwrap();
        let small = name("small");
        let mut held = HeldPrefixes::default();
        let begin = |text: &str, held: &mut HeldPrefixes| {
            let mut sent = SentPrefixes::default();
            let place = (ModelRole::Actor, &small);
            held.complete(&sent.outgoing(&run, place, prompt(&[text], 1)).request).unwrap();
            sent.outgoing(&run, place, prompt(&[text, "more"], 2)).request
        };
        let first = begin("a", &mut held);
        advance(HELD / 2).await;
        let second = begin("b", &mut held);
        assert!(held.complete(&first).is_some());
        advance(HELD / 2).await;
        let third = begin("c", &mut held);
        held.expire();
        assert_eq!(held.held.len(), 3, "each was gone on with since");
        advance(HELD / 2).await;
        held.expire();
        assert!(held.complete(&second).is_none());
        assert!(held.complete(&third).is_some());
        advance(HELD).await;
        held.expire();
        assert_eq!((held.held.len(), held.order.len(), held.bytes), (0, 0, 0));
    }

    #[test]
    fn the_last_word_is_a_reply_that_could_have_calls_and_has_none() {
        let tool = |name: &str| ToolSpec {
            name: Name::new(name).unwrap(),
            description: String::new(),
            parameters: json!({}),
        };
        let call = || ToolCall { id: String::new(), name: "f".into(), arguments: "{}".into() };
        let observed = |hidden: Option<&str>| Observed {
            session: SessionId::new("s").unwrap(),
            run: RunId::new("r").unwrap(),
            agent: name("lead"),
            depth: 0,
            step: 1,
            hidden: hidden.map(str::to_owned),
        };
        for (tools, calls, hidden, is_last) in [
            (vec![tool("f")], vec![], None, true),
            (vec![tool("f")], vec![call()], None, false),
            (vec![tool("f")], vec![], Some("CONTINUE"), false),
            (vec![], vec![], None, false),
        ] {
            let head = Head { tools, ..Head::default() };
            let request = ModelRequest { observed: Some(observed(hidden)), ..request(&head) };
            let reply = ModelReply {
                content: "done".into(),
                calls,
                reasoning: None,
                finish: FinishReason::Stop,
                usage: Usage::default(),
                provider: "scripted".to_owned(),
                model: "m".to_owned(),
                attempts: 1,
                served_by: None,
                detail: TurnDetail::default(),
            };
            assert_eq!(is_last_word(&head, &request, &reply), is_last, "{head:?} {reply:?}");
        }
    }

    #[test]
    fn what_is_over_is_held_no_more() {
        let mut held = HeldPrefixes::default();
        let first = held.complete(&request(&Head::default())).unwrap();
        let other = Head { stop: vec!["x".to_owned()], ..Head::default() };
        let second = held.complete(&request(&other)).unwrap();
        held.end(&first.digest);
        held.end(&first.digest);
        assert_eq!(held.held.len(), 1);
        held.end(&second.digest);
        assert_eq!((held.held.len(), held.order.len(), held.bytes), (0, 0, 0));
    }

    #[test]
    fn what_was_kept_is_added_to_and_not_copied_once_its_turn_is_over() {
        let (run, small) = (RunId::new("r").unwrap(), name("small"));
        let mut sent = SentPrefixes::default();
        let mut ask = |texts: &[&str]| {
            let prompt = after(&sent, &run, &small, prompt(texts, texts.len()));
            let outgoing = sent.outgoing(&run, (ModelRole::Actor, &small), prompt);
            let kept = sent.kept(&run, &(ModelRole::Actor, small.clone())).unwrap();
            (outgoing, Arc::as_ptr(kept.messages()))
        };
        let (first, begun) = ask(&["a"]);
        drop(first);
        let (second, added) = ask(&["a", "b"]);
        assert_eq!(begun, added);
        let (third, apart) = ask(&["a", "b", "c"]);
        assert_ne!(added, apart, "the second may still have to tell all again");
        let texts = |outgoing: &Outgoing| outgoing.whole().messages.len();
        assert_eq!((texts(&second), texts(&third)), (2, 3));
    }

    #[test]
    fn roles_and_runs_do_not_mix() {
        let mut sent = SentPrefixes::default();
        let (small, run) = (name("small"), RunId::new("r").unwrap());
        sent.outgoing(&run, (ModelRole::Actor, &small), prompt(&["a", "ask"], 1));
        let thinker = (ModelRole::Thinker, &small);
        assert!(sent.outgoing(&run, thinker, prompt(&["a", "ask"], 1)).request.base.is_none());
        let other_run = RunId::new("q").unwrap();
        let next = sent.outgoing(&other_run, thinker, prompt(&["a", "ask"], 1));
        assert!(next.request.base.is_none());
        assert_eq!(sent.sent.len(), 1, "what an earlier run sent is of no use any more");
    }
}
