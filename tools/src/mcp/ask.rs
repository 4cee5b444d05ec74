//! Questions of servers to people, and what servers say of calls under way.
//!
//! Servers of the current protocol ask in the answer to the call itself. Older ones send a request
//! of their own, which does not say for which call, so the calls of a connection are known here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests,
    InputResponses, ProgressNotificationParam, ProgressToken,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{debug, info};
use wire::question::{FORM_BYTES_MAX, Progress, QUESTION_BYTES_MAX};
use wire::{Name, RunId, Said};

use crate::interim::Interim;
use crate::schema::compile;

/// How long a question waits until it is certain which run it belongs to, where calls of several
/// runs are under way at one server. Common calls are over by then, and a person is asked who knows
/// what it is about; else nobody is.
const DOUBT_MAX: Duration = Duration::from_secs(10);

/// Letters of what a server says of its progress.
const PROGRESS_CHARS_MAX: usize = 200;

/// The calls that are under way on a connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    inner: Mutex<Inner>,
    /// A call ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    calls: BTreeMap<u64, UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    run: RunId,
    interim: Interim,
    /// By which the server names the call when it tells of its progress.
    token: Option<ProgressToken>,
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

/// A call that is under way until this is dropped.
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
        let call = UnderWay { run: run.clone(), interim: interim.clone(), token: None };
        inner.calls.insert(number, call);
        drop(inner);
        Begun { calls: self.clone(), number }
    }

    /// Tells whether any call is.
    pub(super) fn are_under_way(&self) -> bool {
        !self.lock().calls.is_empty()
    }

    /// Finds whom a question that comes now is for. A run has one person, so which of its calls
    /// asks does not matter; to ask the person of another run would tell strangers things.
    async fn asking(&self) -> Option<Interim> {
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
        let Some(call) = calls.find(|call| call.token.as_ref() == Some(&told.progress_token))
        else {
            debug!("progress of a call that is not under way");
            return;
        };
        let is_number = |number: &f64| number.is_finite();
        let text = told.message.map(|text| text.chars().take(PROGRESS_CHARS_MAX).collect());
        if is_number(&told.progress) {
            let (done, total) = (told.progress, told.total.filter(is_number));
            call.interim.progress(Progress { done, total, text });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Says which call of some asks: it must be one of a run if all that are left belong to it.
    fn one_of(&self, among: &BTreeSet<u64>) -> Whose {
        let mut left = self.calls.iter().filter(|(number, _)| among.contains(number));
        match left.next() {
            None => Whose::Nobodys,
            Some((_, first)) if left.all(|(_, call)| call.run == first.run) => {
                Whose::Of(first.interim.clone())
            }
            Some(_) => Whose::Unclear,
        }
    }
}

impl Begun {
    /// Notes by which token the server names the call.
    pub(super) fn named(&self, token: ProgressToken) {
        if let Some(call) = self.calls.lock().calls.get_mut(&self.number) {
            call.token = Some(token);
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.calls.lock().calls.remove(&self.number);
        self.calls.ended.notify_waiters();
    }
}

/// Answers a question that a server asks beside its calls.
pub(super) async fn elicit(
    server: &Name,
    calls: &Calls,
    request: ElicitRequestParams,
) -> ElicitResult {
    let Some((text, form)) = question(server, request) else {
        return ElicitResult::new(ElicitationAction::Decline);
    };
    let Some(interim) = calls.asking().await else {
        info!(%server, "MCP server asks, and nobody knows whom: calls of several runs, or of none");
        return ElicitResult::new(ElicitationAction::Cancel);
    };
    result(interim.ask(text, form).await)
}

/// Answers what a server of the current protocol needs to go on with a call; an error says what it
/// asks for that it cannot have.
pub(super) async fn fulfil(
    server: &Name,
    interim: &Interim,
    requests: InputRequests,
) -> Result<InputResponses, String> {
    let mut responses = InputResponses::new();
    for (key, request) in requests {
        let answered = match request {
            InputRequest::Elicitation(request) => match question(server, request.params) {
                Some((text, form)) => result(interim.ask(text, form).await),
                None => ElicitResult::new(ElicitationAction::Decline),
            },
            _ => {
                return Err("the MCP server asks for something other than words of a person, \
                            which it was not offered"
                    .to_owned());
            }
        };
        let answered = serde_json::to_value(answered);
        responses.insert(key, answered.map_err(|error| format!("write an answer: {error}"))?);
    }
    Ok(responses)
}

/// Returns what a person is asked, if it can be asked here.
fn question(server: &Name, request: ElicitRequestParams) -> Option<(String, Value)> {
    let declined = |why: &str| {
        info!(%server, why, "a question of an MCP server is declined");
        None
    };
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request
    else {
        return declined("it sends people to an address, which it was not offered");
    };
    let Ok(form) = serde_json::to_value(requested_schema) else {
        return declined("its form cannot be written");
    };
    if message.len() > QUESTION_BYTES_MAX || form.to_string().len() > FORM_BYTES_MAX {
        return declined("it is too long");
    }
    if compile(&form).is_err() {
        return declined("its form is no schema");
    }
    let text = format!(
        "MCP server {server} asks: {}\n(What you answer goes to that server. It must not ask for \
         passwords or other secrets, so do not give it any.)",
        message.trim()
    );
    Some((text, form))
}

fn result(said: Said) -> ElicitResult {
    match said {
        Said::Accept { content } => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        Said::Decline => ElicitResult::new(ElicitationAction::Decline),
        Said::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::interim::Heard;

    fn run(text: &str) -> RunId {
        RunId::new(text).unwrap()
    }

    fn call() -> (Interim, Heard) {
        Interim::open(Instant::now() + Duration::from_secs(60))
    }

    fn form(message: &str, schema: &Value) -> ElicitRequestParams {
        let request = json!({"message": message, "requestedSchema": schema});
        serde_json::from_value(request).unwrap()
    }

    fn plain() -> ElicitRequestParams {
        form("Sure?", &json!({"type": "object", "properties": {}}))
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
        assert!(text.starts_with("MCP server shop asks: Sure?\n"), "{text}");
        assert!(text.contains("passwords"), "{text}");

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

    #[tokio::test]
    async fn what_cannot_be_asked_is_declined() {
        let server = Name::new("shop").unwrap();
        let url: ElicitRequestParams = serde_json::from_value(json!({
            "mode": "url", "message": "Log in", "url": "https://x.example", "elicitationId": "e",
        }))
        .unwrap();
        let plain = json!({"type": "object", "properties": {}});
        let long = form(&"x".repeat(QUESTION_BYTES_MAX + 1), &plain);
        let fields: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("field {n}"), json!({"type": "string"}))).collect();
        let wide = form("Sure?", &json!({"type": "object", "properties": fields}));
        for request in [url, long, wide] {
            let said = elicit(&server, &Calls::default(), request).await;
            assert_eq!(said.action, ElicitationAction::Decline);
        }
    }

    #[tokio::test]
    async fn progress_goes_to_the_call_that_makes_it() {
        let calls = Arc::new(Calls::default());
        let ((one, first), (other, second)) = (call(), call());
        let (a, b) = (calls.begin(&run("a"), &one), calls.begin(&run("b"), &other));
        let token = |number| ProgressToken(NumberOrString::Number(number));
        a.named(token(1));
        b.named(token(2));
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
