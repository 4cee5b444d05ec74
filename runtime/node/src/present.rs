//! A team as it is at present: the tools that others describe come and go while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Team;
use config::team::TeamTool;
use tokio::time::Instant;
use wire::plan::Labels;
use wire::{EffectClass, Name};

/// Tools of a team that are gone and still called by runs that began with them; those that have
/// been gone for longest go before their time if there are more.
const LEAVING_MAX: usize = 256;

/// How much longer than the longest run a tool that is gone is kept: time for a run that is taken
/// at this moment, and for clocks.
const LEAVE_SLACK: Duration = Duration::from_secs(10);

/// What a change of a team's sources changed of its tools, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Tools that were not there before.
    pub added: Vec<Name>,
    /// Tools that are others under their names.
    pub changed: Vec<Name>,
    /// Tools that are not offered any more.
    pub gone: Vec<Name>,
}

impl Refreshed {
    /// Tells whether all tools are as they were.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The present team, and what runs still need of earlier ones.
pub(crate) struct Present(Mutex<State>);

struct State {
    team: Arc<Team>,
    leaving: BTreeMap<Name, Leaving>,
    /// Why the team is not as its sources are.
    fault: Option<String>,
}

struct Leaving {
    tool: TeamTool,
    until: Instant,
}

impl Present {
    pub(crate) fn new(team: Arc<Team>) -> Self {
        Self(Mutex::new(State { team, leaving: BTreeMap::new(), fault: None }))
    }

    pub(crate) fn team(&self) -> Arc<Team> {
        self.lock().team.clone()
    }

    pub(crate) fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    pub(crate) fn set_fault(&self, fault: Option<String>) {
        self.lock().fault = fault;
    }

    /// Returns a tool that is served: one of the team, or one that earlier runs may still call.
    pub(crate) fn tool(&self, name: &Name) -> Option<TeamTool> {
        self.lock().tool(name).cloned()
    }

    /// Returns what may be repeated of a tool that is served, and its labels.
    pub(crate) fn strictness(&self, name: &Name) -> Option<(EffectClass, Labels)> {
        self.lock().tool(name).map(|tool| (tool.offer.effect, tool.offer.labels))
    }

    pub(crate) fn serves(&self, name: &Name) -> bool {
        let state = self.lock();
        state.team.tools.contains_key(name) || state.leaving.contains_key(name)
    }

    /// Puts a team in place of the present one, and tells what that changes.
    ///
    /// A tool that is gone is served for as long as a run can last that began with it.
    pub(crate) fn replace(&self, team: &Arc<Team>, now: Instant) -> Refreshed {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.team, team.clone());
        state.fault = None;
        let refreshed = difference(&before, team);
        let longest = before.agents.values().map(|plan| plan.limits.deadline_ms).max();
        let until = now + Duration::from_millis(longest.unwrap_or_default()) + LEAVE_SLACK;
        for name in &refreshed.gone {
            let Some(tool) = before.tools.get(name).cloned() else { continue };
            state.leaving.insert(name.clone(), Leaving { tool, until });
        }
        state.leaving.retain(|name, _| !team.tools.contains_key(name));
        while state.leaving.len() > LEAVING_MAX {
            let first = state.leaving.iter().min_by_key(|(_, leaving)| leaving.until);
            let Some(first) = first.map(|(name, _)| name.clone()) else { break };
            state.leaving.remove(&first);
        }
        refreshed
    }

    /// Lets those go whose time is over, and returns the time of the next one.
    pub(crate) fn release(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        state.leaving.retain(|_, leaving| leaving.until > now);
        state.leaving.values().map(|leaving| leaving.until).min()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tool(&self, name: &Name) -> Option<&TeamTool> {
        let left = || self.leaving.get(name).map(|leaving| &leaving.tool);
        self.team.tools.get(name).or_else(left)
    }
}

fn difference(before: &Team, after: &Team) -> Refreshed {
    let mut refreshed = Refreshed::default();
    let names: BTreeSet<&Name> = before.tools.keys().chain(after.tools.keys()).collect();
    for name in names {
        match (before.tools.get(name), after.tools.get(name)) {
            (Some(_), None) => refreshed.gone.push(name.clone()),
            (None, _) => refreshed.added.push(name.clone()),
            (Some(old), Some(new)) if old != new => refreshed.changed.push(name.clone()),
            (Some(_), Some(_)) => {}
        }
    }
    refreshed
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Makes a team that has these tools, each with a description.
    fn team(tools: &[(&str, &str)]) -> Arc<Team> {
        let mut text = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
            [agents.lead]\ninstructions = 'i'\nmodel = 'm'\nlimits = { deadline_ms = 5000 }\n"
            .to_owned();
        for (name, description) in tools {
            let tool = "kind = 'nats'\nsubject = 's'";
            let table = ["[tools.", name, "]\n", tool, "\ndescription = '", description, "'\n"];
            text += &table.concat();
        }
        let files = |_: &Path| Ok("{\"content\": \"Hello.\"}\n".to_owned());
        Arc::new(config::parse(Path::new("t.toml"), &text, &files).unwrap())
    }

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|name| Name::new(name).unwrap()).collect()
    }

    #[test]
    fn a_tool_that_is_gone_is_served_for_as_long_as_a_run_can_last() {
        let served = |present: &Present, list: &[&str]| {
            names(list).iter().map(|name| present.serves(name)).collect::<Vec<_>>()
        };
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let present = Present::new(team(&[("a", "1"), ("b", "1"), ("c", "1")]));
        let refreshed = present.replace(&team(&[("b", "2"), ("c", "1"), ("d", "1")]), start);
        let expected =
            Refreshed { added: names(&["d"]), changed: names(&["b"]), gone: names(&["a"]) };
        assert_eq!(refreshed, expected);
        assert_eq!(served(&present, &["a", "b", "c", "d", "e"]), [true, true, true, true, false]);
        assert_eq!(present.release(after(14)), Some(after(15)));
        // One that comes back is what it is now.
        let again = present.replace(&team(&[("a", "3"), ("c", "1")]), after(14));
        assert_eq!((again.added, again.gone), (names(&["a"]), names(&["b", "d"])));
        assert_eq!(present.tool(&names(&["a"])[0]).unwrap().offer.spec.description, "3");
        assert_eq!(present.release(after(15)), Some(after(29)));
        assert_eq!(present.release(after(29)), None);
        assert_eq!(served(&present, &["a", "b", "c", "d"]), [true, false, true, false]);
        let same = present.replace(&team(&[("a", "3"), ("c", "1")]), after(30));
        assert!(same.is_empty());
    }

    #[test]
    fn tools_that_are_gone_are_few() {
        let all: Vec<String> = (0..LEAVING_MAX + 10).map(|n| format!("t{n}")).collect();
        let all: Vec<(&str, &str)> = all.iter().map(|name| (name.as_str(), "1")).collect();
        let present = Present::new(team(&all[..20]));
        let start = Instant::now();
        present.replace(&team(&all[20..]), start);
        present.replace(&team(&[]), start + Duration::from_secs(1));
        let left: Vec<bool> =
            all.iter().map(|(name, _)| present.serves(&Name::new(name).unwrap())).collect();
        assert_eq!(left.iter().filter(|is_served| **is_served).count(), LEAVING_MAX);
        assert_eq!(left[..20].iter().filter(|is_served| **is_served).count(), 10);
    }
}
