//! What a session keeps of runs that are over: what was said, and the replies. Of either it is the
//! newest, up to a number and to so many bytes.

use std::sync::Arc;

use wire::Timestamp;
use wire::run::RunReply;

use super::{Known, SessionMachine};
use crate::dialect::Exchange;

/// Exchanges of earlier runs that a session keeps in reach of its models.
pub const EXCHANGES_MAX: usize = 200;

/// Bytes of text of these exchanges: more than any model reads. The newest is kept whatever it has.
pub const EXCHANGES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Replies that a session holds in memory for clients that ask again; older ones are in the store.
pub const REPLIES_MAX: usize = 16;

/// Bytes of these replies. The newest is held whatever it has.
pub const REPLIES_BYTES_MAX: usize = 8 * 1024 * 1024;

impl SessionMachine {
    /// Keeps what was said in reach of the models of later runs.
    pub(super) fn remember(&mut self, exchanges: Vec<Exchange>) {
        self.exchanges_total = self.exchanges_total.saturating_add(exchanges.len() as u64);
        self.exchanges.extend(exchanges);
        let bytes = self.exchanges.iter().rev().map(Exchange::bytes);
        let kept = newest(bytes, EXCHANGES_BYTES_MAX).min(EXCHANGES_MAX);
        self.exchanges.drain(..self.exchanges.len() - kept);
        self.exchanges.shrink_to_fit();
    }

    /// Keeps the reply of a run that is over.
    pub(super) fn keep(&mut self, reply: &Arc<RunReply>, now: Timestamp) {
        if let Some(known) = self.known.get_mut(&reply.run) {
            known.end = Some((reply.status, now));
            known.reply = Some(reply.clone());
        }
        if let Some(activity) = &mut self.activity {
            activity.seen = now;
        }
        self.ended.push_back((reply.run.clone(), bytes(reply)));
        let bytes = self.ended.iter().rev().map(|(_, bytes)| *bytes);
        let kept = newest(bytes, REPLIES_BYTES_MAX).min(REPLIES_MAX);
        for (run, _) in self.ended.drain(..self.ended.len() - kept) {
            if let Some(known) = self.known.get_mut(&run) {
                known.reply = None;
            }
        }
    }

    /// Returns about how many bytes of memory the session takes while nothing is in work.
    pub fn bytes_at_rest(&self) -> usize {
        let known = self.known.len() * size_of::<Known>();
        let said: usize = self.exchanges.iter().map(Exchange::bytes).sum();
        let replies: usize = self.ended.iter().map(|(_, bytes)| *bytes).sum();
        let unresolved = self.unresolved.iter().map(wire::json::measure);
        let unresolved: usize = unresolved.map(Result::unwrap_or_default).sum();
        size_of::<Self>() + known + said + replies + unresolved
    }
}

/// Returns how many of the newest have so many bytes together at most, but one if there is one.
fn newest(bytes: impl ExactSizeIterator<Item = usize>, max: usize) -> usize {
    let least = bytes.len().min(1);
    let mut sum = 0_usize;
    let fits = |bytes: &usize| {
        sum = sum.saturating_add(*bytes);
        sum <= max
    };
    bytes.take_while(fits).count().max(least)
}

/// Returns about how many bytes a reply takes: its texts, and those of the calls that were made.
fn bytes(reply: &RunReply) -> usize {
    let calls = reply.sources.iter().map(|source| {
        source.output.len() + wire::json::measure(&source.arguments).unwrap_or_default()
    });
    let error = reply.error.as_ref().map_or(0, |error| error.message.len());
    reply.output.len() + error + calls.sum::<usize>()
}
