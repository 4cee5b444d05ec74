//! NATS services that describe themselves, whose endpoints are tools while they are there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bus::{Bus, Endpoint, ServiceInfo, find_services};
use config::team::Discovery;
use config::{Sources, Team};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tools::nats::Described;
use tracing::debug;
use wire::subject::{SERVICE_PREFIX, service_of};
use wire::{Name, Route, Subjects};

use crate::sources::Source;

/// The key under which the metadata of an endpoint has the JSON Schema of what it takes.
const SCHEMA: &str = "schema";

/// The key under which the metadata of an endpoint says what it does.
const DESCRIPTION: &str = "description";

/// Looks in a row in which an endpoint is not seen before it counts as gone: an instance that is
/// busy for a moment does not answer in time.
const MISSES_MAX: u32 = 2;

/// Endpoints that one table may find; a team has no room for more tools.
const FOUND_MAX: usize = 1024;

/// An endpoint of a table: which table, which service, which endpoint, on which subject.
type Key = (Name, String, String, String);

/// The services that a team looks for.
pub(crate) struct Services {
    bus: Bus,
    subjects: Subjects,
    team: Name,
    wanted: BTreeMap<Name, Discovery>,
    missed: BTreeMap<Key, u32>,
}

impl Services {
    pub(crate) fn new(team: &Team, bus: &Bus, subjects: &Subjects) -> Self {
        let (bus, subjects) = (bus.clone(), subjects.clone());
        let (team, wanted) = (team.name.clone(), team.discover.clone());
        Self { bus, subjects, team, wanted, missed: BTreeMap::new() }
    }

    /// Asks who is there: by name where all names are known.
    async fn ask(&self) -> Result<Vec<ServiceInfo>, bus::Error> {
        let literals: Option<Vec<&String>> =
            self.wanted.values().map(|wanted| wanted.literal.as_ref()).collect();
        let Some(literals) = literals else { return find_services(&self.bus, None).await };
        let mut found = Vec::new();
        for name in literals {
            found.extend(find_services(&self.bus, Some(name)).await?);
        }
        Ok(found)
    }

    async fn changed(&mut self, sources: &mut Sources) -> bool {
        // What is asked while the server is away stays in the client, and in the end there is no room
        // for anything else.
        if !self.bus.is_connected() {
            return false;
        }
        let infos = match self.ask().await {
            Ok(infos) if self.bus.is_connected() => infos,
            Ok(_) => return false,
            // Who cannot be asked at present is not gone for that.
            Err(error) => {
                debug!(team = %self.team, %error, "services cannot be asked");
                return false;
            }
        };
        let mut is_changed = false;
        for (name, wanted) in &self.wanted {
            let seen = self.described(wanted, &infos);
            let known = sources.services.get(name).map(Vec::as_slice).unwrap_or_default();
            let merged = merged(name, known, seen, &mut self.missed);
            if merged != known {
                sources.services.insert(name.clone(), merged);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Returns the endpoints of a table that can be tools, in order of their names.
    fn described(&self, wanted: &Discovery, infos: &[ServiceInfo]) -> Vec<Described> {
        let mut instances: Vec<&ServiceInfo> =
            infos.iter().filter(|info| wants(wanted, &info.name)).collect();
        // Where instances differ, the newest version says what its service is.
        instances.sort_by_cached_key(|info| (info.name.as_str(), Reverse(version(&info.version))));
        // Of which instance each endpoint is taken, by its service and its name.
        let mut taken_of: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut found: BTreeMap<(&str, &str, &str), Described> = BTreeMap::new();
        for (instance, info) in instances.into_iter().enumerate() {
            for endpoint in &info.endpoints {
                let (service, name) = (info.name.as_str(), endpoint.name.as_str());
                let is_of_another =
                    taken_of.get(&(service, name)).is_some_and(|taken_of| *taken_of != instance);
                // In one instance, groups may have endpoints of one name on subjects of their own.
                let key = (service, name, endpoint.subject.as_str());
                if is_of_another || found.contains_key(&key) || found.len() == FOUND_MAX {
                    continue;
                }
                if let Some(described) = self.described_by(info, endpoint) {
                    taken_of.insert((service, name), instance);
                    found.insert(key, described);
                }
            }
        }
        found.into_values().collect()
    }

    fn described_by(&self, info: &ServiceInfo, endpoint: &Endpoint) -> Option<Described> {
        let schema = endpoint.metadata.get(SCHEMA)?.clone();
        // Of teams only runs of agents can be asked for: other subjects of the runtime have forms
        // of their own, and some decide for people.
        if self.subjects.owns(&endpoint.subject) {
            let route = self.subjects.parse(&endpoint.subject);
            let of_that_team = |route: &Route| {
                matches!(route, Route::AgentRun { team, .. }
                    if *team != self.team && info.name == service_of(team))
            };
            route.filter(of_that_team)?;
        }
        let said = endpoint.metadata.get(DESCRIPTION).filter(|text| !text.trim().is_empty());
        Some(Described {
            service: info.name.clone(),
            endpoint: endpoint.name.clone(),
            subject: endpoint.subject.clone(),
            description: said.unwrap_or(&info.description).clone(),
            schema,
        })
    }
}

impl Source for Services {
    fn look<'a>(&'a mut self, sources: &'a mut Sources) -> BoxFuture<'a, bool> {
        self.changed(sources).boxed()
    }
}

/// Tells whether a table finds a service. Teams are found by their whole names only.
fn wants(wanted: &Discovery, service: &str) -> bool {
    match &wanted.literal {
        Some(literal) => literal == service,
        None => !service.starts_with(SERVICE_PREFIX) && wanted.service.matches(service),
    }
}

/// Adds to what is seen what was seen a moment ago.
fn merged(
    table: &Name,
    known: &[Described],
    seen: Vec<Described>,
    missed: &mut BTreeMap<Key, u32>,
) -> Vec<Described> {
    let present: BTreeSet<(&str, &str)> = seen.iter().map(name_of).collect();
    let mut kept = Vec::new();
    for described in known {
        let Described { service, endpoint, subject, .. } = described;
        let key = (table.clone(), service.clone(), endpoint.clone(), subject.clone());
        if present.contains(&name_of(described)) {
            missed.remove(&key);
            continue;
        }
        let times = missed.entry(key.clone()).or_default();
        *times += 1;
        if *times < MISSES_MAX {
            kept.push(described.clone());
        } else {
            missed.remove(&key);
        }
    }
    let mut merged = seen;
    merged.append(&mut kept);
    let key = |one: &Described| (one.service.clone(), one.endpoint.clone(), one.subject.clone());
    merged.sort_by_cached_key(key);
    merged
}

/// Returns the names of a service and of its endpoint, which may be on several subjects.
fn name_of(described: &Described) -> (&str, &str) {
    (&described.service, &described.endpoint)
}

/// Reads the numbers of a version, of which the last ones may be missing.
fn version(text: &str) -> Vec<u64> {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    core.split('.').map(|number| number.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bus::NatsOptions;
    use bus::testing::NatsServer;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    fn team(service: &str) -> Team {
        let text = format!(
            "[team]\nname = 'own'\n[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
             [agents.a]\ninstructions = 'i'\nmodel = 'm'\n[discover.d]\nservice = '{service}'\n"
        );
        let files = |_: &std::path::Path| Ok("{\"content\": \"Hello.\"}\n".to_owned());
        config::parse("t.toml".as_ref(), &text, &files).unwrap()
    }

    /// Name, subject and metadata of an endpoint.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn info(name: &str, version: &str, endpoints: &[Row<'_>]) -> ServiceInfo {
        let endpoint = |(name, subject, metadata): &Row<'_>| Endpoint {
            name: (*name).to_owned(),
            subject: (*subject).to_owned(),
            queue_group: "q".to_owned(),
            metadata: metadata
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        ServiceInfo {
            name: name.to_owned(),
            id: "1".to_owned(),
            version: version.to_owned(),
            description: "all of it".to_owned(),
            started: String::new(),
            metadata: BTreeMap::new(),
            endpoints: endpoints.iter().map(endpoint).collect(),
        }
    }

    fn found(service: &str, infos: &[ServiceInfo]) -> Vec<(String, String)> {
        let team = team(service);
        let services = Services::new(&team, &Bus::local(), &Subjects::default());
        let described = services.described(&team.discover["d"], infos);
        described.into_iter().map(|one| (one.subject, one.description)).collect()
    }

    #[tokio::test]
    async fn nobody_is_asked_while_the_server_is_away() {
        let mut server = NatsServer::start("").await.unwrap();
        let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
        let mut services = Services::new(&team("*"), &bus, &Subjects::default());
        let mut sources = Sources::default();
        assert_eq!(services.changed(&mut sources).now_or_never(), None, "it asks");
        server.stop().unwrap();
        let lost = async {
            while bus.is_connected() {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), lost).await.expect("the loss is seen");
        assert_eq!(services.changed(&mut sources).now_or_never(), Some(false));
    }

    #[test]
    fn endpoints_with_a_schema_are_found_by_the_names_of_their_services() {
        let schema = ("schema", "{}");
        let said = ("description", "looks up");
        let lookup: Row<'_> = ("lookup", "orders.lookup", &[schema, said]);
        let orders = info("orders", "1.2.0", &[lookup, ("plain", "orders.plain", &[])]);
        let older = info("orders", "1.1.9", &[("lookup", "orders.old", &[schema])]);
        let other = info("other", "1.0.0", &[("x", "other.x", &[schema])]);
        let agent = "callboard.v1.other.agent.lead.run";
        let crew: &[Row<'_>] = &[
            ("agent-lead", agent, &[schema]),
            ("tool-x", "callboard.v1.other.tool.x", &[schema]),
            ("call", "callboard.v1.own.call.k.approve", &[schema]),
            ("self", "callboard.v1.own.agent.a.run", &[schema]),
        ];
        let team = info("callboard-other", "0.1.0", crew);
        let liar = info("liar", "1.0.0", crew);
        let groups: &[Row<'_>] = &[("list", "v2.list", &[schema]), ("list", "v1.list", &[schema])];
        let (grouped, again) = (info("grouped", "1.0.0", groups), info("grouped", "1.0.0", groups));
        let before = info("grouped", "0.9.0", &[("list", "v0.list", &[schema])]);
        // What has no schema does not hide what an older version has.
        let bare = info("half", "2.0.0", &[("x", "half.bare", &[])]);
        let half = info("half", "1.0.0", &[("x", "half.x", &[schema])]);
        let all = [older, other, orders, team, liar, before, grouped, again, bare, half];
        let pair = |subject: &str, text: &str| (subject.to_owned(), text.to_owned());
        let cases = [
            ("orders", vec![pair("orders.lookup", "looks up")]),
            ("o*", vec![pair("orders.lookup", "looks up"), pair("other.x", "all of it")]),
            ("callboard-*", vec![]),
            ("callboard-other", vec![pair(agent, "all of it")]),
            ("liar", vec![]),
            ("grouped", vec![pair("v1.list", "all of it"), pair("v2.list", "all of it")]),
            ("half", vec![pair("half.x", "all of it")]),
            ("none", vec![]),
        ];
        for (service, expected) in cases {
            assert_eq!(found(service, &all), expected, "{service}");
        }
    }

    #[test]
    fn an_endpoint_is_gone_once_it_was_missed_twice() {
        let table = Name::new("d").unwrap();
        let one = |endpoint: &str| Described {
            service: "s".to_owned(),
            endpoint: endpoint.to_owned(),
            subject: format!("s.{endpoint}"),
            description: String::new(),
            schema: "{}".to_owned(),
        };
        let at = |subject: &str| Described { subject: subject.to_owned(), ..one("c") };
        let (a, b) = (one("a"), one("b"));
        let (first, second) = (at("1"), at("2"));
        let mut missed = BTreeMap::new();
        let both = vec![a.clone(), b.clone()];
        let groups = vec![first.clone(), second.clone()];
        let looks: [(Vec<Described>, &[Described]); 11] = [
            (groups.clone(), &groups),
            (Vec::new(), &groups),
            (vec![second.clone()], std::slice::from_ref(&second)),
            (vec![first.clone()], std::slice::from_ref(&first)),
            (Vec::new(), std::slice::from_ref(&first)),
            (both.clone(), &both),
            (vec![b.clone()], &both),
            (vec![a.clone(), b.clone()], &both),
            (vec![b.clone()], &both),
            (vec![b.clone()], std::slice::from_ref(&b)),
            (Vec::new(), std::slice::from_ref(&b)),
        ];
        let mut known = Vec::new();
        for (seen, expected) in looks {
            known = merged(&table, &known, seen, &mut missed);
            assert_eq!(known, expected);
        }
    }
}
