//! Open calls at the door: listed, looked at, and decided by people.

use std::sync::Arc;

use bus::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::Store;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tools::secret::{clean, clean_value};
use wire::open::{ApproveRequest, DenyRequest, OpenCallList, OpenCallsRequest, ResolveRequest};
use wire::subject::CallVerb;
use wire::{CallKey, ErrorCode, Headers, OpenCall, OpenKind, Resolution, RunId, WireError};

use super::body::read;
use super::{Porter, SESSION_TIMEOUT};
use crate::context::TeamContext;
use crate::error::Error;
use crate::feed;
use crate::open_calls::{self, HeldCalls};
use crate::session::{Decision, Door};

/// Open calls that are listed unless the request says otherwise.
const LIST_DEFAULT: usize = 50;

/// Runs above a run that are looked through for the one that is asked about; `depth_max` is less.
const ANCESTORS_MAX: usize = 64;

/// The longest reason for a denial, in bytes: it goes into the conversation of the model.
const REASON_BYTES_MAX: usize = 4096;

impl Porter {
    pub(super) async fn on_calls(&self, message: &Message) -> Result<(), WireError> {
        let OpenCallsRequest { kind, limit } = read_or_default(message)?;
        let limit = limit.unwrap_or(LIST_DEFAULT);
        let list = self.context.open_calls(kind, limit).await?;
        feed::answer(&self.context.bus, message, Headers::new(), &list).await;
        Ok(())
    }

    pub(super) async fn on_call(
        &self,
        message: &Message,
        call: CallKey,
        verb: CallVerb,
    ) -> Result<(), WireError> {
        let open = self.context.open_call(call.clone()).await?.ok_or_else(|| {
            WireError::new(ErrorCode::UnknownCall, format!("call {call} is not open"))
        })?;
        let decision = match verb {
            CallVerb::Show => {
                feed::answer(&self.context.bus, message, Headers::new(), &open).await;
                return Ok(());
            }
            CallVerb::Approve => {
                let ApproveRequest { digest } = read_or_default(message)?;
                Decision::Approve { digest }
            }
            CallVerb::Deny => {
                let DenyRequest { reason } = read_or_default(message)?;
                if reason.len() > REASON_BYTES_MAX {
                    let text = format!("the reason has more than {REASON_BYTES_MAX} bytes");
                    return Err(WireError::new(ErrorCode::TooLarge, text));
                }
                Decision::Deny { reason: clean(reason) }
            }
            CallVerb::Resolve => resolution(read(&message.payload)?)?,
        };
        let end = Instant::now() + SESSION_TIMEOUT;
        let OpenCall { run, session, .. } = open;
        let door = |answer| Door::Decide { run, call, decision, answer };
        let view = self.ask(&session, end, door).await?;
        self.answer_view(message, &view).await;
        Ok(())
    }
}

/// Reads a body that may be left out.
fn read_or_default<T: DeserializeOwned + Default>(message: &Message) -> Result<T, WireError> {
    if message.payload.is_empty() { Ok(T::default()) } else { read(&message.payload) }
}

fn resolution(request: ResolveRequest) -> Result<Decision, WireError> {
    let resolution = match request {
        ResolveRequest { done: true, result, .. } => {
            Resolution::Done { result: clean_value(result.unwrap_or_else(|| Value::from("done"))) }
        }
        ResolveRequest { done: false, result: None, .. } => Resolution::NotDone,
        ResolveRequest { done: false, result: Some(_), .. } => {
            let text = "what was not done has no `result`";
            return Err(WireError::new(ErrorCode::BadRequest, text));
        }
    };
    Ok(Decision::Resolve { attempt: request.attempt, resolution })
}

impl TeamContext {
    /// Lists open calls, all or those of a kind.
    pub(crate) async fn open_calls(
        self: &Arc<Self>,
        kind: Option<OpenKind>,
        limit: usize,
    ) -> Result<OpenCallList, WireError> {
        self.look_up(move |store, held| open_calls::list(store, held, kind, limit)).await
    }

    /// Returns a call that is open.
    pub(crate) async fn open_call(
        self: &Arc<Self>,
        call: CallKey,
    ) -> Result<Option<OpenCall>, WireError> {
        let read = move |store: &Store, held: &HeldCalls| match held.get(&call) {
            Some(held) => Ok(held.clone()),
            None => store.open_call(&call),
        };
        self.look_up(read).await
    }

    /// Returns the calls of a run and of the runs below it that wait for a person.
    pub(crate) async fn waiting_below(
        self: &Arc<Self>,
        run: &RunId,
    ) -> Result<Vec<OpenCall>, WireError> {
        let run = run.clone();
        self.look_up(move |store, held| {
            let mut waiting = Vec::new();
            for open in open_calls::waiting(store, held)? {
                if is_below(store, &open, &run)? {
                    waiting.push(open);
                }
            }
            Ok(waiting)
        })
        .await
    }

    /// Reads the store, which then shows everything that was committed before, but for what it could
    /// not be told of calls.
    async fn look_up<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Store, &HeldCalls) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, WireError> {
        self.projector.sync().await;
        // Taken before the store is read: what goes from there is in the store by then.
        let held = self.projector.held_calls();
        let context = self.clone();
        let found = spawn_blocking(move || read(&context.store, &held)).await;
        found.map_err(|_| Error::Ending.to_wire())?.map_err(|error| Error::from(error).to_wire())
    }
}

/// Tells whether a call belongs to a run or to one that it asked for, however far below.
fn is_below(store: &Store, open: &OpenCall, run: &RunId) -> Result<bool, store::Error> {
    let mut at = open.run.clone();
    let mut above = open.parent.clone();
    for _ in 0..ANCESTORS_MAX {
        if at == *run {
            return Ok(true);
        }
        let Some(parent) = above else { return Ok(false) };
        let row = store.run(&parent)?;
        above = row.and_then(|row| row.begun.parent).map(|parent| parent.run);
        at = parent;
    }
    Ok(false)
}
