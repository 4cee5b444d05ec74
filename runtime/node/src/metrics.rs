//! What of a team and of its node is measured beside spans: how full queues and places are, and what
//! was lost on the way to observers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use telemetry::metrics::{Tell, Watched};
use telemetry::{Metrics, Service};
use wire::Name;

use crate::context::{Shared, TeamContext};
use crate::error::Error;
use crate::herald::Herald;

/// What a queue is of.
const QUEUE: &str = "callboard.queue.name";
/// What was lost.
const ITEM: &str = "callboard.item";
/// The model or the tool.
const PART: &str = "callboard.part";
/// Its name in the team.
const NAME: &str = "callboard.part.name";

/// The word for models among parts.
pub(crate) const MODEL: &str = "model";
/// The word for tools among parts.
pub(crate) const TOOL: &str = "tool";

/// How much of a limit is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) taken: usize,
    pub(crate) limit: usize,
}

/// Asks how busy a part is.
type Ask = Arc<dyn Fn() -> Load + Send + Sync>;

/// How busy the models and tools of a team are: requests in work or waiting for a place.
#[derive(Default)]
pub(crate) struct Loads(Mutex<BTreeMap<(&'static str, Name), Ask>>);

impl Loads {
    /// Has a part asked from here on, in the place of what it was before.
    pub(crate) fn set(
        &self,
        part: &'static str,
        name: &Name,
        ask: impl Fn() -> Load + Send + Sync + 'static,
    ) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert((part, name.clone()), Arc::new(ask));
    }

    /// Forgets a part that is gone.
    pub(crate) fn remove(&self, part: &'static str, name: &Name) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&(part, name.clone()));
    }

    /// Returns how busy all of them are.
    pub(crate) fn all(&self) -> Vec<(&'static str, Name, Load)> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(|((part, name), ask)| (*part, name.clone(), ask())).collect()
    }
}

impl fmt::Debug for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// Has all of a team measured.
pub(crate) fn watch(context: &Arc<TeamContext>) {
    let own = |ask: fn(&TeamContext, Tell<'_>)| {
        let team: Weak<TeamContext> = Arc::downgrade(context);
        move |tell: Tell<'_>| {
            if let Some(team) = team.upgrade() {
                ask(&team, tell);
            }
        }
    };
    let metrics = &context.metrics;
    metrics.watch(
        gauge("callboard.runs", "{run}", "Runs that clients asked for and that have no reply."),
        own(|team, tell| tell(count(team.places.load().taken), &[])),
    );
    metrics.watch(
        gauge("callboard.runs.limit", "{run}", "Runs that the team takes at once."),
        own(|team, tell| tell(count(team.places.load().limit), &[])),
    );
    metrics.watch(
        QUEUE_DEPTH,
        own(|team, tell| {
            for (name, load) in queues(team) {
                tell(count(load.taken), &[(QUEUE, name)]);
            }
        }),
    );
    metrics.watch(
        QUEUE_LIMIT,
        own(|team, tell| {
            for (name, load) in queues(team) {
                tell(count(load.limit), &[(QUEUE, name)]);
            }
        }),
    );
    metrics.watch(
        gauge(
            "callboard.requests",
            "{request}",
            "Requests to a model or a tool that are in work or wait for a place.",
        ),
        own(|team, tell| {
            for (part, name, load) in team.loads.all() {
                tell(count(load.taken), &[(PART, part), (NAME, name.as_str())]);
            }
        }),
    );
    metrics.watch(
        gauge("callboard.requests.limit", "{request}", "Requests that a model or a tool takes."),
        own(|team, tell| {
            for (part, name, load) in team.loads.all() {
                tell(count(load.limit), &[(PART, part), (NAME, name.as_str())]);
            }
        }),
    );
    metrics.watch(
        gauge("callboard.journal.size", "By", "Bytes of the journal's segments."),
        own(|team, tell| tell(team.journal.usage().bytes, &[])),
    );
    metrics.watch(
        DROPPED,
        own(|team, tell| {
            let spans = team.exporter.as_ref().map_or(0, |exporter| exporter.dropped());
            tell(spans, &[(ITEM, "span")]);
        }),
    );
}

/// Measures what the teams of a node have in common, once and not with each of them; it is sent to
/// the receivers of OTLP that any of them names.
pub(crate) fn of_node(shared: &Arc<Shared>, teams: &[config::Team]) -> Result<Metrics, Error> {
    let otlp: BTreeSet<&str> =
        teams.iter().filter_map(|team| team.otlp_endpoint.as_deref()).collect();
    let metrics = Metrics::start(None, &service(shared.node.clone()), otlp)?;
    let own = |ask: fn(&Herald) -> u64, labels: [(&'static str, &'static str); 1]| {
        let shared = Arc::downgrade(shared);
        move |tell: Tell<'_>| {
            if let Some(shared) = shared.upgrade() {
                tell(ask(&shared.herald), &labels);
            }
        }
    };
    let events = [(QUEUE, "events")];
    metrics.watch(QUEUE_DEPTH, own(|herald| count(herald.load().taken), events));
    metrics.watch(QUEUE_LIMIT, own(|herald| count(herald.load().limit), events));
    metrics.watch(DROPPED, own(Herald::lost, [(ITEM, "event")]));
    Ok(metrics)
}

/// Says who measures.
pub(crate) fn service(instance: String) -> Service {
    Service {
        name: "callboard".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance,
    }
}

const QUEUE_DEPTH: Watched = gauge("callboard.queue.depth", "{item}", "What waits in a queue.");
const QUEUE_LIMIT: Watched = gauge("callboard.queue.limit", "{item}", "What a queue takes.");
const DROPPED: Watched = Watched {
    name: "callboard.dropped",
    unit: "{item}",
    description: "Spans that no receiver took, and events that no observer heard of.",
    is_total: true,
};

const fn gauge(name: &'static str, unit: &'static str, description: &'static str) -> Watched {
    Watched { name, unit, description, is_total: false }
}

/// Returns how full the queues of the team are that a run passes.
fn queues(team: &TeamContext) -> [(&'static str, Load); 3] {
    let spans = team.exporter.as_ref().map_or(0, |exporter| exporter.queued());
    [
        ("journal", Load { taken: team.journal.waiting().0, limit: team.journal.queue_max() }),
        ("store", team.projector.load()),
        ("spans", Load { taken: spans, limit: telemetry::QUEUE_SPANS_MAX }),
    ]
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use telemetry::metrics::text;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn queues_and_places_are_measured() {
        let data = tempfile::tempdir().unwrap();
        let team = testing::open(data.path());
        let name = Name::new("calculate").unwrap();
        team.loads.set("tool", &name, || Load { taken: 2, limit: 9 });
        let _place = team.places.admit(1).unwrap();
        let read = || text([&*team.metrics]).unwrap();
        let told = read();
        for expected in [
            "callboard_runs{callboard_team=\"quickstart\"} 1",
            "callboard_queue_depth{callboard_queue_name=\"journal\",callboard_team=\"quickstart\"} 0",
            "callboard_queue_limit{callboard_queue_name=\"store\",callboard_team=\"quickstart\"} 4096",
            "callboard_requests{callboard_part=\"tool\",callboard_part_name=\"calculate\",callboard_team=\"quickstart\"} 2",
            "callboard_requests_limit{callboard_part=\"tool\",callboard_part_name=\"calculate\",callboard_team=\"quickstart\"} 9",
            "callboard_dropped_total{callboard_item=\"span\",callboard_team=\"quickstart\"} 0",
        ] {
            assert!(told.lines().any(|line| line == expected), "{expected} in\n{told}");
        }
        let entries = |text: &str| {
            let line =
                text.lines().find(|line| line.starts_with("callboard_journal_entries_total"));
            line.map(str::to_owned)
        };
        team.loads.remove("tool", &name);
        let session = wire::SessionId::new("s").unwrap();
        team.journal.append(&session, 0, vec!["x".into()]).await.unwrap();
        let told = read();
        assert!(!told.contains("callboard_part_name"), "{told}");
        assert!(entries(&told).is_some_and(|line| !line.ends_with(" 0")), "{told}");
    }

    #[tokio::test]
    async fn what_teams_have_in_common_is_told_once() {
        let data = tempfile::tempdir().unwrap();
        let teams = ["one", "two"].map(|name| testing::open(&data.path().join(name)));
        let node = of_node(&teams[0].shared, &[]).unwrap();
        let told = text(teams.iter().map(|team| &*team.metrics).chain([&node])).unwrap();
        for expected in [
            "callboard_queue_depth{callboard_queue_name=\"events\"} 0",
            "callboard_queue_limit{callboard_queue_name=\"events\"} 8192",
            "callboard_dropped_total{callboard_item=\"event\"} 0",
        ] {
            let (series, _) = expected.split_once('}').unwrap();
            let found: Vec<&str> = told.lines().filter(|line| line.starts_with(series)).collect();
            assert_eq!(found, [expected], "in\n{told}");
        }
    }
}
