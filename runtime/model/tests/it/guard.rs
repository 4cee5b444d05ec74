//! What models at one server share, the limits of a minute, and the models that stand in.

use std::time::Duration;

use config::team::{Model, Provider};
use model::{Guards, ModelClients};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::ErrorCode::{self, DeadlineExceeded, ModelProtocol, ModelRefused, ModelResting};
use wire::ErrorCode::{ModelUnavailable, Overloaded};
use wire::{Name, SessionId};

use crate::server::{Server, Step, answer, chunked, said};
use crate::setup::{
    assert_failed, client, client_of, conversation, http, model, openai, scripted, team, turn,
    turn_in, user,
};

fn named(name: &str, mut model: Model) -> Model {
    model.name = Name::new(name).unwrap();
    model
}

fn broken(name: &str, fault: &serde_json::Value) -> Model {
    let line = json!({"content": "never", "fault": fault}).to_string();
    let mut model = named(name, scripted(&[&line]));
    model.retries_max = 1;
    model
}

fn fine(name: &str) -> Model {
    named(name, scripted(&[&json!({"content": format!("by {name}")}).to_string()]))
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_server_fails_is_replaced() {
    /// Who answers after how many requests, or how it fails.
    type Outcome = Result<(&'static str, u32), ErrorCode>;
    type Case = (&'static str, Vec<Model>, u32, Outcome, Vec<&'static str>);
    let slow = |name| {
        let mut model = named(name, scripted(&[r#"{"content":"late","delay_ms":9000}"#]));
        model.timeout_ms = 2_000;
        model
    };
    let limited = |name| {
        let mut model = fine(name);
        model.requests_per_minute = Some(1);
        model.timeout_ms = 5_000;
        model
    };
    // The models, whether the first is asked before, how the last turn ends, who answers and what
    // observers see.
    let cases: Vec<Case> = vec![
        ("fine", vec![fine("a"), fine("b")], 0, Ok(("a", 1)), vec!["by ", "a"]),
        (
            "5xx",
            vec![broken("a", &json!({"status": 500})), fine("b")],
            0,
            Ok(("b", 3)),
            vec!["a -> b: E2002", "by ", "b"],
        ),
        (
            "no connection, twice",
            vec![broken("a", &json!({})), broken("b", &json!({"status": 529})), fine("c")],
            0,
            Ok(("c", 5)),
            vec!["a -> b: E2002", "b -> c: E2002", "by ", "c"],
        ),
        (
            "left alone",
            vec![broken("a", &json!({"status": 503})), fine("b")],
            5,
            Ok(("b", 1)),
            vec!["a -> b: E2006", "by ", "b"],
        ),
        ("slow", vec![slow("a"), fine("b")], 0, Ok(("b", 2)), vec!["a -> b: E1007", "by ", "b"]),
        (
            "no room in the minute",
            vec![limited("a"), fine("b")],
            1,
            Ok(("b", 1)),
            vec!["a -> b: E1006", "by ", "b"],
        ),
        (
            "refused",
            vec![broken("a", &json!({"status": 401})), fine("b")],
            0,
            Err(ModelRefused),
            vec![],
        ),
        (
            "all fail",
            vec![broken("a", &json!({"status": 500})), slow("b")],
            0,
            Err(DeadlineExceeded),
            vec!["a -> b: E2002"],
        ),
        (
            "the last was not asked",
            vec![slow("a"), limited("b")],
            1,
            Err(DeadlineExceeded),
            vec!["a -> b: E1007"],
        ),
    ];
    for (name, models, before, expected, news) in cases {
        let client = client_of(models);
        let conversation = conversation(vec![user("hi")]);
        for _ in 0..before {
            drop(turn(&client, &conversation).await);
        }
        let (result, shown) = turn(&client, &conversation).await;
        match (result, expected) {
            (Ok(reply), Ok((by, attempts))) => {
                assert_eq!(reply.content, format!("by {by}"), "{name}");
                assert_eq!((reply.model.as_str(), reply.attempts), (by, attempts), "{name}");
                let stood_in = reply.served_by.as_ref().map(Name::as_str);
                assert_eq!(stood_in, (by != "a").then_some(by), "{name}");
            }
            (Err(error), Err(code)) => {
                assert_eq!(error.code, code, "{name}: {error}");
                let all = error.message.contains("model a") && error.message.contains("model b");
                assert_eq!(all, !news.is_empty(), "{name}: {error}");
            }
            (result, expected) => panic!("{name}: {result:?} and not {expected:?}"),
        }
        assert_eq!(shown, news, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_has_a_fallback_and_without_one_is_told() {
    let mut full = named("a", scripted(&[r#"{"content":"by a","delay_ms":1000}"#]));
    full.concurrency = 1;
    full.queue_max = 0;
    for (models, second) in
        [(vec![full.clone(), fine("b")], Ok("by b".to_owned())), (vec![full], Err(Overloaded))]
    {
        let client = client_of(models);
        let conversation = conversation(vec![user("hi")]);
        let (first, (result, _)) =
            tokio::join!(turn(&client, &conversation), turn(&client, &conversation));
        assert_eq!(first.0.unwrap().content, "by a");
        assert_eq!(
            result.map(|reply| reply.content.to_string()).map_err(|error| error.code),
            second
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_not_asked_and_then_by_one() {
    let mut model = broken("m", &json!({"status": 500, "for_ms": 8_000}));
    model.retries_max = 0;
    let client = client(&model);
    let conversation = conversation(vec![user("hi")]);
    for _ in 0..10 {
        assert_failed(turn(&client, &conversation).await.0, ModelUnavailable, "asked once");
    }
    let begun = Instant::now();
    let error = assert_failed(turn(&client, &conversation).await.0, ModelResting, "left alone");
    assert_eq!((begun.elapsed(), error.retry_after_ms), (Duration::ZERO, Some(5_000)));
    tokio::time::advance(Duration::from_secs(5)).await;
    let (first, second) = tokio::join!(turn(&client, &conversation), turn(&client, &conversation));
    assert_failed(first.0, ModelUnavailable, "asked once");
    assert_failed(second.0, ModelResting, "left alone");
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(turn(&client, &conversation).await.0.unwrap().content, "never");
}

/// Whoever is told that nothing was begun asks again, with all retries of a turn before him.
#[tokio::test]
async fn a_turn_whose_reply_was_spoilt_is_not_told_as_one_that_was_not_begun() {
    let cut = chunked(&[r#"{"choices":[{"delta":{"content":"one "}}]}"#], false);
    let mut server = Server::start(vec![vec![Step::Send(cut)]]).await;
    let at = |name, retries_max| {
        let mut model = named(name, model(Provider::OpenAi(openai(&server.base_url, true))));
        model.retries_max = retries_max;
        model
    };
    let models = vec![at("once", 0), at("again", 1)];
    let clients = ModelClients::new(&team("t", 1, models), &Guards::default(), &http()).unwrap();
    let client = |name: &str| clients.client(&Name::new(name).unwrap()).unwrap().clone();
    let conversation = conversation(vec![user("hi")]);
    for _ in 0..9 {
        let (cut, _) = turn(&client("once"), &conversation).await;
        assert_failed(cut, ModelProtocol, "asked once");
    }
    // Its own request is the last that the server is given.
    let (spoilt, _) = turn(&client("again"), &conversation).await;
    assert_failed(spoilt, ModelUnavailable, "asked once: left alone");
    let (resting, _) = turn(&client("again"), &conversation).await;
    assert_failed(resting, ModelResting, "left alone");
    assert_eq!(server.requests().len(), 10);
}

/// A server that takes requests and answers none is left alone in the end, whoever ends the waiting
/// for it: the model's own time, the time of a run that has about as much, or the run itself.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_nobody_is_left_alone() {
    const OWN: u64 = 120_000;
    /// How the turns end.
    #[derive(Debug)]
    enum End {
        /// By the time that is left to the run, in milliseconds.
        Time(u64),
        /// By whoever asks, after so many milliseconds.
        Dropped(u64),
    }
    let cases = [
        (End::Time(OWN + 1), false, true),
        (End::Time(OWN - 1), false, true),
        (End::Dropped(OWN - 1), false, true),
        (End::Time(30_000), false, true),
        // Nobody can say that the answer would not have come.
        (End::Time(29_000), false, false),
        (End::Dropped(29_000), false, false),
        // It answers others, so that it is slow.
        (End::Time(OWN - 1), true, false),
        (End::Dropped(OWN - 1), true, false),
    ];
    for (end, answers_others, is_left_alone) in cases {
        let silent = json!({"content": "never", "delay_ms": 600_000}).to_string();
        let mut model = scripted(&[r#"{"when":"quick","content":"ok"}"#, &silent]);
        (model.timeout_ms, model.idle_timeout_ms) = (OWN, 30_000);
        let client = client(&model);
        let (slow, quick) = (conversation(vec![user("hi")]), conversation(vec![user("quick")]));
        let mut asked = 0;
        let left_alone = loop {
            let waited = async {
                let (remaining, patience) = match end {
                    End::Time(ms) => (ms, u64::MAX),
                    End::Dropped(ms) => (3_600_000, ms),
                };
                let remaining = Duration::from_millis(remaining);
                let turn = turn_in(&client, &slow, remaining);
                timeout(Duration::from_millis(patience), turn).await
            };
            let other = async {
                sleep(Duration::from_secs(1)).await;
                if answers_others {
                    drop(turn(&client, &quick).await);
                }
            };
            match tokio::join!(waited, other).0 {
                Ok((Err(error), _)) if error.code == ModelResting => break true,
                Ok((Err(error), _)) => assert_eq!(error.code, DeadlineExceeded, "{end:?}: {error}"),
                Ok((Ok(reply), _)) => panic!("{reply:?}"),
                Err(_) => {}
            }
            asked += 1;
            if asked == 30 {
                break false;
            }
        };
        assert_eq!(left_alone, is_left_alone, "{end:?} {answers_others}");
        assert_eq!(asked, if is_left_alone { 10 } else { 30 }, "{end:?} {answers_others}");
    }
}

#[tokio::test]
async fn what_is_learned_of_a_server_holds_for_all_models_and_teams_at_it() {
    let pause = answer(429, "retry-after: 30\r\n", "slow down");
    let mut server = Server::start(vec![vec![Step::Send(pause)]]).await;
    let mut other = Server::start(vec![vec![Step::Send(said("ok"))]]).await;
    let at = |base_url: &str| {
        let mut model = model(Provider::OpenAi(openai(base_url, false)));
        model.timeout_ms = 2_000;
        model
    };
    let guards = Guards::default();
    let made = |name: &str, models| {
        let clients = ModelClients::new(&team(name, 1, models), &guards, &http()).unwrap();
        move |model: &str| clients.client(&Name::new(model).unwrap()).unwrap().clone()
    };
    let first = made("first", vec![named("m", at(&server.base_url))]);
    let second = made(
        "second",
        vec![named("n", at(&server.base_url)), named("elsewhere", at(&other.base_url))],
    );
    let conversation = conversation(vec![user("hi")]);
    assert_failed(turn(&first("m"), &conversation).await.0, ModelUnavailable, "slow down");
    let told = turn(&second("n"), &conversation).await.0;
    let error = assert_failed(told, Overloaded, "its server wants to be left alone for another ");
    assert!(error.retry_after_ms.is_some_and(|ms| (20_000..=30_000).contains(&ms)), "{error}");
    assert_eq!(turn(&second("elsewhere"), &conversation).await.0.unwrap().content, "ok");
    assert_eq!((server.requests().len(), other.requests().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn turns_wait_for_room_in_the_minute_and_are_told_if_it_comes_too_late() {
    let mut model = fine("m");
    model.requests_per_minute = Some(3);
    model.timeout_ms = 600_000;
    let client = client(&model);
    let conversation = conversation(vec![user("hi")]);
    let begun = Instant::now();
    let mut minutes = Vec::new();
    for _ in 0..7 {
        turn(&client, &conversation).await.0.unwrap();
        minutes.push(begun.elapsed().as_secs() / 60);
    }
    assert_eq!(minutes, [0, 0, 0, 1, 1, 1, 2]);
    drop((turn(&client, &conversation).await, turn(&client, &conversation).await));
    let (late, _) = turn_in(&client, &conversation, Duration::from_secs(30)).await;
    let error = assert_failed(late, Overloaded, "leave no room for another ");
    assert!(error.retry_after_ms.is_some_and(|ms| ms > 55_000), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_given_up_keeps_its_place_in_the_minute() {
    let mut model = named("m", scripted(&[r#"{"content":"ok","delay_ms":1000}"#]));
    model.requests_per_minute = Some(1);
    model.timeout_ms = 600_000;
    let client = client(&model);
    let conversation = conversation(vec![user("hi")]);
    let begun = Instant::now();
    let given_up = timeout(Duration::from_millis(500), turn(&client, &conversation)).await;
    assert!(given_up.is_err());
    turn(&client, &conversation).await.0.unwrap();
    assert!((60..=62).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_busy_session_does_not_starve_another() {
    let mut model = named("m", scripted(&[r#"{"content":"ok","delay_ms":1000}"#]));
    model.concurrency = 1;
    model.queue_max = 100;
    let client = client(&model);
    let mut all = JoinSet::new();
    for session in [vec!["busy"; 20], vec!["other"]].concat() {
        let client = client.clone();
        let mut conversation = conversation(vec![user("hi")]);
        conversation.session = Some(SessionId::new(session).unwrap());
        all.spawn(async move {
            turn(&client, &conversation).await.0.unwrap();
            session
        });
    }
    let mut order = Vec::new();
    while let Some(session) = all.join_next().await {
        order.push(session.unwrap());
    }
    let at = order.iter().position(|session| *session == "other");
    assert!(at.is_some_and(|at| at <= 2), "{order:?}");
}

#[tokio::test]
async fn teams_at_one_server_get_its_places_by_their_weights() {
    let mut server = Server::start(vec![vec![Step::Send(said("ok"))]]).await;
    let guards = Guards::default();
    let mut all = JoinSet::new();
    for (name, weight) in [("light", 1), ("heavy", 3)] {
        let mut options = openai(&server.base_url, false);
        options.server.model = name.to_owned();
        options.server.concurrency = Some(1);
        let mut model = model(Provider::OpenAi(options));
        model.concurrency = 32;
        let clients = ModelClients::new(&team(name, weight, vec![model.clone()]), &guards, &http());
        let client = clients.unwrap().client(&model.name).unwrap().clone();
        for _ in 0..24 {
            let client = client.clone();
            all.spawn(async move {
                turn(&client, &conversation(vec![user("hi")])).await.0.unwrap();
            });
        }
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 48);
    // All of both wait after the first request; of the next 28 each fourth is of the light team.
    let light = requests[1..29].iter().filter(|(_, body)| body["model"] == "light").count();
    assert!((6..=8).contains(&light), "{light} of 28");
}
