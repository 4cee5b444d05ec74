//! What comes in by tools and what goes out, and agents that would have too much of it together.

use std::collections::BTreeMap;

use agents_core::permission::may_pass;
use tools::ToolKind;
use wire::Name;
use wire::plan::{Labels, Offer, Plan, Target};

use super::Compiler;
use super::called::reachable;
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
            let source = match &tool.kind {
                ToolKind::Mcp(spec) => Some(("mcp", &spec.server)),
                ToolKind::Nats(spec) => spec.source.as_ref().map(|source| ("discover", source)),
                ToolKind::CloudEvent(spec) => Some(("eventtypes", &spec.source.name)),
                ToolKind::Http(_) => of_interfaces.get(name).map(|table| ("openapi", table)),
                ToolKind::Builtin(_)
                | ToolKind::Command(_)
                | ToolKind::Model(_)
                | ToolKind::Query(_) => None,
            };
            let tables = [Some(("tools", name)), source].into_iter().flatten();
            let said = tables.filter_map(|(table, name)| self.0.get(&(table, name.to_string())));
            tool.offer.capture = said.clone().find_map(|raw| raw.capture);
            let said = |of: fn(&RawLabels) -> Option<bool>| said.clone().find_map(of);
            let of_kind = tool.kind.labels(tool.offer.effect);
            tool.offer.labels = Labels {
                untrusted: said(|raw| raw.untrusted_output).unwrap_or(of_kind.untrusted),
                private: said(|raw| raw.private_output).unwrap_or(of_kind.private),
                external: said(|raw| raw.external_effect).unwrap_or(of_kind.external),
            };
        }
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
        let mixes: BTreeMap<&Name, Mix<'_>> =
            plans.keys().filter_map(|agent| Some((agent, mix(agent, plans)?))).collect();
        for (agent, Mix { untrusted, private, external }) in &mixes {
            let accepts = raw.get(agent.as_str()).is_some_and(|raw| raw.accept_risk.is_some());
            // Where a called agent has all three by itself, it is that one that has to say so.
            let below = reachable(agent, plans);
            if accepts || below.iter().any(|other| other != *agent && mixes.contains_key(other)) {
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
}

/// Returns what an agent has within reach, if there are tools of all three sorts.
fn mix<'p>(agent: &Name, plans: &'p BTreeMap<Name, Plan>) -> Option<Mix<'p>> {
    let below = reachable(agent, plans);
    let plans: Vec<&Plan> = below.iter().filter_map(|name| plans.get(name)).collect();
    let offers =
        || plans.iter().flat_map(|plan| plan.tools.iter().map(move |offer| (*plan, offer)));
    let tools = || offers().filter(|(_, offer)| offer.target == Target::Tool);
    let named = |(_, offer): (&Plan, &'p Offer)| &offer.spec.name;
    let untrusted = tools().find(|(_, offer)| offer.labels.untrusted).map(named)?;
    let private = tools().find(|(_, offer)| offer.labels.private).map(named)?;
    let free = |(plan, offer): &(&Plan, &Offer)| {
        offer.labels.external && may_pass(&plan.permissions, offer)
    };
    let external: Vec<&Name> = tools().filter(free).map(named).collect();
    (!external.is_empty()).then_some(Mix { untrusted, private, external })
}
