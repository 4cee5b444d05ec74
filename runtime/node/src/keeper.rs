//! Looks now and then what a team need not keep any longer, while the team works.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use wire::SessionId;
use wire::entry::memory_session;

use crate::clock;
use crate::context::TeamContext;
use crate::error::Error;
use crate::retention::{Candidates, Compacted, Cutoffs, Keeper, forgotten, tidy_files};
use crate::session::{Door, Tidied};
use crate::sessions::SessionsMsg;

/// How long a team works before it is looked for the first time: it has other things to do.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(600);

/// In how many looks the blobs are looked through once, for which all of the journal is read.
const SWEEP_LOOKS: u32 = 6;

/// How often it is looked while the disk is full.
const FULL_INTERVAL: Duration = Duration::from_secs(10);

/// The pause between two sessions. They come into memory for it and stay a minute, so this keeps
/// them to some thousand.
const SESSION_PAUSE: Duration = Duration::from_millis(20);

/// The pause between two batches of dropped records.
const RECORDS_PAUSE: Duration = Duration::from_millis(50);

/// How long a session may take; one that is at work is not waited for, since it says so at once.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps a team tidy for as long as the node runs.
pub(crate) async fn keep(context: Arc<TeamContext>, sessions: ActorRef<SessionsMsg>) {
    let mut fullness = context.journal.fullness();
    let mut pause = FIRST_PAUSE;
    for look in 1u32.. {
        let room_ends = async {
            // While the disk is full its next look comes soon.
            if fullness.wait_for(|full| *full).await.is_ok() {
                sleep(FULL_INTERVAL).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = room_ends => {}
        }
        pause = INTERVAL;
        let sweeps = look % SWEEP_LOOKS == 0 || context.journal.is_full();
        match pass(&context, &sessions, sweeps).await {
            Ok(done) if done.is_nothing() => {}
            Ok(done) => info!(?done, "dropped what need not be kept"),
            Err(error) => warn!(%error, "not all was dropped that need not be kept"),
        }
    }
}

/// Goes once through all that may be dropped.
pub(crate) async fn pass(
    context: &Arc<TeamContext>,
    sessions: &ActorRef<SessionsMsg>,
    sweeps: bool,
) -> Result<Compacted, Error> {
    let keeper = Keeper {
        team: context.team.name.clone(),
        journal: context.journal.clone(),
        store: context.store.clone(),
        plans: context.plans.clone(),
    };
    let (retention, now, look) = (context.team.retention, clock::now(), keeper.clone());
    let found = spawn_blocking(move || {
        let cutoffs = Cutoffs::at(now, &retention, &look.store)?;
        Ok::<_, Error>((cutoffs, look.candidates(&cutoffs)?))
    });
    let (cutoffs, Candidates { due, stale }) = found.await.map_err(|_| Error::Ending)??;
    let mut total =
        Compacted { bytes_before: keeper.journal.usage().bytes, ..Compacted::default() };
    for session in stale {
        context.projector.begin().project(forgotten(&session)).await;
    }
    for session in due {
        // What is left of the reserve is for ending runs.
        if context.journal.is_full() {
            break;
        }
        match tidy(&keeper, sessions, &session, &cutoffs).await? {
            Tidied::Forgotten => total.sessions_forgotten += 1,
            Tidied::Shortened | Tidied::Unchanged => {}
        }
        sleep(SESSION_PAUSE).await;
    }
    if !context.journal.is_full() {
        restate_memory(context, &keeper).await?;
    }
    let retiring = keeper.clone();
    let retired = spawn_blocking(move || retiring.retire_all(&cutoffs)).await;
    total.sessions_shortened += retired.map_err(|_| Error::Ending)?;
    while !context.journal.is_full() {
        let dropping = keeper.clone();
        let dropped = spawn_blocking(move || dropping.drop_records(&cutoffs)).await;
        let dropped = dropped.map_err(|_| Error::Ending)??;
        total.records_dropped += dropped;
        if dropped == 0 {
            break;
        }
        sleep(RECORDS_PAUSE).await;
    }
    tidy_files(&keeper, sweeps, &mut total).await?;
    let usage = keeper.journal.usage();
    (total.bytes_after, total.live_bytes) = (usage.bytes, usage.live_bytes);
    Ok(total)
}

/// Has a session do what is due about it.
async fn tidy(
    keeper: &Keeper,
    sessions: &ActorRef<SessionsMsg>,
    session: &SessionId,
    cutoffs: &Cutoffs,
) -> Result<Tidied, Error> {
    let (look, id) = (keeper.clone(), session.clone());
    let is_asked =
        spawn_blocking(move || look.is_asked(&id)).await.map_err(|_| Error::Ending)??;
    let (answer, on_answer) = oneshot::channel();
    let door = Door::Tidy { cutoffs: *cutoffs, is_asked, answer };
    let session = session.clone();
    if sessions.cast(SessionsMsg::Route { session, door }).is_err() {
        return Err(Error::Ending);
    }
    // A session that is set aside stays as it is, and one that is being restarted has time.
    match timeout(SESSION_TIMEOUT, on_answer).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => Ok(Tidied::Unchanged),
    }
}

/// Says anew what is remembered, if the journal has much more than that.
async fn restate_memory(context: &Arc<TeamContext>, keeper: &Keeper) -> Result<(), Error> {
    let mut slot = context.memory_slot.lock().await;
    let look = keeper.clone();
    let entry = spawn_blocking(move || look.restatement()).await.map_err(|_| Error::Ending)??;
    let Some(entry) = entry else { return Ok(()) };
    let session = memory_session();
    // The store has all of it already.
    context.append(&session, *slot, std::slice::from_ref(&entry)).await?.project(Vec::new()).await;
    *slot += 1;
    Ok(())
}
