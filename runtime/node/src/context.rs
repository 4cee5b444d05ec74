//! What every actor of a team shares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agents_core::effect::Effect;
use bus::{Bus, Service};
use journal::{Due, Journal, Stored};
use store::Store;
use telemetry::{Exporter, Metrics};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tools::cloudevent::replies::Replies;
use tools::command::Launcher;
use tools::mcp::Servers;
use tools::query::Databases;
use tools::results::Results;
use wire::entry::{Body, Entry};
use wire::event::EventKind;
use wire::{Event, SessionId, Subjects, Timestamp, TraceSink, WireError};

use crate::admission::{NodePlaces, Places};
use crate::clean;
use crate::drained::Drained;
use crate::error::Error;
use crate::herald::Herald;
use crate::metrics::Loads;
use crate::pace::Paces;
use crate::plans::PlanShelf;
use crate::present::Present;
use crate::projector::{Commit, Projector};
use crate::retention::TooLarge;
use crate::stats::Counters;
use crate::worklist::WorkList;

/// How long a full journal is given before it is asked again; a commit takes about this long.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// What the teams of a node have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Names the node to the others on the bus.
    pub(crate) node: String,
    /// When it started.
    pub(crate) since: Timestamp,
    pub(crate) herald: Herald,
    pub(crate) places: Arc<NodePlaces>,
}

impl Shared {
    pub(crate) fn start(bus: Bus) -> Arc<Self> {
        Arc::new(Self {
            node: wire::RunId::fresh().to_string(),
            since: crate::clock::now(),
            herald: Herald::start(bus),
            places: Arc::default(),
        })
    }
}

/// How many runs are looked up at once. A look-up takes some microseconds, and threads for more of
/// them would take memory and not be faster.
pub(crate) const LOOKUPS_AT_ONCE_MAX: usize = 4;

/// The surroundings of a team's actors.
pub(crate) struct TeamContext {
    /// The team as it was at the start: all of it but its tools and plans stays so.
    pub(crate) team: Arc<config::Team>,
    /// The team as it is at present.
    pub(crate) present: Present,
    /// Held while the team changes, so that changes follow each other.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) subjects: Subjects,
    pub(crate) bus: Bus,
    /// The databases of the team's tools.
    pub(crate) databases: Databases,
    /// The results of the team's tools that were cut.
    pub(crate) results: Results,
    /// What starts the programs of the team's tools.
    pub(crate) launcher: Arc<Launcher>,
    /// The MCP servers of the team's tools; there once the team's actors are.
    pub(crate) servers: OnceLock<Servers>,
    /// The calls of the team's tools that wait for events.
    pub(crate) event_replies: Replies,
    pub(crate) journal: Journal,
    pub(crate) store: Store,
    pub(crate) projector: Projector,
    pub(crate) plans: Arc<PlanShelf>,
    pub(crate) exporter: Option<Arc<Exporter>>,
    pub(crate) metrics: Arc<Metrics>,
    /// How busy the models and tools are.
    pub(crate) loads: Loads,
    /// How soon the models answer.
    pub(crate) paces: Paces,
    /// What this team shares with the others of the node.
    pub(crate) shared: Arc<Shared>,
    pub(crate) places: Places,
    /// What happened since the start.
    pub(crate) counters: Counters,
    /// What the team's models and tools do on this node.
    pub(crate) work: Arc<WorkList>,
    /// Replies on their way to those who asked.
    pub(crate) replies: TaskTracker,
    /// Requests that are being answered: by the door, by models and by tools.
    pub(crate) requests: TaskTracker,
    /// Calls of tools that were told to stop and put things in order.
    pub(crate) stopping: TaskTracker,
    pub(crate) draining: AtomicBool,
    /// Which sessions were let go of in order.
    pub(crate) drained: Drained,
    /// Look-ups of runs that are named by requests, each of which needs a thread of its own.
    pub(crate) lookups: Semaphore,
    /// Which sessions are known to be too large to be shortened.
    pub(crate) too_large: TooLarge,
    /// The slot of the next change of the memory; one change at a time.
    pub(crate) memory_slot: tokio::sync::Mutex<u64>,
    /// Answers those who list services; there once the team's actors are.
    pub(crate) service: OnceLock<Service>,
}

impl TeamContext {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns where the spans of sessions go. What nodes show of them is told again by the journal.
    pub(crate) const fn sink(&self) -> TraceSink {
        if self.exporter.is_some() { TraceSink::Export } else { TraceSink::Nowhere }
    }

    /// Counts a request of an endpoint for those who ask for the service's statistics.
    pub(crate) fn record(&self, endpoint: &str, took: Duration, error: Option<&WireError>) {
        if let Some(service) = self.service.get() {
            service.record(endpoint, took, error);
        }
    }

    /// Makes entries of a session durable; the commit is to be told what they mean to the store.
    pub(crate) async fn append(
        &self,
        session: &SessionId,
        slot: u64,
        entries: &Arc<Vec<Entry>>,
    ) -> Result<Commit, Error> {
        self.append_due(Due::Now, session, slot, entries).await
    }

    /// Does the same as soon as it is due.
    pub(crate) async fn append_due(
        &self,
        due: Due,
        session: &SessionId,
        slot: u64,
        entries: &Arc<Vec<Entry>>,
    ) -> Result<Commit, Error> {
        let commit = self.projector.begin();
        match self.append_written(due, session, slot, entries).await {
            Ok(()) => Ok(commit),
            Err(error) => {
                // A journal that stopped may have written it before.
                if !matches!(error, Error::Journal(journal::Error::Stopped)) {
                    commit.give_up();
                }
                Err(error)
            }
        }
    }

    async fn append_written(
        &self,
        due: Due,
        session: &SessionId,
        slot: u64,
        entries: &Arc<Vec<Entry>>,
    ) -> Result<(), Error> {
        let unwritten = |source| Error::Entry { session: session.clone(), slot, source };
        let mut bodies = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let most = self.journal.inline_bytes_max();
            bodies.push(match wire::json::to_vec_within(entry, most).map_err(&unwritten)? {
                Some(bytes) => Stored::Inline(bytes.into()),
                // Written to its file as it is, beside which it would take as much memory again.
                None => self.put_entry(entries.clone(), number).await?,
            });
        }
        loop {
            let appended = match (entries.as_slice(), bodies.as_slice()) {
                // Reading may begin with an entry that holds all that came before it.
                ([entry], [body]) if entry.body.begins() => {
                    self.journal.append_begin(session, slot, body.clone()).await
                }
                _ => self.journal.append_due(due, session, slot, bodies.clone()).await,
            };
            match appended {
                Ok(_) => return Ok(()),
                // What a session decided must not be lost to a full queue; it waits for its turn.
                Err(journal::Error::Full) => tokio::time::sleep(FULL_PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a large entry durable, off the threads that must not block.
    async fn put_entry(
        &self,
        entries: Arc<Vec<Entry>>,
        number: usize,
    ) -> Result<Stored, journal::Error> {
        let journal = self.journal.clone();
        let put =
            move || journal.put_entry(|out| Ok(serde_json::to_writer(out, &entries.get(number))?));
        tokio::task::spawn_blocking(put).await.unwrap_or(Err(journal::Error::Stopped))
    }

    /// Counts finished spans, and sends them to the receiver if there is one.
    pub(crate) fn export(&self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Span(span) = effect else { continue };
            self.metrics.observe(&span.record);
            self.counters.note_span(&span.record);
            if let Some(exporter) = &self.exporter
                && !span.levels.off
            {
                exporter.export(&clean::span(span.record.clone(), span.levels.export));
            }
        }
    }

    /// Tells observers, without waiting for them. What nobody hears is not an error, and is not
    /// written either.
    pub(crate) fn tell(&self, event: &Event) {
        let subject = self.events_of(&event.session);
        if self.bus.is_heard(&subject) {
            self.tell_at(subject, event);
        }
    }

    /// Returns where observers of a session listen.
    pub(crate) fn events_of(&self, session: &SessionId) -> String {
        self.subjects.session_events(&self.team.name, session)
    }

    /// Like [`tell`](Self::tell), for who knows that it is heard at the place where observers of
    /// its session listen.
    pub(crate) fn tell_at(&self, subject: String, event: &Event) {
        let Ok(body) = wire::json::to_vec(event) else { return };
        if body.len() > self.bus.payload_bytes_max() {
            return;
        }
        self.shared.herald.tell(subject, body.into());
        if matches!(event.kind, EventKind::RunEnded { .. }) {
            self.shared.herald.hurry();
        }
    }

    /// Makes a change of the memory durable and visible. The caller holds the memory's turn.
    pub(crate) async fn remember(&self, slot: u64, entry: Entry) -> Result<(), Error> {
        let session = wire::entry::memory_session();
        debug_assert!(matches!(entry.body, Body::Memory(_)));
        let entries = Arc::new(vec![entry]);
        let commit = self.append(&session, slot, &entries).await?;
        let changes = entries.iter().flat_map(|entry| {
            crate::changes::changes_of(&session, entry, slot, &mut Vec::new(), &self.plans)
        });
        commit.project(changes.collect()).await;
        self.projector.sync().await;
        Ok(())
    }
}
