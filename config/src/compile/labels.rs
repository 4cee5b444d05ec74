//! What comes in by tools and what goes out, and agents that would have too much of it together.

use std::collections::{BTreeMap, BTreeSet};

use agents_core::permission::may_pass;
use tools::ToolKind;
use wire::plan::{Labels, Offer, Plan, Target};
use wire::{Capture, Name};

use super::Compiler;
use super::called::{reachable, reachable_without};
use crate::raw::{RawAgent, RawFile, RawLabels};
use crate::team::TeamTool;

/// The most tools that are named as those that act outside; the rest is hinted at.
const EXTERNAL_LISTED_MAX: usize = 8;

/// What a team file says of the labels of tools, by the table and the name of its entry.
pub(super) struct Labelling(BTreeMap<(&'static str, String), RawLabels>);

impl Labelling {
    pub(super) fn of(raw: &RawFile) -> Self {
        let mut said = BTreeMap::new();
        let RawFile { tools, mcp, discover, eventtypes, openapi, .. } = raw;
        said.extend(tools.iter().map(|(name, raw)| (("tools", name.clone()), raw.labels())));
        said.extend(mcp.iter().map(|(name, raw)| (("mcp", name.clone()), raw.labels())));
        said.extend(discover.iter().map(|(name, raw)| (("discover", name.clone()), raw.labels())));
        said.extend(openapi.iter().map(|(name, raw)| (("openapi", name.clone()), raw.labels())));
        said.extend(
            eventtypes.iter().map(|(name, raw)| (("eventtypes", name.clone()), raw.labels())),
        );
        Self(said)
    }

    /// Labels all tools: by their own tables, by those of their sources, by their kinds; and says
    /// how much traces may hold of them.
    /// `of_interfaces` names the interfaces of those that have one.
    pub(super) fn apply(
        &self,
        of_interfaces: &BTreeMap<Name, Name>,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) {
        for (name, tool) in tools {
            let interface = of_interfaces.get(name);
            tool.offer.capture = self.capture(name, tool, interface);
            let of_kind = tool.kind.labels(tool.offer.effect);
            tool.offer.labels = self.labels(name, tool, interface, of_kind);
        }
    }

    /// Returns how much traces may hold of a tool at most, if a table says so.
    pub(super) fn capture(
        &self,
        name: &Name,
        tool: &TeamTool,
        interface: Option<&Name>,
    ) -> Option<Capture> {
        self.said(name, tool, interface).filter_map(|raw| raw.capture).min()
    }

    /// Returns the labels of a tool, which are as `rest` has them where no table says anything.
    pub(super) fn labels(
        &self,
        name: &Name,
        tool: &TeamTool,
        interface: Option<&Name>,
        rest: Labels,
    ) -> Labels {
        let said =
            |of: fn(&RawLabels) -> Option<bool>| self.said(name, tool, interface).find_map(of);
        Labels {
            untrusted: said(|raw| raw.untrusted_output).unwrap_or(rest.untrusted),
            private: said(|raw| raw.private_output).unwrap_or(rest.private),
            external: said(|raw| raw.external_effect).unwrap_or(rest.external),
        }
    }

    /// Returns what is said of a tool: in its own table, then in that of its source.
    fn said(
        &self,
        name: &Name,
        tool: &TeamTool,
        interface: Option<&Name>,
    ) -> impl Iterator<Item = &RawLabels> {
        let source = match &tool.kind {
            ToolKind::Mcp(spec) => Some(("mcp", &spec.server)),
            ToolKind::Nats(spec) => spec.source.as_ref().map(|source| ("discover", source)),
            ToolKind::CloudEvent(spec) => Some(("eventtypes", &spec.source.name)),
            ToolKind::Http(_) => interface.map(|table| ("openapi", table)),
            ToolKind::Builtin(_)
            | ToolKind::Command(_)
            | ToolKind::Model(_)
            | ToolKind::Query(_) => None,
        };
        let found = |(table, name): (&'static str, &Name)| self.0.get(&(table, name.to_string()));
        [found(("tools", name)), source.and_then(found)].into_iter().flatten()
    }
}

/// The tools by which an agent can be turned against its owner.
struct Mix<'p> {
    untrusted: &'p Name,
    private: &'p Name,
    /// All that can be called without leave.
    external: Vec<&'p Name>,
}

impl Compiler<'_> {
    /// Reports agents by which somebody who writes what they read could have private data sent, or
    /// something done, without a person seeing it.
    pub(super) fn rule_of_two(
        &mut self,
        raw: &BTreeMap<String, RawAgent>,
        plans: &BTreeMap<Name, Plan>,
    ) {
        let mixes: BTreeMap<&Name, Mix<'_>> = plans
            .keys()
            .filter_map(|agent| Some((agent, self.mix(&reachable(agent, plans), plans)?)))
            .collect();
        for (agent, Mix { untrusted, private, external }) in &mixes {
            let accepts = raw.get(agent.as_str()).is_some_and(|raw| raw.accept_risk.is_some());
            if accepts || self.is_up_to_others(agent, plans, &mixes) {
                continue;
            }
            let listed = |mark: char| {
                let shown = external.iter().take(EXTERNAL_LISTED_MAX);
                let mut shown: Vec<String> =
                    shown.map(|name| format!("{mark}{name}{mark}")).collect();
                shown.extend((external.len() > EXTERNAL_LISTED_MAX).then(|| "..".to_owned()));
                shown.join(", ")
            };
            let message = format!(
                "agent {agent} can read what strangers write (`{untrusted}`), read private data \
                 (`{private}`), and act outside without leave ({})",
                listed('`')
            );
            let help = format!(
                "take one of the three away; or let a person allow what goes outside, with \
                 `ask = [{}]` in `permissions`; or correct what a tool is said to be, with \
                 `untrusted_output`, `private_output` and `external_effect`; or say with \
                 `accept_risk` why it is fine",
                listed('"')
            );
            self.fault_at_key(&["agents", agent.as_str()], message, help);
        }
    }

    /// Tells whether it is for agents that an agent calls to say why all three are fine: those have
    /// them by themselves, and without those this one does not. One that can call it in turn is none
    /// of them, since each of the two would leave it to the other.
    fn is_up_to_others(
        &self,
        agent: &Name,
        plans: &BTreeMap<Name, Plan>,
        mixes: &BTreeMap<&Name, Mix<'_>>,
    ) -> bool {
        let below = reachable(agent, plans);
        let others: BTreeSet<&Name> = below
            .iter()
            .filter(|other| mixes.contains_key(other) && !reachable(other, plans).contains(agent))
            .collect();
        !others.is_empty() && self.mix(&reachable_without(&others, agent, plans), plans).is_none()
    }

    /// Returns what is within reach of agents together, if there are tools of all three sorts. Of a
    /// tool that is not known yet only what the file says counts; the rest is seen once it is known.
    fn mix<'p>(&self, agents: &BTreeSet<Name>, plans: &'p BTreeMap<Name, Plan>) -> Option<Mix<'p>> {
        let plans: Vec<&Plan> = agents.iter().filter_map(|name| plans.get(name)).collect();
        let offers =
            || plans.iter().flat_map(|plan| plan.tools.iter().map(move |offer| (*plan, offer)));
        let tools = || offers().filter(|(_, offer)| offer.target == Target::Tool);
        let named = |(_, offer): (&Plan, &'p Offer)| &offer.spec.name;
        let labels = |offer: &Offer| *self.unknown.get(&offer.spec.name).unwrap_or(&offer.labels);
        let untrusted = tools().find(|(_, offer)| labels(offer).untrusted).map(named)?;
        let private = tools().find(|(_, offer)| labels(offer).private).map(named)?;
        let free = |(plan, offer): &(&Plan, &Offer)| {
            labels(offer).external && may_pass(&plan.permissions, offer)
        };
        let mut external: Vec<&Name> = tools().filter(free).map(named).collect();
        // Several agents may call the same tool.
        let mut listed = BTreeSet::new();
        external.retain(|name| listed.insert(*name));
        (!external.is_empty()).then_some(Mix { untrusted, private, external })
    }
}
