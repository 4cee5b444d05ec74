//! The NATS service protocol: a service says that it is there, what it offers and how it fares.

mod find;
mod report;
mod stats;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Headers, WireError};

use crate::bus::Bus;
use crate::check;
use crate::error::Error;
use crate::message::Message;
use crate::service::report::Reports;
use crate::service::stats::Stats;

pub use find::find;

/// Describes a service.
#[derive(Clone, Debug)]
pub struct ServiceInfo {
    /// The name that all instances share: letters, digits, `_` and `-`.
    pub name: String,
    /// The id of this instance: letters, digits, `_` and `-`.
    pub id: String,
    /// The version, as semver.
    pub version: String,
    /// What it does.
    pub description: String,
    /// When it started, in RFC 3339.
    pub started: String,
    /// Anything else.
    pub metadata: BTreeMap<String, String>,
    /// What it answers. Their subjects are served by the caller.
    pub endpoints: Vec<Endpoint>,
}

/// Describes one subject that a service answers.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name, unique in the service: letters, digits, `_` and `-`.
    pub name: String,
    /// Where it is asked.
    pub subject: String,
    /// The queue group that shares the work.
    pub queue_group: String,
    /// Anything else, such as schemas.
    pub metadata: BTreeMap<String, String>,
}

/// Answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS` until it is dropped.
#[derive(Debug)]
pub struct Service {
    said: Arc<Said>,
    bytes_max: usize,
    _answering: DropGuard,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ping,
    Info,
    Stats,
}

impl Verb {
    const ALL: [Self; 3] = [Self::Ping, Self::Info, Self::Stats];

    fn read(subject: &str) -> Option<Self> {
        let token = subject.split('.').nth(1)?;
        Self::ALL.into_iter().find(|verb| verb.as_str() == token)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::Info => "INFO",
            Self::Stats => "STATS",
        }
    }
}

impl Service {
    /// Starts to answer for a service.
    ///
    /// Fails with [`Error::TooLarge`] if the description of all endpoints does not fit into one
    /// message.
    pub async fn start(bus: &Bus, info: ServiceInfo) -> Result<Self, Error> {
        check_info(&info)?;
        let (name, id) = (info.name.clone(), info.id.clone());
        let stats = Stats::new(&info.endpoints);
        let reports = Reports::new(&info)?;
        let bytes_max = bus.payload_bytes_max();
        check::size(&Headers::new(), reports.info.len(), bytes_max)?;
        let present = Mutex::new(Present { info, reports: Arc::new(reports) });
        let said = Arc::new(Said { present, stats });

        let mut subscriptions = Vec::new();
        for verb in Verb::ALL {
            let all = format!("$SRV.{}", verb.as_str());
            let named = format!("{all}.{name}");
            let one = format!("{named}.{id}");
            for subject in [all, named, one] {
                subscriptions.push(bus.subscribe(&subject, None).await?);
            }
        }
        bus.flush().await?;

        let stop = CancellationToken::new();
        let answers = Answers { bus: bus.clone(), said: said.clone() };
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut requests = select_all(subscriptions);
            while let Some(Some(request)) = stopped.run_until_cancelled(requests.next()).await {
                answers.answer(&request).await;
            }
        });
        Ok(Self { said, bytes_max, _answering: stop.drop_guard() })
    }

    /// Counts one request of an endpoint: how long it took and how it failed, if it did.
    ///
    /// An endpoint that the service does not have is not counted.
    pub fn record(&self, endpoint: &str, took: Duration, error: Option<&WireError>) {
        self.said.stats.record(endpoint, took, error);
    }

    /// Describes these endpoints in place of the present ones; counts of those that stay go on.
    ///
    /// Fails as [`start`](Self::start) does, and then leaves all as it was.
    pub fn update(&self, endpoints: Vec<Endpoint>) -> Result<(), Error> {
        let mut present = self.said.present();
        let info = ServiceInfo { endpoints, ..present.info.clone() };
        check_info(&info)?;
        let reports = Reports::new(&info)?;
        check::size(&Headers::new(), reports.info.len(), self.bytes_max)?;
        self.said.stats.keep(&info.endpoints);
        *present = Present { info, reports: Arc::new(reports) };
        Ok(())
    }
}

/// What a service says of itself.
#[derive(Debug)]
struct Said {
    present: Mutex<Present>,
    stats: Stats,
}

#[derive(Debug)]
struct Present {
    info: ServiceInfo,
    reports: Arc<Reports>,
}

impl Said {
    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Answers {
    bus: Bus,
    said: Arc<Said>,
}

impl Answers {
    async fn answer(&self, request: &Message) {
        let reports = self.said.present().reports.clone();
        let body: Result<Bytes, Error> = match Verb::read(&request.subject) {
            Some(Verb::Ping) => Ok(reports.ping.clone()),
            Some(Verb::Info) => Ok(reports.info.clone()),
            Some(Verb::Stats) => reports.stats(&self.said.stats),
            None => return,
        };
        let sent = match body {
            Ok(body) => self.bus.reply(request, Headers::new(), body).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            tracing::warn!(subject = request.subject, %error, "service request not answered");
        }
    }
}

fn check_info(info: &ServiceInfo) -> Result<(), Error> {
    let invalid = |fault| Err(Error::InvalidService { name: check::shown(&info.name), fault });
    if !is_name(&info.name) || !is_name(&info.id) {
        return invalid("name and id are letters, digits, `_` and `-`");
    }
    if !is_semver(&info.version) {
        return invalid("the version is not of the form 1.2.3");
    }
    for (n, endpoint) in info.endpoints.iter().enumerate() {
        if !is_name(&endpoint.name) {
            return invalid("the name of an endpoint is letters, digits, `_` and `-`");
        }
        if info.endpoints.iter().take(n).any(|earlier| earlier.name == endpoint.name) {
            return invalid("two endpoints have one name");
        }
        check::pattern(&endpoint.subject)?;
        check::queue(&endpoint.queue_group)?;
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn is_semver(text: &str) -> bool {
    let number = |part: &str| {
        part.parse::<u64>().is_ok_and(|_| part == "0" || !part.starts_with(['0', '+']))
    };
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let rest_is_good = rest.is_empty()
        || rest.len() > 1 && rest.chars().all(|c| c.is_ascii_alphanumeric() || "-+.".contains(c));
    core.split('.').count() == 3 && core.split('.').all(number) && rest_is_good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semver() {
        for good in ["0.1.0", "1.2.3", "1.0.0-rc.1", "1.0.0+build.5", "10.20.30"] {
            assert!(is_semver(good), "{good}");
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-ä"] {
            assert!(!is_semver(bad), "{bad}");
        }
    }
}
