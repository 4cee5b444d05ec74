//! What follows if nobody knows whether a call of a tool took effect.

use std::collections::BTreeMap;

use tools::ToolKind;
use wire::plan::{Labels, OnUnknown, Probe};
use wire::{Capture, EffectClass, Name};

use super::Compiler;
use crate::raw::RawTool;
use crate::team::TeamTool;

/// What a team file says of a tool for the case of doubt.
pub(super) struct Doubt {
    key_ttl_ms: Option<u64>,
    probe: Option<String>,
    on_unknown: Option<OnUnknown>,
}

impl Doubt {
    pub(super) fn of(raw: &RawTool) -> Self {
        Self { key_ttl_ms: raw.key_ttl_ms, probe: raw.probe.clone(), on_unknown: raw.on_unknown }
    }
}

/// Gives tools that have a probe its labels too, since it is told the arguments of a call and what
/// it says becomes the result: words of strangers stay such, private data stays private, and what
/// is told elsewhere is told elsewhere. Nor do traces hold more of the calls than of the probe's.
pub(super) fn label_by_probes(tools: &mut BTreeMap<Name, TeamTool>) {
    let said: BTreeMap<Name, (Labels, Option<Capture>)> = tools
        .iter()
        .map(|(name, tool)| (name.clone(), (tool.offer.labels, tool.offer.capture)))
        .collect();
    for tool in tools.values_mut() {
        let probe = tool.offer.probe.as_ref().and_then(|probe| said.get(&probe.tool));
        let Some((labels, capture)) = probe else { continue };
        let own = &mut tool.offer.labels;
        own.untrusted |= labels.untrusted;
        own.private |= labels.private;
        own.external |= labels.external;
        let captures = [tool.offer.capture, *capture];
        tool.offer.capture = captures.into_iter().flatten().min();
    }
}

impl Compiler<'_> {
    /// Puts what is said for the case of doubt into the offer of a tool.
    pub(super) fn doubt(
        &mut self,
        name: &Name,
        doubt: Doubt,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) {
        let Some(tool) = tools.get(name) else { return };
        let effect = tool.offer.effect;
        // What does not belong to a tool of the runtime has been reported.
        if matches!(tool.kind, ToolKind::Builtin(_)) {
            return;
        }
        let at = |field| ["tools", name.as_str(), field];
        if doubt.key_ttl_ms.is_some() && effect != EffectClass::Idempotent {
            self.fault_at_key(
                &at("key_ttl_ms"),
                format!("`key_ttl_ms` is for tools that are made again under their key, and `{name}` has the effect `{}`", effect.as_str()),
                "remove it, or write `effect = \"idempotent\"`",
            );
        }
        let said = [("probe", doubt.probe.is_some()), ("on_unknown", doubt.on_unknown.is_some())];
        for (field, _) in said.iter().filter(|(_, is_said)| *is_said && effect == EffectClass::Read)
        {
            self.fault_at_key(
                &at(field),
                format!("`{field}` is for tools that change something, and `{name}` has the effect `read`"),
                "remove it, or write another `effect`",
            );
        }
        let probe = doubt.probe.and_then(|text| self.probe(name, &text, tools));
        if let Some(tool) = tools.get_mut(name) {
            tool.offer.key_ttl_ms = doubt.key_ttl_ms;
            tool.offer.on_unknown = doubt.on_unknown.unwrap_or_default();
            tool.offer.probe = probe;
        }
    }

    fn probe(
        &mut self,
        name: &Name,
        text: &str,
        tools: &BTreeMap<Name, TeamTool>,
    ) -> Option<Probe> {
        let at = ["tools", name.as_str(), "probe"];
        let probe = self.reference("tools", text, &at)?;
        // One with faults of its own has been reported.
        let tool = tools.get(&probe)?;
        let offer = &tool.offer;
        let is_known = match &tool.kind {
            ToolKind::Mcp(spec) => !self.unlisted.contains_key(&spec.server),
            ToolKind::Builtin(_)
            | ToolKind::CloudEvent(_)
            | ToolKind::Command(_)
            | ToolKind::Http(_)
            | ToolKind::Model(_)
            | ToolKind::Nats(_)
            | ToolKind::Query(_) => true,
        };
        if is_known && offer.effect != EffectClass::Read {
            self.fault(
                &at,
                format!("probe `{probe}` has the effect `{}`", offer.effect.as_str()),
                "a probe changes nothing: name a tool with the effect `read`",
            );
        }
        let parameters = offer.spec.parameters.get("properties");
        let takes = |parameter: &str| {
            parameters.is_some_and(|properties| properties.get(parameter).is_some())
        };
        if is_known && !takes("key") {
            self.fault(
                &at,
                format!("probe `{probe}` has no parameter `key`"),
                "a probe is given the key of the call as `key`, and its arguments as `arguments` if it has such a parameter",
            );
        }
        Some(Probe {
            tool: probe.clone(),
            takes_arguments: takes("arguments"),
            timeout_ms: offer.timeout_ms,
        })
    }
}
