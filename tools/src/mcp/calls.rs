//! The calls of a connection: whose a question is that does not say so, and what servers say of
//! calls under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tracing::debug;
use wire::RunId;
use wire::question::Progress;

use crate::interim::Interim;

/// How long a question waits until it is certain which run it belongs to, where calls of several
/// runs are under way at one server. Common calls are over by then, and a person is asked who knows
/// what it is about; else nobody is.
const DOUBT_MAX: Duration = Duration::from_secs(10);

/// How long a call that nobody waits for any more may still ask something. A server is told that it is
/// over, and need neither stop nor say that it did; few go on for longer than a person has by
/// default to answer a question. A program is heard to answer such a call; over HTTP the library
/// says nothing of it, so that the call counts for all of this time.
const GIVEN_UP_TIME: Duration = Duration::from_secs(300);

/// Such calls that are remembered. So many are those of several runs, so that nobody is asked,
/// whichever of them are left out.
const GIVEN_UP_MAX: usize = 256;

/// Questions of a server that wait at once: more than the calls of one run have, of which a person
/// is asked one after the other. Whatever a server sends, so few are kept.
pub(super) const QUESTIONS_MAX: usize = 32;

/// Letters of what a server says of its progress.
const PROGRESS_CHARS_MAX: usize = 200;

/// The calls that a server works on at the other end of a connection, as far as that is known.
#[derive(Debug)]
pub(super) struct Calls {
    inner: Mutex<Inner>,
    /// A call ended.
    ended: Notify,
    /// The places of questions that wait.
    questions: Semaphore,
}

impl Default for Calls {
    fn default() -> Self {
        let questions = Semaphore::new(QUESTIONS_MAX);
        Self { inner: Mutex::default(), ended: Notify::new(), questions }
    }
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    calls: BTreeMap<u64, UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    run: RunId,
    waits: Waits,
    /// Its request, once it is sent.
    request: Option<RequestId>,
    /// By which the server names the call when it tells of its progress.
    token: Option<ProgressToken>,
}

/// Who waits for a call.
#[derive(Debug)]
enum Waits {
    /// Whoever made it.
    Caller(Interim),
    /// Nobody any more; it counts until some time all the same.
    Nobody(Instant),
}

impl UnderWay {
    fn caller(&self) -> Option<&Interim> {
        match &self.waits {
            Waits::Caller(interim) => Some(interim),
            Waits::Nobody(_) => None,
        }
    }
}

/// Whose a question is that does not say.
enum Whose {
    /// That of a call, or of another one of its run.
    Of(Interim),
    /// The calls that could have asked are over.
    Nobodys,
    /// It may be that of several runs.
    Unclear,
}

/// A call that somebody waits for until this is dropped.
pub(super) struct Begun {
    calls: Arc<Calls>,
    number: u64,
}

impl Calls {
    /// Notes that a call begins.
    pub(super) fn begin(self: &Arc<Self>, run: &RunId, interim: &Interim) -> Begun {
        let mut inner = self.lock();
        inner.next += 1;
        let number = inner.next;
        let (run, waits) = (run.clone(), Waits::Caller(interim.clone()));
        let call = UnderWay { run, waits, request: None, token: None };
        inner.calls.insert(number, call);
        drop(inner);
        Begun { calls: self.clone(), number }
    }

    /// Tells whether any call is waited for.
    pub(super) fn are_under_way(&self) -> bool {
        !self.under_way().is_empty()
    }

    /// Returns the numbers of the calls that are waited for.
    pub(super) fn under_way(&self) -> BTreeSet<u64> {
        let inner = self.lock();
        let waited_for = inner.calls.iter().filter(|(_, call)| call.caller().is_some());
        waited_for.map(|(number, _)| *number).collect()
    }

    /// Notes that the server answered a request: a call that nobody waits for is over by that.
    pub(super) fn answered(&self, request: &RequestId) {
        let is_it = |call: &UnderWay| call.request.as_ref() == Some(request);
        self.lock().calls.retain(|_, call| call.caller().is_some() || !is_it(call));
        self.ended.notify_waiters();
    }

    /// Takes a place for a question, if not too many wait already.
    pub(super) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.questions.try_acquire().ok()
    }

    /// Finds whom a question that comes now is for. A run has one person, so which of its calls
    /// asks does not matter; to ask the person of another run would tell strangers things.
    pub(super) async fn asking(&self) -> Option<Interim> {
        let among: BTreeSet<u64> = self.lock().calls.keys().copied().collect();
        let known = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                let whose = self.lock().one_of(&among);
                match whose {
                    Whose::Of(interim) => return Some(interim),
                    Whose::Nobodys => return None,
                    Whose::Unclear => ended.await,
                }
            }
        };
        timeout(DOUBT_MAX, known).await.unwrap_or_default()
    }

    /// Takes what a server says of the progress of a call.
    pub(super) fn progress(&self, told: ProgressNotificationParam) {
        let inner = self.lock();
        let mut calls = inner.calls.values();
        let call = calls.find(|call| call.token.as_ref() == Some(&told.progress_token));
        let Some(interim) = call.and_then(UnderWay::caller) else {
            debug!("progress of a call that nobody waits for");
            return;
        };
        let is_number = |number: &f64| number.is_finite();
        let text = told.message.map(|text| text.chars().take(PROGRESS_CHARS_MAX).collect());
        if is_number(&told.progress) {
            let (done, total) = (told.progress, told.total.filter(is_number));
            interim.progress(Progress { done, total, text });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Says which call of some asks: it must be one of a run if all that are left belong to it.
    fn one_of(&mut self, among: &BTreeSet<u64>) -> Whose {
        self.forget(Instant::now());
        let left = self.calls.iter().filter(|(number, _)| among.contains(number));
        let left: Vec<&UnderWay> = left.map(|(_, call)| call).collect();
        if left.windows(2).any(|pair| matches!(pair, [one, other] if one.run != other.run)) {
            return Whose::Unclear;
        }
        let caller = left.iter().find_map(|call| call.caller());
        caller.map_or(Whose::Nobodys, |interim| Whose::Of(interim.clone()))
    }

    /// Drops what was given up long ago, and the first of what is too much.
    fn forget(&mut self, now: Instant) {
        let counts = |call: &UnderWay| match call.waits {
            Waits::Caller(_) => true,
            Waits::Nobody(until) => now < until,
        };
        self.calls.retain(|_, call| counts(call));
        let given_up = self.calls.iter().filter(|(_, call)| call.caller().is_none());
        let given_up: Vec<u64> = given_up.map(|(number, _)| *number).collect();
        for number in given_up.iter().rev().skip(GIVEN_UP_MAX) {
            self.calls.remove(number);
        }
    }
}

impl Begun {
    /// Notes how the call is sent, and by which token the server names it.
    pub(super) fn sent(&self, request: RequestId, token: ProgressToken) {
        if let Some(call) = self.calls.lock().calls.get_mut(&self.number) {
            (call.request, call.token) = (Some(request), Some(token));
        }
    }

    /// Notes that the server does not work on the call any more.
    pub(super) fn over(self) {
        self.calls.lock().calls.remove(&self.number);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut inner = self.calls.lock();
        let now = Instant::now();
        // What was not sent is not worked on.
        if let Some(call) = inner.calls.remove(&self.number).filter(|call| call.request.is_some()) {
            let waits = Waits::Nobody(now + GIVEN_UP_TIME);
            inner.calls.insert(self.number, UnderWay { waits, ..call });
        }
        inner.forget(now);
        drop(inner);
        self.calls.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, NumberOrString};
    use serde_json::json;
    use wire::{Name, Said};

    use super::super::ask::elicit;
    use super::*;
    use crate::interim::Heard;

    fn run(text: &str) -> RunId {
        RunId::new(text).unwrap()
    }

    fn call() -> (Interim, Heard) {
        let (interim, ear) = Interim::open(Instant::now() + Duration::from_secs(60));
        (interim, ear.listen())
    }

    fn plain() -> ElicitRequestParams {
        let schema = json!({"type": "object", "properties": {}});
        let request = json!({"message": "Sure?", "requestedSchema": schema});
        serde_json::from_value(request).unwrap()
    }

    async fn answer(heard: &mut Heard) -> String {
        let asked = heard.questions.recv().await.unwrap();
        asked.said.send(Said::Accept { content: json!({}) }).unwrap();
        asked.text
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_finds_the_run_that_it_must_belong_to() {
        let (server, calls) = (Name::new("shop").unwrap(), Arc::new(Calls::default()));
        let action = |result: ElicitResult| result.action;
        let none = elicit(&server, &calls, plain()).await;
        assert_eq!(action(none), ElicitationAction::Cancel, "no call is under way");

        let ((first, mut heard), (second, _kept)) = (call(), call());
        let one = calls.begin(&run("a"), &first);
        let same = calls.begin(&run("a"), &second);
        let (said, text) = tokio::join!(elicit(&server, &calls, plain()), answer(&mut heard));
        assert_eq!(action(said), ElicitationAction::Accept);
        assert!(text.starts_with("MCP server shop asks. "), "{text}");
        let warned = text.find("passwords");
        assert!(warned.is_some() && warned < text.find("Sure?"), "{text}");

        // With a call of another run it is not certain until that is over.
        let (other, _other) = call();
        let strange = calls.begin(&run("b"), &other);
        let (said, _) = tokio::join!(elicit(&server, &calls, plain()), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(strange);
            answer(&mut heard).await
        });
        assert_eq!(action(said), ElicitationAction::Accept);
        let strange = calls.begin(&run("b"), &other);
        let began = Instant::now();
        let said = elicit(&server, &calls, plain()).await;
        assert_eq!((action(said), began.elapsed()), (ElicitationAction::Cancel, DOUBT_MAX));
        drop((one, same, strange));
        assert!(calls.lock().calls.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_nobody_waits_for_may_still_ask() {
        let (server, calls) = (Name::new("shop").unwrap(), Arc::new(Calls::default()));
        let (interim, mut heard) = call();
        let id = NumberOrString::Number;
        let given_up = |name: &str, number| {
            let begun = calls.begin(&run(name), &interim);
            begun.sent(id(number), ProgressToken(id(number)));
        };
        let waiting = calls.begin(&run("a"), &interim);
        // Of the same run, never sent, or answered in time.
        given_up("a", 1);
        drop(calls.begin(&run("b"), &interim));
        let answered = calls.begin(&run("b"), &interim);
        answered.sent(id(2), ProgressToken(id(2)));
        answered.over();
        let (said, _) = tokio::join!(elicit(&server, &calls, plain()), answer(&mut heard));
        assert_eq!(said.action, ElicitationAction::Accept);

        // Of another run, until the server answers or for long enough.
        given_up("b", 3);
        let said = elicit(&server, &calls, plain()).await;
        assert_eq!(said.action, ElicitationAction::Cancel);
        let (said, ()) = tokio::join!(
            async { tokio::join!(elicit(&server, &calls, plain()), answer(&mut heard)).0 },
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                calls.answered(&id(3));
            }
        );
        assert_eq!(said.action, ElicitationAction::Accept);
        given_up("b", 4);
        tokio::time::sleep(GIVEN_UP_TIME).await;
        let (said, _) = tokio::join!(elicit(&server, &calls, plain()), answer(&mut heard));
        assert_eq!(said.action, ElicitationAction::Accept);

        // One that nobody waits for has nobody to ask, and they are bounded.
        drop(waiting);
        for number in 0..2 * i64::try_from(GIVEN_UP_MAX).unwrap() {
            given_up("b", number);
        }
        assert_eq!(calls.lock().calls.len(), GIVEN_UP_MAX);
        assert!(!calls.are_under_way());
        let said = elicit(&server, &calls, plain()).await;
        assert_eq!(said.action, ElicitationAction::Cancel);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_that_wait_are_bounded() {
        let (server, calls) = (Name::new("shop").unwrap(), Arc::new(Calls::default()));
        let (interim, mut heard) = call();
        let _waiting = calls.begin(&run("a"), &interim);
        let waits = (0..QUESTIONS_MAX).map(|_| elicit(&server, &calls, plain()));
        let mut waits = Box::pin(futures_util::future::join_all(waits));
        assert!(timeout(Duration::from_secs(1), &mut waits).await.is_err());
        let said = elicit(&server, &calls, plain()).await;
        assert_eq!(said.action, ElicitationAction::Cancel, "one too many");
        let answers = async {
            for _ in 0..QUESTIONS_MAX {
                answer(&mut heard).await;
            }
        };
        let (said, ()) = tokio::join!(waits, answers);
        assert!(said.iter().all(|said| said.action == ElicitationAction::Accept));
        let (said, _) = tokio::join!(elicit(&server, &calls, plain()), answer(&mut heard));
        assert_eq!(said.action, ElicitationAction::Accept, "there is room again");
    }

    #[tokio::test]
    async fn progress_goes_to_the_call_that_makes_it() {
        let calls = Arc::new(Calls::default());
        let ((one, first), (other, second)) = (call(), call());
        let (a, b) = (calls.begin(&run("a"), &one), calls.begin(&run("b"), &other));
        let token = |number| ProgressToken(NumberOrString::Number(number));
        a.sent(NumberOrString::Number(7), token(1));
        b.sent(NumberOrString::Number(8), token(2));
        let told = |number, done| {
            ProgressNotificationParam::new(token(number), done).with_message("x".repeat(999))
        };
        calls.progress(told(2, 3.0));
        calls.progress(told(3, 9.0));
        calls.progress(told(1, f64::INFINITY));
        let text = |heard: &Heard| {
            let progress = heard.progress.borrow().clone();
            (progress.done, progress.text.map_or(0, |text| text.len()))
        };
        assert_eq!((text(&first), text(&second)), ((0.0, 0), (3.0, PROGRESS_CHARS_MAX)));
    }
}
