//! Requests while nothing leaves for the server.

use bus::testing::{NatsServer, fill};
use bus::{Bus, NatsOptions};
use futures_util::FutureExt as _;
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume, timeout};

use super::*;

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
    let asking = |repeatable, patient, ms| Asking {
        subject: "service".to_owned(),
        headers: Headers::new(),
        deadline: clock::now().plus_ms(ms),
        grace: Duration::ZERO,
        stop: None,
        repeatable,
        patient,
        is_long: false,
    };
    let cases = [(true, true), (true, false), (false, true), (false, false)];
    for (repeatable, patient) in cases {
        let asking = asking(repeatable, patient, 20);
        // Nothing of it was in the queue, so nobody can have it.
        match request::<Value>(&context, &asking, Arc::new(Value::Null)).await {
            Err(Missed::NotDelivered(error)) => {
                assert_eq!(error.code, ErrorCode::NatsUnavailable, "{error}");
            }
            missed => panic!("repeatable {repeatable}, patient {patient}: {missed:?}"),
        }
    }
    let askings = cases.map(|(repeatable, patient)| asking(repeatable, patient, 60_000));
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
            repeatable: true,
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
