//! The movie team: its published conversations through the loop, over a real database.

use std::path::Path;
use std::time::Duration;

use node::Node;
use serde_json::{Value, json};
use wire::{Headers, RunReply, RunRequest, RunStatus, SessionId};

use crate::house;

const COMEDIES: &str = "Recommended movies are: title:Keanu\n\
    actors:Keegan-Michael Key, Jordan Peele, Method Man, Tiffany Haddish\n\
    genre:Action, Comedy###Movie \n\
    title:Ice Age: The Great Egg-Scapade\n\
    actors:Ray Romano, John Leguizamo, Denis Leary, Queen Latifah\n\
    genre:Adventure, Animation, Children, Comedy###Movie \n\
    title:Neighbors 2: Sorority Rising\n\
    actors:Seth Rogen, Zac Efron, Rose Byrne, Chloë Grace Moretz\n\
    genre:Comedy";
const SMALLTALK: &str =
    "Create a final answer that says if they have any questions about movies or actors";
const JOHNS: &str = "Need additional information, which of these did you mean: John Goodman, \
    John Leguizamo, John Travolta";
const ASK_TASTE: &str = "Can you tell us about some of the movies you liked?";
const STORED: &str = "Create a final answer saying that preference has been stored";
const GENRES: [&str; 19] = [
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "IMAX",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
];

async fn start(data: &Path) -> Node {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams/seeds");
    house::start(&seeds.join("movies.toml"), data).await
}

async fn ask(node: &Node, input: &str, session: Option<&SessionId>) -> RunReply {
    let request = RunRequest {
        input: input.to_owned(),
        session: session.cloned(),
        run: None,
        timeout_ms: None,
        budget: None,
        parent: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let answer = house::ask(node, &house::entry(node), Headers::new(), body.into()).await;
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(reply.status, RunStatus::Completed, "{input}: {reply:?}");
    reply
}

/// Expects the calls of a run, each with its arguments and its text.
fn check(reply: &RunReply, expected: &[(&str, Value, &str)]) {
    let calls = reply.sources.iter().map(|source| {
        assert_eq!(source.status, "ok", "{source:?}");
        (source.tool.as_str(), source.arguments.clone(), &*source.output)
    });
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn seed_004_8_the_published_conversations() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let keanu = "type:Person\ntitle: Keanu Reeves\nyear: \n\
        ACTED_IN: Bill & Ted's Excellent Adventure, John Wick, Man of Tai Chi, Speed, The Matrix, \
        The Matrix Reloaded\nDIRECTED: Man of Tai Chi";
    for (input, calls, parts) in [
        (
            "What do you know about Keanu?",
            vec![("Information", json!({"entity": "Keanu", "entity_type": "person"}), keanu)],
            vec!["actor", "Man of Tai Chi"],
        ),
        (
            "What is a good comedy?",
            vec![("Recommender", json!({"genre": "Comedy"}), COMEDIES)],
            vec!["Keanu", "Ice Age: The Great Egg-Scapade", "Neighbors 2"],
        ),
        (
            "Hey",
            vec![("Smalltalk", json!({"query": "Hey"}), SMALLTALK)],
            vec!["Hello! If you have any questions about movies or actors, feel free to ask."],
        ),
        (
            "What's the weather like?",
            vec![],
            vec!["I'm sorry but I can't provide information on the weather."],
        ),
        (
            "Who are you?",
            vec![("Smalltalk", json!({"query": "I'm a helpful AI assistant."}), SMALLTALK)],
            vec!["questions about movies or actors"],
        ),
        (
            "What should I watch?",
            vec![("Recommender", json!({}), ASK_TASTE)],
            vec!["some films that you liked?"],
        ),
    ] {
        let reply = ask(&node, input, None).await;
        check(&reply, &calls);
        for part in parts {
            assert!(reply.output.contains(part), "{input}: {}", reply.output);
        }
    }

    let first = ask(&node, "What do you know about person John?", None).await;
    check(&first, &[("Information", json!({"entity": "John", "entity_type": "person"}), JOHNS)]);
    assert!(first.output.contains("John Travolta?"), "{}", first.output);
    let second = ask(&node, "John Travolta", Some(&first.session)).await;
    let travolta = "type:Person\ntitle: John Travolta\nyear: \n\
        ACTED_IN: Get Shorty, Grease, Pulp Fiction";
    let arguments = json!({"entity": "John Travolta", "entity_type": "person"});
    check(&second, &[("Information", arguments, travolta)]);
    assert!(second.output.contains("Pulp Fiction"), "{}", second.output);
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn seed_004_8_what_the_user_liked_outlives_a_restart_and_changes_what_is_recommended() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let before = ask(&node, "What is a good comedy?", None).await;
    check(&before, &[("Recommender", json!({"genre": "Comedy"}), COMEDIES)]);
    for _time in 0..2 {
        let rated = ask(&node, "I give Keanu 5 of 5", None).await;
        check(&rated, &[("Memory", json!({"movie": "Keanu", "rating": 5}), STORED)]);
    }
    node.drain(Duration::from_secs(5)).await;
    drop(node);

    // What can be deleted at any time holds none of it.
    std::fs::remove_dir_all(data.path().join("movies/store")).unwrap();
    let node = start(data.path()).await;
    let after = ask(&node, "What is a good comedy?", None).await;
    let [source] = after.sources.as_slice() else { panic!("{after:?}") };
    let titles: Vec<&str> =
        source.output.lines().filter_map(|line| Some(line.split_once("title:")?.1)).collect();
    let expected =
        ["Ice Age: The Great Egg-Scapade", "Neighbors 2: Sorority Rising", "Some Like It Hot"];
    assert_eq!(titles, expected, "a film that was seen is recommended no more");
    assert!(expected.iter().all(|title| after.output.contains(title)), "{}", after.output);

    let taste = ask(&node, "What should I watch?", None).await;
    let [source] = taste.sources.as_slice() else { panic!("{taste:?}") };
    let head = "Recommended movies are: title:The Matrix\n";
    assert!(source.output.starts_with(head), "{}", source.output);
    assert!(taste.output.contains("The Matrix"), "{}", taste.output);
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn seed_004_8_every_branch_of_the_tools() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let matrices = "Need additional information, which of these did you mean: The Matrix, \
        The Matrix Reloaded";
    let unknown = "No information was found about the movie or person in the database";
    let keanu = "type:Movie\ntitle: Keanu\nyear: 2016\n\
        ACTED_IN: Keegan-Michael Key, Jordan Peele, Method Man, Tiffany Haddish\n\
        DIRECTED: Peter Atencio\nHAS_GENRE: Action, Comedy";
    for (tool, arguments, expected) in [
        ("Information", json!({"entity": "keanu", "entity_type": "movie"}), keanu),
        ("Information", json!({"entity": "matrix", "entity_type": "movie"}), matrices),
        ("Information", json!({"entity": "Nobody", "entity_type": "person"}), unknown),
        ("Information", json!({"entity": "", "entity_type": "person"}), unknown),
        ("Information", json!({"entity": "\"* OR x:y -- \\", "entity_type": "movie"}), unknown),
        ("Information", json!({"entity": "\u{0}", "entity_type": "movie"}), unknown),
        (
            "Recommender",
            json!({"movie": "Nothing"}),
            "The movie you mentioned was not found in the database",
        ),
        (
            "Recommender",
            json!({"movie": "March of the Penguins", "genre": "Western"}),
            "No further movie was found in the database",
        ),
        ("Recommender", json!({"movie": ""}), ASK_TASTE),
        ("Memory", json!({"movie": "matrix", "rating": 1}), matrices),
        (
            "Memory",
            json!({"movie": "Nothing", "rating": 1}),
            "No information was found about the movie in the database",
        ),
    ] {
        assert_eq!(call(&node, tool, &arguments).await, Ok(expected.to_owned()), "{arguments}");
    }
    // A slip at the end of a word does no harm.
    let slip = json!({"entity": "Pulp Ficton", "entity_type": "movie"});
    assert!(call(&node, "Information", &slip).await.unwrap().contains("title: Pulp Fiction\n"));
    let liked =
        call(&node, "Recommender", &json!({"movie": "The Matrix", "genre": "Comedy"})).await;
    let expected = "Recommended movies are: title:Back to the Future\n";
    assert!(liked.as_ref().unwrap().starts_with(expected), "{liked:?}");

    for genre in GENRES {
        let found = call(&node, "Recommender", &json!({"genre": genre})).await.unwrap();
        let count = found.matches("title:").count();
        assert!((1..=3).contains(&count), "{genre}: {found}");
        assert!(
            found
                .lines()
                .filter(|line| line.starts_with("genre:"))
                .all(|line| line.contains(genre))
        );
    }
    for (tool, arguments) in [
        ("Recommender", json!({"genre": "Comedies"})),
        ("Memory", json!({"movie": "Keanu", "rating": 6})),
        ("Memory", json!({"movie": "Keanu", "rating": 0})),
        ("Information", json!({"entity": "Keanu", "entity_type": "film"})),
    ] {
        assert!(call(&node, tool, &arguments).await.is_err(), "{tool} {arguments}");
    }
    node.drain(Duration::from_secs(5)).await;
}

/// Calls a tool on its own subject, as any program may.
async fn call(node: &Node, tool: &str, arguments: &Value) -> Result<String, Value> {
    let team = node.team("movies").unwrap();
    let tool = wire::Name::new(tool).unwrap();
    let subject = team.subjects().tool(&team.team().name, &tool);
    let body =
        json!({"call": "k", "arguments": arguments, "session": "s", "run": "r", "agent": "critic"});
    let body = serde_json::to_vec(&body).unwrap();
    let answer = house::ask(node, &subject, Headers::new(), body.into()).await;
    let reply: Value = serde_json::from_slice(&answer.payload).unwrap();
    let text = reply.pointer("/outcome/output").and_then(Value::as_str).map(str::to_owned);
    text.ok_or(reply)
}
