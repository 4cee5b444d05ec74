//! Sees to it that one node at a time serves the runs of a team.
//!
//! The lock on a data directory keeps others from the same data. Nodes with data of their own meet
//! in the queue group of the team, where a request that is sent again may reach the one that does
//! not know it and be done twice. So each node claims its teams on a subject that all of them hear:
//! it asks there before it serves a team, and is refused if somebody answers. From then on it
//! answers others, and says its claim after each lost connection and from time to time. By these
//! claims those find each other that asked at the same moment or could not hear each other.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agents_core::owner::Standing;
use bus::{Bus, Message, Subscription};
use bytes::Bytes;
use futures_util::future::try_join_all;
use rustix::system::uname;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};
use wire::{Claim, Headers, Name, Subjects, Timestamp, WireError};

use crate::clock::rfc3339;
use crate::error::Error;
use crate::feed;
use crate::opening::team_dir;

/// How long whoever serves a team has to answer: also on a machine that is busy, or far away, since
/// one that is missed meets the newcomer only when that is at work. Where nobody listens the server
/// says so at once; only a node that hangs or has vanished without closing its connection, and who
/// only looks on, are waited for in vain.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How often a claim is said: servers of a cluster that were apart find each other again without a
/// connection of ours being lost.
const CLAIM_INTERVAL: Duration = Duration::from_secs(15);

/// The largest claim that is read, in bytes: one takes some hundred, and a path some thousand.
const CLAIM_BYTES_MAX: usize = 16 << 10;

/// A team that another node serves, and its claim if that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    team: Name,
    by: Option<Claim>,
}

impl From<Lost> for Error {
    fn from(Lost { team, by }: Lost) -> Self {
        Self::ServedElsewhere { team, by: by.map(Box::new) }
    }
}

/// The teams that this node claims.
pub(crate) struct Owners {
    lost: watch::Sender<Option<Lost>>,
    /// The node is on its way to its end.
    leaving: Arc<AtomicBool>,
    /// What answers others, one for each team; ends with this.
    keepers: Mutex<JoinSet<()>>,
}

impl Owners {
    /// Claims teams; fails if another node serves one of them.
    ///
    /// Nodes that claim a team at the same moment may all be let in here. All but one of them learn
    /// that from [`check`](Self::check) or [`lost`](Self::lost).
    pub(crate) async fn claim(
        bus: &Bus,
        subjects: &Subjects,
        claims: Vec<(Name, Claim)>,
    ) -> Result<Self, Error> {
        let (lost, _) = watch::channel(None);
        let leaving = Arc::<AtomicBool>::default();
        let mut owners = Vec::with_capacity(claims.len());
        for (team, claim) in claims {
            let body = wire::json::to_vec(&claim)
                .map_err(|source| bus::Error::Unwritable { source })?
                .into();
            let (bus, subject, lost) = (bus.clone(), subjects.owner(&team), lost.clone());
            let leaving = leaving.clone();
            owners.push(Owner { bus, subject, team, claim, body, met: None, lost, leaving });
        }
        try_join_all(owners.iter().map(Owner::ask)).await?;
        let mut keepers = JoinSet::new();
        for owner in owners {
            let heard = owner.hold().await?;
            keepers.spawn(owner.keep(heard));
        }
        Ok(Self { lost, leaving, keepers: Mutex::new(keepers) })
    }

    /// Fails if a team was lost to another node.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lost.borrow().clone().map_or(Ok(()), |lost| Err(lost.into()))
    }

    /// Waits until a team is lost to another node.
    pub(crate) async fn lost(&self) -> WireError {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
            Ok(Some(lost)) => Error::from(lost).to_wire(),
            // The sender is ours, and what is waited for is there.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Says no claims from here on, so that nobody yields to a node that is about to end. Who would
    /// serve a team is refused still.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Leaves the teams to others.
    pub(crate) async fn release(&self) {
        let mut keepers =
            std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        keepers.shutdown().await;
    }
}

/// Makes the claim of a node on a team.
pub(crate) fn claim_of(node: &str, since: Timestamp, pid: u32, data: &Path, team: &Name) -> Claim {
    let dir = team_dir(data, team);
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    Claim {
        node: node.to_owned(),
        host: uname().nodename().to_string_lossy().into_owned(),
        pid,
        data: dir.display().to_string(),
        since,
    }
}

/// Says who serves a team. The claim came from outside, and what is made of it is shown in terminals.
pub(crate) fn told(claim: &Claim) -> String {
    let Claim { host, pid, data, since, .. } = claim;
    let text =
        format!("process {pid} on {host} since {}, with its data in {data}", rfc3339(*since));
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Claims one team.
struct Owner {
    bus: Bus,
    subject: String,
    team: Name,
    claim: Claim,
    /// The claim as it is sent.
    body: Bytes,
    /// The node that was last told to stop, of which the log need not tell twice.
    met: Option<String>,
    lost: watch::Sender<Option<Lost>>,
    leaving: Arc<AtomicBool>,
}

impl Owner {
    /// Asks whether somebody serves the team; fails if so.
    async fn ask(&self) -> Result<(), Error> {
        let asked =
            self.bus.request(&self.subject, Headers::new(), self.body.clone(), ANSWER_MAX).await;
        match asked {
            Ok(answer) => Err(Lost { team: self.team.clone(), by: read(&answer.payload) }.into()),
            Err(bus::Error::NoResponders { .. }) => Ok(()),
            Err(bus::Error::Timeout { .. }) if self.bus.is_connected() => {
                warn!(
                    team = %self.team, subject = self.subject,
                    "no answer where the owner of the team is asked, so the team is served here: \
                     who listens there only looks on or hangs, or this user may not use the subject"
                );
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Hears what others say from here on, and says the claim. Of two that do so at the same moment
    /// at least one hears the other.
    async fn hold(&self) -> Result<Subscription, Error> {
        let heard = self.bus.subscribe(&self.subject, None).await?;
        self.bus.publish(&self.subject, Headers::new(), self.body.clone()).await?;
        Ok(heard)
    }

    /// Answers others until the team is lost.
    async fn keep(mut self, mut heard: Subscription) {
        let mut mended = self.bus.mended();
        let mut next = Instant::now() + CLAIM_INTERVAL;
        loop {
            tokio::select! {
                message = heard.next() => {
                    let Some(message) = message else { return };
                    if self.on_message(&message).await.is_break() {
                        return;
                    }
                }
                () = &mut mended => {
                    mended = self.bus.mended();
                    self.say().await;
                }
                () = sleep_until(next) => {
                    next = Instant::now() + CLAIM_INTERVAL;
                    self.say().await;
                }
            }
        }
    }

    /// Answers who asks, and heeds the claims of others; breaks if the team is lost to one.
    async fn on_message(&mut self, message: &Message) -> ControlFlow<()> {
        let other = read(&message.payload);
        // Who wants an answer asks before it serves the team, or only looks who does.
        if message.reply.is_some() {
            if let Some(other) = &other {
                warn!(team = %self.team, other = told(other), "another node would serve the team, and is refused");
            }
            feed::answer_bytes(&self.bus, message, Headers::new(), self.body.clone()).await;
            return ControlFlow::Continue(());
        }
        match other {
            Some(other) if !self.is_leaving() => self.meet(other).await,
            Some(_) | None => ControlFlow::Continue(()),
        }
    }

    /// Takes the claim of a node that serves the team as well, or is about to.
    async fn meet(&mut self, other: Claim) -> ControlFlow<()> {
        let standing = Standing::of(&self.claim, &other);
        match standing {
            Standing::Own => return ControlFlow::Continue(()),
            Standing::Stays if self.met.as_ref() == Some(&other.node) => {}
            Standing::Stays => {
                error!(team = %self.team, other = told(&other), "another node serves the team as well, and is to stop");
            }
            Standing::Yields => {
                error!(team = %self.team, other = told(&other), "another node serves the team since before, this one stops");
            }
        }
        // The one that stays is heard by the other, which yields; the one that yields says so that
        // the other's log tells of it too. It does before it tells of its loss, since a node that
        // drains says no more claims.
        self.say().await;
        if standing != Standing::Yields {
            self.met = Some(other.node);
            return ControlFlow::Continue(());
        }
        let lost = Lost { team: self.team.clone(), by: Some(other) };
        self.lost.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(lost);
            is_first
        });
        ControlFlow::Break(())
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    async fn say(&self) {
        if self.is_leaving() {
            return;
        }
        let said = self.bus.publish(&self.subject, Headers::new(), self.body.clone()).await;
        if let Err(error) = said {
            info!(team = %self.team, %error, "claim not said, will be said again");
        }
    }
}

/// Reads a claim; `None` if it is none.
fn read(body: &Bytes) -> Option<Claim> {
    if body.len() > CLAIM_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake};

    use tokio::time::timeout;

    use super::*;

    fn team() -> Name {
        Name::new("crew").unwrap()
    }

    fn claim(node: &str, since: u64) -> Claim {
        claim_of(node, Timestamp::from_micros(since), 7, Path::new("/data"), &team())
    }

    /// One that claims the team, and where it tells of its loss.
    fn owner(bus: &Bus, node: &str, since: u64) -> (Owner, watch::Receiver<Option<Lost>>) {
        let (lost, is_lost) = watch::channel(None);
        let claim = claim(node, since);
        let owner = Owner {
            bus: bus.clone(),
            subject: Subjects::default().owner(&team()),
            team: team(),
            body: wire::json::to_vec(&claim).unwrap().into(),
            claim,
            met: None,
            lost,
            leaving: Arc::default(),
        };
        (owner, is_lost)
    }

    async fn claim_all(bus: &Bus, node: &str, since: u64) -> Result<Owners, Error> {
        Owners::claim(bus, &Subjects::default(), vec![(team(), claim(node, since))]).await
    }

    async fn heard(lost: &mut watch::Receiver<Option<Lost>>) -> String {
        let told = timeout(CLAIM_INTERVAL * 3, lost.wait_for(Option::is_some));
        let lost = told.await.expect("it yields").unwrap().clone();
        lost.unwrap().by.unwrap().node
    }

    #[tokio::test(start_paused = true)]
    async fn a_team_that_is_served_is_not_served_twice() {
        let bus = Bus::local();
        let began = Instant::now();
        let first = claim_all(&bus, "b", 2).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody is there to be waited for");
        // Whoever serves a team stays, also if the clock of the other one says that it is older.
        let error = claim_all(&bus, "a", 1).await.err().unwrap().to_wire();
        assert_eq!(error.code, wire::ErrorCode::TeamServed);
        for part in ["team crew", "process 7 on ", "since 1970-01-01T", "/data/crew"] {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        // What is no claim changes nothing.
        let subject = Subjects::default().owner(&team());
        let long = format!("{{\"node\":\"{}\"}}", "x".repeat(CLAIM_BYTES_MAX));
        for body in ["", "hello", "{}", "{\"node\":7}", &long] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            bus.publish(&subject, Headers::new(), body.clone()).await.unwrap();
            let answer = bus.request(&subject, Headers::new(), body, ANSWER_MAX).await.unwrap();
            assert_eq!(read(&answer.payload), Some(claim("b", 2)));
        }
        first.check().unwrap();
        first.release().await;
        claim_all(&bus, "c", 3).await.unwrap();
    }

    #[test]
    fn what_is_shown_of_a_claim_moves_no_cursor() {
        let shown = told(&Claim { host: "a\u{1b}[2Jb\n".to_owned(), ..claim("n", 0) });
        assert_eq!(
            shown,
            "process 7 on a[2Jb since 1970-01-01T00:00:00.000Z, with its data in /data/crew"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn of_those_that_ask_at_the_same_moment_one_goes_on() {
        let bus = Bus::local();
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            let nodes = order.map(|node| owner(&bus, node, 5));
            for (owner, _) in &nodes {
                owner.ask().await.unwrap();
            }
            let mut keepers = JoinSet::new();
            let mut told = Vec::new();
            for (owner, lost) in nodes {
                let heard = owner.hold().await.unwrap();
                told.push((owner.claim.node.clone(), lost));
                keepers.spawn(owner.keep(heard));
            }
            for (node, lost) in &mut told {
                if node != "a" {
                    assert!(heard(lost).await < *node);
                }
            }
            // By then all that was said is heard.
            assert!(keepers.join_next().await.is_some() && keepers.join_next().await.is_some());
            tokio::time::sleep(CLAIM_INTERVAL * 3).await;
            assert!(told.iter().all(|(node, lost)| lost.borrow().is_none() == (node == "a")));
            assert_eq!(keepers.len(), 1, "one goes on");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_could_not_hear_each_other_meet_again() {
        let bus = Bus::local();
        let (mut keepers, mut told) = (JoinSet::new(), Vec::new());
        for (node, since) in [("young", 9), ("old", 1)] {
            let (owner, lost) = owner(&bus, node, since);
            let heard = bus.subscribe(&owner.subject, None).await.unwrap();
            keepers.spawn(owner.keep(heard));
            told.push(lost);
        }
        assert_eq!(heard(&mut told[0]).await, "old");
        keepers.join_next().await.unwrap().unwrap();
        assert!(told[1].borrow().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_yields_to_a_node_that_is_about_to_end() {
        let bus = Bus::local();
        let old = claim_all(&bus, "old", 1).await.unwrap();
        old.leave();
        let error = claim_all(&bus, "next", 2).await.err().unwrap().to_wire();
        assert_eq!(error.code, wire::ErrorCode::TeamServed, "not before it has ended");
        // One that was let in since the old one could not be heard.
        let (young, lost) = owner(&bus, "young", 9);
        let heard = young.hold().await.unwrap();
        let mut keepers = JoinSet::new();
        keepers.spawn(young.keep(heard));
        tokio::time::sleep(CLAIM_INTERVAL * 3).await;
        assert!(lost.borrow().is_none());
        old.check().unwrap();
    }

    /// A node that drains at the very moment at which it learns of its loss.
    struct Drains(Arc<AtomicBool>);

    impl Wake for Drains {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_yields_is_heard_before_it_drains() {
        let bus = Bus::local();
        let (mut young, mut lost) = owner(&bus, "young", 9);
        let mut stays = bus.subscribe(&young.subject, None).await.unwrap();
        let waker = Arc::new(Drains(young.leaving.clone())).into();
        let mut told = pin!(lost.wait_for(Option::is_some));
        assert!(told.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(young.meet(claim("old", 1)).await.is_break());
        assert!(young.is_leaving() && told.await.unwrap().is_some());
        let heard = timeout(CLAIM_INTERVAL, stays.next()).await.expect("it is heard").unwrap();
        assert_eq!(read(&heard.payload), Some(claim("young", 9)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_is_waited_for_a_moment_only() {
        let bus = Bus::local();
        let subject = Subjects::default().owner(&team());
        let mut hangs = bus.subscribe(&subject, None).await.unwrap();
        let began = Instant::now();
        let second = claim_all(&bus, "second", 2).await.unwrap();
        assert_eq!(began.elapsed(), ANSWER_MAX);
        // When it goes on it hears of the second one, which began later and stops.
        assert_eq!(read(&hangs.next().await.unwrap().payload), Some(claim("second", 2)));
        let (first, _lost) = owner(&bus, "first", 1);
        let going_on = tokio::spawn(first.keep(hangs));
        assert_eq!(second.lost().await.code, wire::ErrorCode::TeamServed);
        assert!(second.check().is_err());
        going_on.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_cannot_be_read_is_one() {
        let bus = Bus::local();
        let subject = Subjects::default().owner(&team());
        let answering = bus.clone();
        let _other = bus
            .take(&subject, None, move |parcel| {
                let (bus, message) = (answering.clone(), parcel.into_message());
                Some(Box::pin(async move {
                    bus.reply(&message, Headers::new(), "yes".into()).await.unwrap();
                }))
            })
            .await
            .unwrap();
        let error = claim_all(&bus, "second", 2).await.err().unwrap().to_wire();
        assert_eq!(error.code, wire::ErrorCode::TeamServed);
        assert!(error.message.contains("the answer is no claim"), "{error}");
    }
}
