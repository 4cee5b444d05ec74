//! What a run may still use: tokens, money and calls, over all runs below it.
//!
//! All of it is reserved before it is used and settled afterwards, so that what is used goes beyond
//! the limit by no more than one prompt that was estimated too low, and what attempts lose: a turn
//! reserves its prompt, by an estimate, and the longest reply, and is asked for again where a server
//! spoils its reply; a called agent draws on a part of what its caller has.

use wire::chat::{Lost, estimated_tokens};
use wire::entry::TurnReport;
use wire::hop::HopReport;
use wire::money::{Cached, Price, usd};
use wire::plan::{Audience, Dialect, Offer, Target};
use wire::run::Budget;
use wire::{CallOutcome, ErrorCode, ModelRole, Name, Plan, RunStatus, Usage, WireError};

use super::Run;
use super::call::Pending;
use crate::dialect::{Exchange, RESPOND_TO_USER};
use crate::spans::Left;

/// What a dialect other than the provider's own adds to the texts of a plan, in bytes: the words
/// that explain its form.
const FORM_BYTES: u64 = 1200;

/// What a call may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) tokens: u64,
    /// Absent where money is not bounded.
    pub(super) cost_nano_usd: Option<u64>,
    pub(super) calls: u64,
}

impl Share {
    /// Returns it as used up.
    fn to_usage(self) -> Usage {
        let cost_nano_usd = self.cost_nano_usd.unwrap_or(0);
        Usage { calls: self.calls, cost_nano_usd, ..Usage::of_tokens(0, self.tokens) }
    }

    /// Returns what is left of it.
    fn less(self, used: Usage) -> Self {
        let cost_nano_usd = self.cost_nano_usd.map(|cost| cost.saturating_sub(used.cost_nano_usd));
        Self { tokens: self.tokens.saturating_sub(used.total()), cost_nano_usd, ..self }
    }

    /// That of one who may use whatever he likes.
    pub(super) const UNBOUNDED: Self =
        Self { tokens: u64::MAX, cost_nano_usd: None, calls: u64::MAX };
}

/// Whose prompts are alike, so that one of them tells the size of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Thinker,
    Actor,
    /// The model that writes the answer for which a planner asks. It reads the whole conversation,
    /// and one that carries out a task does not.
    Answerer,
}

/// The size of the prompts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prompts {
    /// Bytes that a model would read.
    bytes: u64,
    /// Those of them that earlier runs left.
    history: u64,
    /// Bytes that the awaited turn read.
    asked: u64,
    /// By reader: the bytes that a turn read, and its tokens by the provider's count.
    thinker: Option<(u64, u64)>,
    actor: Option<(u64, u64)>,
    answerer: Option<(u64, u64)>,
}

impl Prompts {
    /// Counts what the first prompt of a run holds, the history left out.
    pub(super) fn of(plan: &Plan, request: &str) -> Self {
        let mut prompts = Self::default();
        prompts.grow(&plan.instructions);
        prompts.grow(request);
        for offer in &plan.tools {
            prompts.grow(offer.spec.name.as_str());
            prompts.grow(&offer.spec.description);
            prompts.grow(&offer.spec.parameters.to_string());
        }
        if plan.edition >= 1 {
            let own = |audience: &Audience| -> u64 {
                plan.prompts.of(*audience).values().map(|text| text.len() as u64).sum()
            };
            prompts.grow_by(Audience::ALL.iter().map(own).max().unwrap_or(0));
        }
        let explained = plan.dialect != Dialect::Native || plan.planner.is_some();
        prompts.bytes += if explained { FORM_BYTES } else { 0 };
        prompts
    }

    /// Counts the exchanges that every prompt of the run shows.
    pub(super) fn follow(&mut self, shown: &[Exchange]) {
        let bytes: u64 = shown.iter().map(|exchange| exchange.bytes() as u64).sum();
        self.history = bytes;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn grow(&mut self, text: &str) {
        self.grow_by(text.len() as u64);
    }

    pub(super) fn grow_by(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn on_asked(&mut self) {
        self.asked = self.bytes;
    }

    pub(super) fn on_measured(&mut self, reader: Reader, usage: Usage) {
        if usage.input_tokens > 0 {
            *self.measured_mut(reader) = Some((self.asked, usage.input_tokens));
        }
    }

    /// Estimates the tokens that a turn reads, rather too many than too few: by what the provider
    /// counted last, and what came to it since.
    fn tokens(&self, reader: Reader) -> u64 {
        let measured = match reader {
            Reader::Thinker => self.thinker,
            Reader::Actor => self.actor,
            Reader::Answerer => self.answerer,
        };
        let (bytes, tokens) = measured.unwrap_or_default();
        tokens.saturating_add(estimated_tokens(self.bytes.saturating_sub(bytes)))
    }

    /// Estimates how many of these tokens earlier runs left.
    fn history_tokens(&self, reader: Reader) -> u64 {
        let tokens = u128::from(self.tokens(reader)) * u128::from(self.history);
        tokens.checked_div(self.bytes.into()).and_then(|tokens| tokens.try_into().ok()).unwrap_or(0)
    }

    fn measured_mut(&mut self, reader: Reader) -> &mut Option<(u64, u64)> {
        match reader {
            Reader::Thinker => &mut self.thinker,
            Reader::Actor => &mut self.actor,
            Reader::Answerer => &mut self.answerer,
        }
    }
}

impl Run {
    /// Returns what the run has left, for its traces.
    pub(super) fn left(&self) -> Left {
        Left {
            tokens: Some(self.tokens_left()),
            steps: Some(self.steps_max().saturating_sub(self.step())),
            calls: (self.calls_max() < u64::MAX).then(|| self.calls_left()),
            cost_nano_usd: self.cost_left(),
        }
    }

    /// Returns who reads the prompt of a turn in the present step.
    fn reader(&self, role: ModelRole) -> Reader {
        let answers = || self.planned().is_some_and(|planned| planned.tool == RESPOND_TO_USER);
        match role {
            ModelRole::Thinker => Reader::Thinker,
            ModelRole::Actor if self.plan.edition >= 1 && answers() => Reader::Answerer,
            ModelRole::Actor => Reader::Actor,
        }
    }

    /// Returns the tokens that the reply of a turn may have, or why there can be none.
    pub(super) fn reply_tokens(&self, role: ModelRole) -> Result<u64, WireError> {
        let reader = self.reader(role);
        let prompt = self.prompts.tokens(reader);
        let price = self.price_ahead(self.model(role));
        // Plans of older journals do not bound the history, and errors said nothing of it.
        let is_bounded = self.plan.limits.history_tokens_max.is_some();
        let history = if is_bounded { self.prompts.history_tokens(reader) } else { 0 };
        let without_history = prompt.saturating_sub(history);
        let used_up = |what: &str, left: String, most: String, by_history: bool, help: &str| {
            let told = if by_history {
                format!(
                    ", of which about {history} are earlier messages of the session; begin a new \
                     session, lower `history_tokens_max`, or"
                )
            } else {
                ";".to_owned()
            };
            let message = format!(
                "{left} of {most} {what} are left, which is too little for the next turn with its \
                 prompt of about {prompt} tokens{told} raise {help} or the request's budget"
            );
            Err(WireError::new(ErrorCode::BudgetExceeded, message))
        };
        let left = self.tokens_left();
        let tokens = left.saturating_sub(prompt);
        if tokens == 0 {
            let most = self.tokens_max().to_string();
            let by_history = history > 0 && left > without_history;
            return used_up("tokens", left.to_string(), most, by_history, "`tokens_max`");
        }
        let tokens = tokens.min(self.plan.limits.reply_tokens_max);
        let (Some(left), Some(price)) = (self.cost_left(), price) else { return Ok(tokens) };
        let paid = left.checked_sub(price.cost(prompt, Cached::default(), 0));
        let bought = paid.map_or(0, |rest| price.output_tokens(rest));
        if bought == 0 {
            let most = usd(self.cost_max().unwrap_or_default());
            let by_history =
                history > 0 && left > price.cost(without_history, Cached::default(), 0);
            return used_up("of the money", usd(left), most, by_history, "`cost_max`");
        }
        Ok(tokens.min(bought))
    }

    /// Returns the tokens that the first prompt may have beside what is in it.
    pub(super) fn readable(&self) -> u64 {
        let prices = self.plan.turn_models().filter_map(|model| self.price_ahead(model));
        let dearest = prices.reduce(Price::max);
        let paid = self.cost_max().zip(dearest).map(|(cost, price)| price.input_tokens(cost));
        let most = self.tokens_max().min(paid.unwrap_or(u64::MAX));
        most.saturating_sub(self.prompts.tokens(self.reader(self.first_role())))
    }

    /// Returns what each call that spends may use: even shares, one kept for the caller.
    pub(super) fn share(&self, spending: u64, calls: u64) -> Share {
        let parts = spending.saturating_add(1);
        Share {
            tokens: self.tokens_left() / parts,
            cost_nano_usd: self.cost_left().map(|left| left / parts),
            calls: self.calls_left().saturating_sub(calls) / parts,
        }
    }

    /// Tells whether nothing could be asked with a share. Where nothing may cost anything, what costs
    /// nothing may be asked; what a called agent costs, it finds out itself.
    pub(super) fn is_spent(&self, offer: &Offer, share: Share) -> bool {
        let costs = |model: &Name| {
            self.price_ahead(model).is_none_or(|price| (price.input, price.output) != (0, 0))
        };
        let is_free = self.plan.edition >= 2
            && self.cost_max() == Some(0)
            && !offer.model.as_ref().is_some_and(costs);
        share.tokens == 0 || (share.cost_nano_usd == Some(0) && !is_free)
    }

    /// Returns what is set aside for a call.
    pub(super) fn reserve(&self, offer: &Offer, share: Share) -> Share {
        match (offer.target, &offer.model) {
            (Target::Agent, _) => share,
            (Target::Tool, None) => Share::default(),
            // A tool makes no calls, and is told of tokens alone.
            (Target::Tool, Some(model)) => {
                let price = self.price_ahead(model);
                let dearest =
                    price.map(|price| Price { output: price.input.max(price.output), ..price });
                let paid =
                    share.cost_nano_usd.zip(dearest).map(|(cost, price)| price.output_tokens(cost));
                let tokens = share.tokens.min(paid.unwrap_or(u64::MAX));
                Share { tokens, calls: 0, ..share }
            }
        }
    }

    /// Returns what is told to a called agent, or to a tool that asks a model. Steps are not shared:
    /// each run below may make as many as were asked for.
    pub(super) fn budget_below(&self, pending: &Pending) -> Budget {
        let Share { tokens, cost_nano_usd, calls } = pending.reserve;
        let steps = self.submitted.budget.steps;
        Budget { tokens: Some(tokens), steps, cost_nano_usd, calls: Some(calls) }
    }

    /// Counts what a turn used, and returns it with its price.
    pub(super) fn spend_on_turn(&mut self, role: ModelRole, turn: &TurnReport) -> Usage {
        let price = self.price(self.model(role), turn.served_by.as_ref());
        let mut usage = turn.usage.priced(price, turn.detail.cached());
        self.prompts.on_measured(self.reader(role), turn.usage);
        usage.add(self.lost_on_turn(role, &turn.detail.lost));
        self.usage.add(usage);
        usage
    }

    /// Returns what attempts of a turn may have used of which no reply came, with its price.
    pub(super) fn lost_on_turn(&self, role: ModelRole, lost: &[Lost]) -> Usage {
        self.lost(self.model(role), lost)
    }

    fn lost(&self, asked: &Name, lost: &[Lost]) -> Usage {
        lost.iter().fold(Usage::default(), |mut sum, Lost { model, usage }| {
            sum.add(usage.priced(self.price(asked, Some(model)), Cached::default()));
            sum
        })
    }

    /// Returns what a pending call used with its price: of the model that answered, if its tool asks
    /// one. A called agent has told its own, and so has a tool of an earlier version whose model was
    /// stood in for.
    fn priced_call(&self, position: usize, usage: Usage, hop: Option<&HopReport>) -> Usage {
        let pending = self.pending.get(position);
        let offer = pending.and_then(|pending| self.plan.tools.get(pending.offer));
        let stand_in = hop.and_then(|hop| hop.served_by.as_ref());
        match offer.and_then(|offer| offer.model.as_ref()) {
            Some(asked) => {
                let lost = hop.map(|hop| hop.lost.as_slice()).unwrap_or_default();
                let cached = hop.map(HopReport::cached).unwrap_or_default();
                let is_told = usage.cost_nano_usd != 0;
                let price = self.price(asked, stand_in);
                let mut usage = if is_told { usage } else { usage.priced(price, cached) };
                usage.add(self.lost(asked, lost));
                usage
            }
            None => usage,
        }
    }

    /// Returns what a call may have used that is ended with its run: for an agent above it all that
    /// was set aside, so that what it gives away is never more than it has. The reply to a person
    /// says what is known.
    pub(super) fn unheard(&self, pending: &Pending) -> Usage {
        let offer = self.plan.tools.get(pending.offer);
        if self.submitted.parent.is_none()
            || !pending.is_under_way()
            || !offer.is_some_and(Offer::spends)
        {
            return Usage::default();
        }
        pending.reserve.to_usage()
    }

    /// Returns what a call that was settled counts as used: all that was set aside for an agent of
    /// whose end nobody heard. Older journals say so themselves.
    pub(super) fn settled_usage(
        &self,
        position: usize,
        outcome: &CallOutcome,
        usage: Usage,
        hop: Option<&HopReport>,
    ) -> Usage {
        match (outcome, self.pending.get(position)) {
            (CallOutcome::Ended { status: RunStatus::Unknown, .. }, Some(pending))
                if usage.is_none() =>
            {
                pending.reserve.to_usage()
            }
            _ => self.priced_call(position, usage, hop),
        }
    }

    /// Counts what an attempt of a call may have used of which no answer came, at the highest price,
    /// and leaves that much less for the next one.
    pub(super) fn spend_unanswered(&mut self, position: usize, usage: Usage) {
        let Some(pending) = self.pending.get(position) else { return };
        let offer = self.plan.tools.get(pending.offer);
        let model = offer.and_then(|offer| offer.model.as_ref());
        let price = model.and_then(|model| self.price_ahead(model)).unwrap_or_default();
        let usage = usage.priced(price, Cached::default());
        self.spend(position, usage);
        if let Some(pending) = self.pending.get_mut(position) {
            pending.reserve = pending.reserve.less(usage);
        }
    }

    /// Counts what a pending call used.
    pub(super) fn spend(&mut self, position: usize, usage: Usage) {
        self.usage.add(usage);
        if let Some(pending) = self.pending.get_mut(position) {
            pending.spent.add(usage);
        }
    }

    /// Returns what the awaited turn may have used that is never heard of, by the same rule: its
    /// prompt and the longest reply, at the highest price.
    pub(super) fn unheard_turn(&self) -> Usage {
        let Some(role) = self.awaited_role() else { return Usage::default() };
        if self.submitted.parent.is_none() {
            return Usage::default();
        }
        let price = self.price_ahead(self.model(role));
        let usage = Usage::of_tokens(self.prompts.tokens(self.reader(role)), self.turn_tokens);
        usage.priced(price.unwrap_or_default(), Cached::default())
    }

    /// Returns the highest price that a turn with a model can have, whatever is cached of it.
    fn price_ahead(&self, model: &Name) -> Option<Price> {
        self.plan.prices.get(model).map(|price| price.highest.ahead())
    }

    /// Returns the price of what a model answered, or another one in its place. Of one that stands in
    /// by a team file that is newer than the plan no price is known here, and the highest is taken.
    fn price(&self, asked: &Name, served: Option<&Name>) -> Price {
        let prices = &self.plan.prices;
        if let Some(price) = prices.get(served.unwrap_or(asked)) {
            return price.own;
        }
        let all_known = prices.get(asked).filter(|price| price.unpriced.is_none());
        match all_known {
            Some(price) if self.plan.edition >= 2 => price.highest.ahead(),
            Some(_) | None => Price::default(),
        }
    }

    pub(super) fn tokens_max(&self) -> u64 {
        let limit = self.plan.limits.tokens_max;
        self.submitted.budget.tokens.map_or(limit, |tokens| tokens.min(limit))
    }

    fn cost_max(&self) -> Option<u64> {
        let limit = self.plan.limits.cost_max_nano_usd;
        let asked = self.submitted.budget.cost_nano_usd;
        limit.into_iter().chain(asked).min()
    }

    pub(super) fn calls_max(&self) -> u64 {
        let limit = self.plan.limits.calls_max;
        self.submitted.budget.calls.map_or(limit, |calls| calls.min(limit))
    }

    /// Tokens that are neither used nor set aside.
    fn tokens_left(&self) -> u64 {
        let reserved = self.reserved().fold(0, |sum: u64, share| sum.saturating_add(share.tokens));
        self.tokens_max().saturating_sub(self.usage.total()).saturating_sub(reserved)
    }

    fn cost_left(&self) -> Option<u64> {
        let reserved = self.reserved().filter_map(|share| share.cost_nano_usd);
        let reserved = reserved.fold(0, u64::saturating_add);
        let left = self.cost_max()?.saturating_sub(self.usage.cost_nano_usd);
        Some(left.saturating_sub(reserved))
    }

    pub(super) fn calls_left(&self) -> u64 {
        let reserved = self.reserved().fold(0, |sum: u64, share| sum.saturating_add(share.calls));
        self.calls_max().saturating_sub(self.usage.calls).saturating_sub(reserved)
    }

    fn reserved(&self) -> impl Iterator<Item = Share> {
        self.pending.iter().map(|pending| pending.reserve)
    }
}
