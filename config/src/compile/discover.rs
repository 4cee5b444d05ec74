//! Services that are discovered, and the tools that the team has of them.

use std::collections::BTreeMap;

use agents_core::permission::Glob;
use tools::http::BodyTemplate;
use tools::nats::{Described, NatsSpec};
use tools::schema::check_parameters;
use tools::{ToolKind, team_name};
use wire::subject::service_of;
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use super::coming::{ALL, Source};
use super::tools::{concurrency, offer};
use crate::bound::{DESCRIPTION_BYTES_MAX, RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS};
use crate::raw::RawDiscover;
use crate::team::{Discovery, TeamTool};

/// The services to look for, with what is said of their tools.
pub(super) type Discoveries = BTreeMap<Name, Discovered>;

/// One table, with what is said of the tools of its services.
pub(super) struct Discovered {
    pub(super) discovery: Discovery,
    prefix: String,
    effect: EffectClass,
    timeout_ms: u64,
    response_bytes_max: usize,
}

impl Compiler<'_> {
    pub(super) fn discoveries(
        &mut self,
        team: Option<&Name>,
        raw: BTreeMap<String, RawDiscover>,
    ) -> Discoveries {
        let mut discoveries = Discoveries::new();
        for (name, raw) in self.named("discover", raw) {
            let path = ["discover", name.as_str()];
            let prefix = self.prefix(&path, raw.prefix);
            self.expect_tools(&Source::Services(name.clone()), &prefix, &[ALL.to_owned()]);
            let what = "the name of a NATS service, with `*` for any text";
            let Some(service) = self.needed(&path, "service", raw.service, what) else { continue };
            let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-*?".contains(c);
            let own = team.map(service_of);
            let fault = if !service.chars().all(is_letter) {
                Some(format!("{service:?} is no name of a service"))
            } else if own.is_some_and(|own| own == service) {
                Some(format!("{service:?} is the service of the team itself"))
            } else {
                None
            };
            if let Some(fault) = fault {
                let at = ["discover", name.as_str(), "service"];
                self.fault(&at, fault, "use letters, digits, `_` and `-`, and `*` for any text");
            }
            let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
            let discovered = Discovered {
                discovery: discovery(&service),
                prefix,
                effect: raw.effect.unwrap_or_default(),
                timeout_ms: raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default),
                response_bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
            };
            discoveries.insert(name, discovered);
        }
        discoveries
    }

    /// Adds the tools of the services that are there. One that cannot be offered is left out.
    pub(super) fn discovered_tools(
        &mut self,
        discoveries: &Discoveries,
        found: &BTreeMap<Name, Vec<Described>>,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) {
        let found = |name: &Name| found.get(name).map(Vec::as_slice).unwrap_or_default();
        let all = discoveries.iter().flat_map(|(name, discovered)| {
            found(name).iter().map(|described| discovered.plain(described))
        });
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for plain in all {
            *counts.entry(plain).or_default() += 1;
        }
        for (name, discovered) in discoveries {
            for described in found(name) {
                let plain = discovered.plain(described);
                // A name that several would have is nobody's, so that none is called by the name
                // under which another one was granted.
                let is_alone = counts.get(&plain) == Some(&1);
                let is_free = is_alone && !self.is_taken(&plain, tools);
                let identity =
                    if is_alone { discovered.own(described) } else { identity(described) };
                let tool = match team_name(&plain, is_free, &identity) {
                    Some(offered) if !self.is_taken(offered.as_str(), tools) => {
                        tool_of(&offered, name, discovered, described)
                    }
                    Some(_) | None => Err("another tool has its name".to_owned()),
                };
                match tool {
                    Ok(tool) => drop(tools.insert(tool.offer.spec.name.clone(), tool)),
                    Err(fault) => self.left_out.push(format!(
                        "endpoint {} of service {} is not offered: {fault}",
                        described.endpoint, described.service
                    )),
                }
            }
        }
        self.too_many(&["discover"], tools);
    }
}

impl Discovered {
    /// Returns what an endpoint is called; endpoints of several services may have one name.
    fn own(&self, described: &Described) -> String {
        match &self.discovery.literal {
            Some(_) => described.endpoint.clone(),
            None => format!("{}_{}", described.service, described.endpoint),
        }
    }

    /// Returns the name of the tool that an endpoint is, as long as no other one would have it.
    fn plain(&self, described: &Described) -> String {
        format!("{}{}", self.prefix, Name::cleaned(&self.own(described)))
    }
}

/// Says which endpoint it is, whatever the tool is called.
fn identity(described: &Described) -> String {
    let Described { service, endpoint, subject, .. } = described;
    [service.as_str(), endpoint, subject].join("\n")
}

fn discovery(service: &str) -> Discovery {
    let literal = (!service.contains(['*', '?'])).then(|| service.to_owned());
    Discovery { service: Glob::parse(service), literal }
}

fn tool_of(
    name: &Name,
    source: &Name,
    discovered: &Discovered,
    described: &Described,
) -> Result<TeamTool, String> {
    let parameters = described.parameters()?;
    check_parameters(&parameters)?;
    let spec = NatsSpec {
        source: Some(source.clone()),
        subject: described.subject.clone(),
        headers: Vec::new(),
        body: BodyTemplate::Arguments,
        response_bytes_max: discovered.response_bytes_max,
    };
    let faults = spec.check(&parameters);
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let text = described.description.trim();
    let kept = text.get(..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)).unwrap_or(text);
    let spec_of_tool = ToolSpec { name: name.clone(), description: kept.to_owned(), parameters };
    Ok(TeamTool {
        offer: offer(spec_of_tool, discovered.effect, discovered.timeout_ms),
        kind: ToolKind::Nats(spec),
        concurrency: concurrency(),
    })
}
