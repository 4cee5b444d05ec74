//! Requests while nothing leaves for the server.

use bus::testing::{NatsServer, fill};
use bus::{Bus, NatsOptions};
use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume, timeout};
use wire::look::{Doing, DoingKind};

use super::*;
use crate::perform::asking::{REPEATS_MAX, REPEATS_UNBOUNDED};
use crate::worklist::work_of;

const LONG: Duration = Duration::from_secs(20);

/// Longer than the bus waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(6);

/// Takes the server away, and fills all room on the way there.
async fn lose(server: &mut NatsServer, bus: &Bus) {
    server.stop().unwrap();
    let lost = async {
        while bus.is_connected() {
            yield_now().await;
        }
    };
    timeout(LONG, lost).await.expect("the loss is seen");
    fill(bus).await;
}

#[tokio::test]
async fn a_request_that_does_not_leave_goes_on_until_its_end() {
    let data = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let context = testing::open_on(data.path(), bus.clone());
    let _feed = answer_on(&context, "service", "\"done\"".to_owned()).await;
    bus.flush().await.unwrap();
    lose(&mut server, &bus).await;
    let asking = |repeats_max, patient, ms| Asking {
        subject: "service".to_owned(),
        headers: Headers::new(),
        deadline: clock::now().plus_ms(ms),
        grace: Duration::ZERO,
        stop: None,
        repeats_max,
        patient,
        is_long: false,
    };
    let (always, never) = (REPEATS_UNBOUNDED, 0);
    let cases = [(always, true), (always, false), (never, true), (never, false)];
    for (repeats_max, patient) in cases {
        let asking = asking(repeats_max, patient, 20);
        // Nothing of it was in the queue, so nobody can have it.
        match request::<Value>(&context, &asking, Arc::new(Value::Null)).await {
            Err(Missed::NotDelivered(error)) => {
                assert_eq!(error.code, ErrorCode::NatsUnavailable, "{error}");
            }
            missed => panic!("repeats {repeats_max}, patient {patient}: {missed:?}"),
        }
    }
    let askings = cases.map(|(repeats_max, patient)| asking(repeats_max, patient, 60_000));
    let mut waiting: Vec<_> = askings
        .iter()
        .map(|asking| Box::pin(request::<Value>(&context, asking, Arc::new(Value::Null))))
        .collect();
    for waiting in &mut waiting {
        assert!(waiting.now_or_never().is_none());
    }
    pause();
    advance(ROOM_WAIT).await;
    for (waiting, case) in waiting.iter_mut().zip(cases) {
        let ended = waiting.now_or_never();
        assert!(ended.is_none(), "{case:?}: {ended:?}");
    }
    resume();
    server.restart().await.unwrap();
    for (answer, case) in futures_util::future::join_all(waiting).await.into_iter().zip(cases) {
        assert_eq!(answer.unwrap(), "done", "{case:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_taken_before_the_connection_was_lost_is_not_called_undelivered() {
    let data = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let context = testing::open_on(data.path(), bus.clone());
    for is_taken in [true, false] {
        let mut requests = bus.subscribe("service", None).await.unwrap();
        let asking = Asking {
            subject: "service".to_owned(),
            headers: Headers::new(),
            deadline: clock::now().plus_ms(60_000),
            grace: Duration::ZERO,
            stop: None,
            repeats_max: REPEATS_UNBOUNDED,
            patient: false,
            is_long: false,
        };
        let body: Arc<dyn Content> = Arc::new(Value::Null);
        let asked = async {
            if !is_taken {
                drop(requests);
                bus.flush().await.unwrap();
                return request::<Value>(&context, &asking, body).await;
            }
            let mut asked = Box::pin(request::<Value>(&context, &asking, body));
            tokio::select! {
                taken = requests.next() => drop(taken.unwrap()),
                answer = &mut asked => panic!("{answer:?}"),
            }
            drop(requests);
            bus.flush().await.unwrap();
            server.restart().await.unwrap();
            asked.await
        };
        let missed = timeout(LONG, asked).await.expect("nobody is waited for").unwrap_err();
        let is_unanswered = matches!(missed, Missed::Unanswered(_));
        assert_eq!(is_unanswered, is_taken, "{missed:?}");
        assert_eq!(missed.into_error().code, ErrorCode::Unavailable);
    }
}

/// Turns of all tasks in which each that was told of a connection has done what it does then.
const TURNS: usize = 100;

/// Starts the server again, until all have seen that the connection was lost and is there again.
async fn mend(server: &mut NatsServer, bus: &Bus) {
    let mended = bus.mended();
    server.restart().await.unwrap();
    timeout(LONG, mended).await.expect("the connection is there again");
    for _ in 0..TURNS {
        yield_now().await;
    }
}

fn turn(context: &TeamContext) -> Asking {
    let model = Name::new("slow").unwrap();
    let work = WorkId::of_turn(RunId::new("r").unwrap(), 1);
    let deadline = clock::now().plus_ms(60_000);
    Asking::of_model(context, &model, work, Headers::new(), deadline)
}

#[tokio::test]
async fn a_turn_that_is_at_work_in_this_process_outlives_the_connection() {
    let data = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let context = testing::open_on(data.path(), bus.clone());
    // Whether the turn begins before the connection is lost, and how often it is asked for.
    for (is_begun, expected) in [(true, 1), (false, 2)] {
        let asking = turn(&context);
        let (asked, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let (serving, times, gate) = (context.clone(), asked.clone(), go.clone());
        let model = move |parcel: bus::Parcel| {
            let (serving, gate) = (serving.clone(), gate.clone());
            let is_lost = times.fetch_add(1, Ordering::Relaxed) == 0 && !is_begun;
            async move {
                if is_lost {
                    return;
                }
                let message = parcel.message();
                let name = Name::new("slow").unwrap();
                let doing = Doing { kind: DoingKind::Turn, name, since: clock::now() };
                let begun = serving.work.begin(work_of(message).unwrap(), None, doing);
                gate.acquire().await.unwrap().forget();
                serving.bus.reply(message, Headers::new(), "\"done\"".into()).await.unwrap();
                drop(begun);
            }
        };
        let _model = crate::feed::start(&context, &asking.subject, model).await.unwrap();
        bus.flush().await.unwrap();
        let lost = async {
            let comes = || asked.load(Ordering::Relaxed) > 0;
            while !comes() || is_begun != (context.work.len() > 0) {
                yield_now().await;
            }
            // As often as it may be.
            for _ in 0..2 {
                mend(&mut server, &bus).await;
                while context.work.len() == 0 {
                    yield_now().await;
                }
            }
            go.add_permits(1);
        };
        let both = async { tokio::join!(request::<Value>(&context, &asking, null()), lost) };
        let (answer, ()) = timeout(LONG, both).await.expect("an answer");
        assert_eq!(answer.unwrap(), "done", "begun: {is_begun}");
        assert_eq!(asked.load(Ordering::Relaxed), expected, "begun: {is_begun}");
    }
}

fn null() -> Arc<dyn Content> {
    Arc::new(Value::Null)
}

#[tokio::test]
async fn a_turn_that_is_at_work_elsewhere_is_asked_for_again_a_few_times() {
    let data = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let context = testing::open_on(data.path(), bus.clone());
    let asking = turn(&context);
    let mut requests = bus.subscribe(&asking.subject, None).await.unwrap();
    bus.flush().await.unwrap();
    let lost = async {
        let mut works = Vec::new();
        let mut last = None;
        for _ in 0..=REPEATS_MAX {
            let taken = requests.next().await.unwrap();
            works.push(work_of(&taken).unwrap());
            last = Some(taken);
            mend(&mut server, &bus).await;
        }
        bus.reply(&last.unwrap(), Headers::new(), "\"done\"".into()).await.unwrap();
        works.dedup();
        works.len()
    };
    let both = async { tokio::join!(request::<Value>(&context, &asking, null()), lost) };
    let (answer, attempts) = timeout(LONG, both).await.expect("the last one is waited for");
    assert_eq!(answer.unwrap(), "done");
    assert_eq!(attempts, REPEATS_MAX as usize + 1, "each is stopped by itself");
    assert!(requests.next().now_or_never().is_none(), "it was asked for once more");
}

#[tokio::test]
async fn what_nobody_waits_for_does_not_begin_here_although_no_stop_has_come() {
    let data = tempfile::tempdir().unwrap();
    let server = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let context = testing::open_on(data.path(), bus.clone());
    let asking = turn(&context);
    let mut requests = bus.subscribe(&asking.subject, None).await.unwrap();
    bus.flush().await.unwrap();
    let begun_after = |taken: &bus::Message| {
        let doing =
            Doing { kind: DoingKind::Turn, name: Name::new("slow").unwrap(), since: clock::now() };
        context.work.begin(work_of(taken).unwrap(), None, doing).stop().is_cancelled()
    };
    let mut asked = Box::pin(request::<Value>(&context, &asking, null()));
    let taken = tokio::select! {
        taken = requests.next() => taken.unwrap(),
        answer = &mut asked => panic!("{answer:?}"),
    };
    assert!(!begun_after(&taken), "it is waited for");
    drop(asked);
    assert!(begun_after(&taken), "it was given up");
}
