//! Which calls an agent may make by itself, which need leave, and which are refused.

use std::collections::BTreeMap;

use agents_core::permission::Pattern;
use wire::Name;
use wire::plan::{Offer, Permissions};

use super::Compiler;
use crate::raw::{RawFile, RawPermissions};
use crate::suggest::nearest;

impl Compiler<'_> {
    /// Checks the patterns of the team against all that any of its agents may call.
    pub(super) fn team_permissions(&mut self, raw: &RawFile, offers: &BTreeMap<Name, Vec<Offer>>) {
        let all: Vec<&Offer> = offers.values().flatten().collect();
        self.patterns(&["permissions"], &raw.permissions, &all);
    }

    /// Adds the patterns of an agent to those of the team.
    pub(super) fn permissions(
        &mut self,
        name: &Name,
        team: &RawPermissions,
        own: &RawPermissions,
        offers: &[Offer],
    ) -> Permissions {
        let all: Vec<&Offer> = offers.iter().collect();
        self.patterns(&["agents", name.as_str(), "permissions"], own, &all);
        let both = |team: &[String], own: &[String]| [team, own].concat();
        Permissions {
            allow: both(&team.allow, &own.allow),
            allow_tainted: both(&team.allow_tainted, &own.allow_tainted),
            ask: both(&team.ask, &own.ask),
            deny: both(&team.deny, &own.deny),
            by_meaning: true,
        }
    }

    /// Reports patterns that cannot be read, and those that no call can fit: a slip in a `deny`
    /// would otherwise be found too late.
    fn patterns(&mut self, path: &[&str], lists: &RawPermissions, offers: &[&Offer]) {
        let rows = [
            ("allow", &lists.allow),
            ("allow_tainted", &lists.allow_tainted),
            ("ask", &lists.ask),
            ("deny", &lists.deny),
        ];
        for (list, patterns) in rows {
            for (index, text) in patterns.iter().enumerate() {
                let index = index.to_string();
                let at = [path, &[list, &index]].concat();
                match Pattern::parse(text) {
                    Ok(pattern) => self.pattern(&at, text, &pattern, offers),
                    Err(error) => self.fault(
                        &at,
                        format!("pattern {text:?} cannot be read: {error}"),
                        "write the name of a tool, and if wanted conditions: `send_mail(to=*@example.com)`",
                    ),
                }
            }
        }
    }

    fn pattern(&mut self, at: &[&str], text: &str, pattern: &Pattern, offers: &[&Offer]) {
        let named: Vec<&&Offer> =
            offers.iter().filter(|offer| pattern.names(offer.spec.name.as_str())).collect();
        if named.is_empty() {
            if self.may_come(text, &format!("pattern {text:?} fits no tool")) {
                return;
            }
            let offered = offers.iter().map(|offer| offer.spec.name.as_str());
            let tool = text.split('(').next().unwrap_or_default().trim();
            let help = match nearest(tool, offered) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a tool or an agent that may be called here; `*` stands for any text"
                    .to_owned(),
            };
            self.fault(at, format!("pattern {text:?} fits no tool that may be called here"), help);
            return;
        }
        for argument in pattern.arguments() {
            let declared = |offer: &&&Offer| {
                let parameters = &offer.spec.parameters;
                parameters.get("properties").is_some_and(|fields| fields.get(argument).is_some())
                    || parameters.get("additionalProperties").and_then(serde_json::Value::as_bool)
                        != Some(false)
            };
            if !named.iter().any(declared) {
                self.fault(
                    at,
                    format!(
                        "pattern {text:?} names the argument {argument:?}, which no such tool has"
                    ),
                    "name one of the tool's parameters",
                );
            }
        }
    }
}
