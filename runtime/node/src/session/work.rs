//! Performs the effects of a session's inputs, and keeps hold of what is under way.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use agents_core::dialect;
use agents_core::effect::{Aborted, CallEffect, Effect};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use ractor::ActorRef;
use telemetry::{LogContext, logged};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use wire::chat::Observed;
use wire::entry::{Input, ModelOutcome, ModelReplied};
use wire::plan::Target;
use wire::{CallKey, ErrorCode, Name, RunId, ToolReply, WorkId};

use super::{SessionMsg, SessionState};
use crate::clock;
use crate::perform::{self, Saying};
use crate::reply::Final;

/// How often the file of a plan is read before the turn that needs it fails, some 6 seconds later.
const PLAN_READS_MAX: u32 = 9;

/// A call that is begun.
struct Calling {
    work: Work,
    /// What came of it. Kept in one place: whoever holds it would move it with all that it needs.
    outcome: BoxFuture<'static, Input>,
}

/// Something under way that can be ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Turn(RunId),
    Call(CallKey),
    Agent(CallKey),
    Timer(RunId),
    Probe(CallKey),
    Expiry(CallKey),
    /// A called agent is being told to end.
    End(CallKey),
}

impl SessionState {
    /// Has done what follows from an input. `written` are the replies whose bytes are there.
    pub(super) fn perform_all(&mut self, effects: Vec<Effect>, written: &[(RunId, Bytes)]) {
        let is_heard = self.context.bus.is_heard(&self.events_subject);
        for effect in effects {
            match effect {
                ask @ Effect::AskModel { .. } => self.ask(ask, 1),
                Effect::Call(call) => self.call(call),
                Effect::Abort { run, calls } => self.abort(&run, calls),
                Effect::Publish { reply } => {
                    let sending = self.context.replies.token();
                    let bytes = written.iter().find(|(run, _)| *run == reply.run);
                    let ready = match bytes {
                        Some((_, bytes)) => Final::written(bytes.clone(), &reply, sending),
                        None => Final::of(&reply, sending),
                    };
                    self.publish(&ready, &reply.run);
                }
                Effect::SetTimer { run, at } => self.set_timer(run, at),
                Effect::Probe { of, number, call } => self.probe(of, number, call),
                Effect::Say { call, question, said, deadline, .. } => {
                    let say = Box::new(perform::Say { question, said, deadline });
                    if let Some(saying) = self.saying.get(&call)
                        && let Err(unheard) = saying.try_send(say)
                    {
                        debug!(%call, error = %unheard, "a call that asked is gone");
                    }
                }
                Effect::Expire { call, question, at, .. } => self.set_expiry(call, question, at),
                Effect::Closed { call, .. } => self.end(&Work::Expiry(call)),
                Effect::Tell(event) if is_heard => {
                    self.context.tell_at(self.events_subject.clone(), &event);
                }
                // The store is told of the others with the commit.
                Effect::Tell(_) | Effect::Opened(_) | Effect::Span(_) => {}
            }
        }
    }

    /// Asks a model, if its run still goes on; `number` counts the attempts to read its plan.
    pub(super) fn ask(&mut self, effect: Effect, number: u32) {
        let Effect::AskModel { run, turn, step, role, model, max_tokens, deadline, trace } = effect
        else {
            return;
        };
        let Ok(machine) = &self.machine else { return };
        let Some((submitted, transcript)) = machine.transcript() else { return };
        if submitted.run != run {
            return;
        }
        let catalogue = match self.context.plans.catalogue(&submitted.plan) {
            Ok(catalogue) => catalogue,
            Err(error) => {
                let again =
                    Effect::AskModel { run, turn, step, role, model, max_tokens, deadline, trace };
                return self.ask_later(again, number, &error);
            }
        };
        let place = (role, model);
        let prompt = match self.prefixes.kept(&run, &place) {
            Some(before) => dialect::prompt_after(role, &catalogue, &transcript, before),
            None => dialect::prompt(role, &catalogue, &transcript),
        };
        for fault in &prompt.faults {
            warn!(%run, agent = %submitted.agent, %fault, "a text of the team failed");
        }
        let planned = transcript.planned().cloned();
        let outgoing = self.prefixes.outgoing(&run, (place.0, &place.1), prompt);
        let observed = Observed {
            session: self.session.clone(),
            run: run.clone(),
            agent: submitted.agent.clone(),
            depth: submitted.parent.as_ref().map_or(0, |parent| parent.depth),
            step,
            hidden: catalogue.plan().continue_word.clone(),
        };
        self.ask_model(perform::Turn {
            run,
            number: turn,
            model: place.1,
            max_tokens,
            deadline,
            trace,
            observed,
            outgoing,
            catalogue,
            planned,
        });
    }

    /// Asks once more when the file of a plan may be read, or says that the turn failed: a run that
    /// nobody asks anything for would only wait for its deadline.
    fn ask_later(&mut self, effect: Effect, number: u32, failed: &journal::Error) {
        let Effect::AskModel { run, turn, .. } = &effect else { return };
        warn!(%run, error = %failed, "the plan of a run cannot be read");
        // What is held does not wait as long as that takes.
        drop(self.myself.cast(SessionMsg::CommitHeld));
        let (run, turn, error) = (run.clone(), *turn, failed.to_wire());
        if !matches!(failed, journal::Error::File { .. }) || number == PLAN_READS_MAX {
            let outcome = ModelOutcome::Failed { error };
            return report(&self.myself, Input::ModelReplied(ModelReplied { run, turn, outcome }));
        }
        let myself = self.myself.clone();
        let number = number + 1;
        let task = tokio::spawn(async move {
            perform::pause_before(number).await;
            drop(myself.cast(SessionMsg::AskAgain { effect: Box::new(effect), number }));
        });
        self.track(Work::Turn(run), task.abort_handle());
    }

    fn ask_model(&mut self, turn: perform::Turn) {
        let work = Work::Turn(turn.run.clone());
        let (context, myself) = (self.context.clone(), self.myself.clone());
        let logging = LogContext { run: turn.run.clone(), trace: turn.trace, call: None };
        self.asked += 1;
        let (held, asked) = (self.held.time_left(Instant::now()), self.asked);
        let asking = async move {
            let begun = Instant::now();
            // In a box, since what a task does is moved some times before and after it is done.
            let mut asking = Box::pin(perform::ask_model(&context, &turn));
            let outcome = in_time(held, asking.as_mut(), &myself).await;
            drop(asking);
            // What was sent before is the session's alone again, to be added to by the next turn.
            let perform::Turn { run, number: turn, model, outgoing, .. } = turn;
            drop(outgoing);
            // A drain that stops all work says so of a turn. It is asked for at the next start.
            if context.is_draining() && is_cancelled(&outcome) {
                return;
            }
            if matches!(outcome, ModelOutcome::Read { .. }) {
                context.paces.note(&model, begun.elapsed());
            }
            let replied = ModelReplied { run, turn, outcome };
            drop(myself.cast(SessionMsg::Replied { replied: Box::new(replied), asked }));
        };
        let task = tokio::spawn(logged(Some(logging), asking));
        self.track(work, task.abort_handle());
    }

    /// Makes a call.
    fn call(&mut self, call: CallEffect) {
        let Calling { work, outcome } = self.calling(call);
        let myself = self.myself.clone();
        let task = tokio::spawn(async move { report(&myself, outcome.await) });
        self.track(work, task.abort_handle());
    }

    /// Makes a call because of an input that is held, which is made durable after some time if the
    /// call is not over by then. One that waits for nothing is over at once, and no task is made for
    /// it and woken: what came of it is returned.
    pub(super) async fn call_held(&mut self, call: CallEffect, time: Duration) -> Option<Input> {
        let Calling { work, mut outcome } = self.calling(call);
        let at_once = poll_fn(|context| Poll::Ready(outcome.as_mut().poll(context))).await;
        if let Poll::Ready(input) = at_once {
            return Some(input);
        }
        let (myself, given_up) = (self.myself.clone(), self.given_up);
        let task = tokio::spawn(async move {
            let input = Box::new(in_time(Some(time), outcome.as_mut(), &myself).await);
            drop(myself.cast(SessionMsg::Settled { input, given_up }));
        });
        self.track(work, task.abort_handle());
        None
    }

    /// Begins a call, which goes on only as its outcome is waited for.
    fn calling(&self, call: CallEffect) -> Calling {
        let work = match call.target {
            Target::Tool => Work::Call(call.call.clone()),
            Target::Agent => Work::Agent(call.call.clone()),
        };
        let (context, myself) = (self.context.clone(), self.myself.clone());
        let session = self.session.clone();
        let (run, key) = (call.run.clone(), call.call.clone());
        let logging = LogContext { run, trace: call.trace, call: Some(key) };
        let outcome = async move {
            let key = call.call.clone();
            perform::pause_before(call.attempt).await;
            match call.target {
                Target::Agent => Box::pin(perform::call_agent(&context, &session, &call)).await,
                Target::Tool => {
                    let asking = |saying| {
                        drop(myself.cast(SessionMsg::Asks { call: call.call.clone(), saying }));
                    };
                    let reporting = |input| report(&myself, input);
                    match perform::converse(&context, &session, &call, asking, reporting).await {
                        ToolReply::Settled { outcome, usage, tainted, hop } => {
                            Input::CallSettled { call: key, outcome, usage, tainted, hop }
                        }
                        ToolReply::Suspended { question } => Input::CallSuspended {
                            call: key,
                            attempt: Some(call.attempt),
                            question,
                        },
                        ToolReply::Lost { error, usage, tainted, hop } => {
                            let attempt = call.attempt;
                            Input::CallLost { call: key, attempt, error, usage, tainted, hop }
                        }
                        // Every question was answered before the call was over.
                        ToolReply::Asks { question } => {
                            Input::CallAsked { call: key, attempt: call.attempt, question }
                        }
                    }
                }
            }
        };
        Calling { work, outcome: Box::pin(logged(Some(logging), outcome)) }
    }

    /// Keeps hold of how a call under way is told what was said to its questions.
    pub(super) fn on_asks(&mut self, call: CallKey, saying: Saying) {
        self.saying.retain(|_, saying| !saying.is_closed());
        self.saying.insert(call, saying);
    }

    fn probe(&mut self, of: CallKey, number: u32, call: CallEffect) {
        let work = Work::Probe(of.clone());
        let (context, myself) = (self.context.clone(), self.myself.clone());
        let session = self.session.clone();
        let task = tokio::spawn(async move {
            perform::pause_before(number).await;
            let (outcome, tainted) = perform::probe(&context, &session, &call).await;
            report(&myself, Input::CallProbed { call: of, probe: number, outcome, tainted });
        });
        self.track(work, task.abort_handle());
    }

    /// Ends what is under way for a run, here and wherever others work for it.
    fn abort(&mut self, run: &RunId, calls: Vec<Aborted>) {
        for work in [Work::Turn(run.clone()), Work::Timer(run.clone())] {
            self.end(&work);
        }
        for aborted in calls {
            // A probe's own request is dropped with its task, which stops it.
            self.end(&Work::Probe(aborted.call.clone()));
            match aborted.target {
                Target::Tool => {
                    self.end(&Work::Call(aborted.call.clone()));
                    self.stop_tool(&aborted);
                }
                Target::Agent => {
                    self.end(&Work::Agent(aborted.call.clone()));
                    self.tell_end(aborted);
                }
            }
        }
    }

    /// Stops all attempts at a call, those of an earlier life of this process among them.
    fn stop_tool(&self, aborted: &Aborted) {
        let whom = perform::Stopped::Tool(aborted.name.clone());
        let work = WorkId::of_call(aborted.call.clone());
        perform::stop(&self.context, &perform::Stop { whom, work });
    }

    /// Tells a called agent to end, until it is known that it does.
    fn tell_end(&mut self, aborted: Aborted) {
        let (context, myself) = (self.context.clone(), self.myself.clone());
        let work = Work::End(aborted.call.clone());
        let task = tokio::spawn(async move {
            perform::cancel_agent(&context, &aborted).await;
            report(&myself, Input::CancelDelivered { call: aborted.call });
        });
        self.track(work, task.abort_handle());
    }

    /// Ends something if it is under way.
    pub(super) fn end(&mut self, work: &Work) {
        if let Some(task) = self.tasks.remove(work) {
            task.abort();
        }
    }

    /// Hands a reply to everyone who waits.
    fn publish(&mut self, reply: &Final, run: &RunId) {
        self.end(&Work::Timer(run.clone()));
        for waiter in self.waiters.remove(run).into_iter().flatten() {
            drop(waiter.send(Ok(reply.clone())));
        }
    }

    fn set_timer(&mut self, run: RunId, at: wire::Timestamp) {
        let myself = self.myself.clone();
        let work = Work::Timer(run.clone());
        let task = tokio::spawn(async move {
            clock::sleep_until(at).await;
            report(&myself, Input::DeadlinePassed { run });
        });
        self.track(work, task.abort_handle());
    }

    fn set_expiry(&mut self, call: CallKey, question: Option<Name>, at: wire::Timestamp) {
        let myself = self.myself.clone();
        let work = Work::Expiry(call.clone());
        let task = tokio::spawn(async move {
            clock::sleep_until(at).await;
            report(
                &myself,
                match question {
                    Some(question) => Input::QuestionExpired { call, question },
                    None => Input::ApprovalExpired { call },
                },
            );
        });
        self.track(work, task.abort_handle());
    }

    fn track(&mut self, work: Work, task: AbortHandle) {
        self.tasks.retain(|_, task| !task.is_finished());
        if let Some(before) = self.tasks.insert(work, task) {
            before.abort();
        }
    }
}

/// Tells whether nobody waits for a turn any more.
fn is_cancelled(outcome: &ModelOutcome) -> bool {
    matches!(outcome, ModelOutcome::Failed { error } if error.code == ErrorCode::Cancelled)
}

/// Waits for the outcome of something. What is held is made durable if that takes longer than it may
/// wait, if it waits at all.
async fn in_time<T>(
    most: Option<Duration>,
    mut outcome: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    session: &ActorRef<SessionMsg>,
) -> T {
    if let Some(most) = most {
        if let Ok(outcome) = timeout(most, outcome.as_mut()).await {
            return outcome;
        }
        drop(session.cast(SessionMsg::CommitHeld));
    }
    outcome.await
}

/// Brings an outcome back to the session; one that has ended takes its work up again by itself.
fn report(session: &ActorRef<SessionMsg>, input: Input) {
    drop(session.cast(SessionMsg::Input(Box::new(input))));
}
