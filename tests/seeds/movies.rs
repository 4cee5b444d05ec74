//! The movie teams: their published conversations through the loop, each over a real database.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::graph::{Graph, PASSWORD};
use wire::{Headers, Name, RunReply};

use crate::house::{self, House, changed, seeds, shipped};

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

/// What the engine of the tests has to know of a graph before the first node; Neo4j needs none.
const TABLES: [&str; 8] = [
    "CREATE NODE TABLE Movie (title STRING PRIMARY KEY, year INT64)",
    "CREATE NODE TABLE Person (name STRING PRIMARY KEY)",
    "CREATE NODE TABLE Genre (name STRING PRIMARY KEY)",
    "CREATE NODE TABLE User (userId STRING PRIMARY KEY)",
    "CREATE REL TABLE ACTED_IN (FROM Person TO Movie, billing INT64)",
    "CREATE REL TABLE DIRECTED (FROM Person TO Movie)",
    "CREATE REL TABLE IN_GENRE (FROM Movie TO Genre)",
    "CREATE REL TABLE RATED (FROM User TO Movie, rating INT64)",
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sqlite,
    Neo4j,
}

const KINDS: [Kind; 2] = [Kind::Sqlite, Kind::Neo4j];

/// A team at work, with its database.
struct Place {
    house: House,
    _server: Option<(Graph, TempDir)>,
}

impl Place {
    async fn new(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => Self { house: House::shipped("movies").await, _server: None },
            Kind::Neo4j => Self::on_graph().await,
        }
    }

    async fn on_graph() -> Self {
        let graph = Graph::start().await;
        for table in TABLES {
            graph.perform(table).await;
        }
        let script = std::fs::read_to_string(seeds().join("movies/movies.cypher")).unwrap();
        for statement in script.split_terminator(";\n") {
            // The keys of the tables stand for the constraints.
            if !statement.contains("CREATE CONSTRAINT") {
                graph.perform(statement).await;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, PASSWORD).unwrap();
        let text = shipped("movies-neo4j");
        let port = format!("kind = \"neo4j\"\nport = {}\n", graph.port);
        let text = changed(&text, "kind = \"neo4j\"\n", &port);
        let text =
            changed(&text, "{ env = \"NEO4J_PASSWORD\" }", &format!("{{ file = {file:?} }}"));
        let house = House::of("movies-neo4j", &text).await;
        Self { house, _server: Some((graph, folder)) }
    }

    /// Calls a tool on its own subject, as any program may.
    async fn call(&self, tool: &str, arguments: &Value) -> Result<String, Value> {
        let team = self.house.team();
        let subject = team.subjects().tool(&team.team().name, &Name::new(tool).unwrap());
        let body = json!({
            "call": "k", "arguments": arguments, "session": "s", "run": "r", "agent": "critic",
        });
        let reply = self.house.request(&subject, Headers::new(), &body).await;
        let text = reply.pointer("/outcome/output").and_then(Value::as_str).map(str::to_owned);
        text.ok_or(reply)
    }
}

/// Expects the calls of a run, each with its arguments and its text.
fn check(reply: &RunReply, expected: &[(&str, Value, &str)]) {
    let expected = expected.iter().map(|(tool, given, text)| (*tool, given.clone(), "ok", *text));
    house::check(reply, &expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn seed_004_8_the_published_conversations() {
    for kind in KINDS {
        converse(&Place::new(kind).await.house).await;
    }
}

async fn converse(house: &House) {
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
        let reply = house.say(input).await;
        check(&reply, &calls);
        for part in parts {
            assert!(reply.output.contains(part), "{input}: {}", reply.output);
        }
    }

    let first = house.say("What do you know about person John?").await;
    check(&first, &[("Information", json!({"entity": "John", "entity_type": "person"}), JOHNS)]);
    assert!(first.output.contains("John Travolta?"), "{}", first.output);
    let second = house.in_session(&first, "John Travolta").await;
    let travolta = "type:Person\ntitle: John Travolta\nyear: \n\
        ACTED_IN: Get Shorty, Grease, Pulp Fiction";
    let arguments = json!({"entity": "John Travolta", "entity_type": "person"});
    check(&second, &[("Information", arguments, travolta)]);
    assert!(second.output.contains("Pulp Fiction"), "{}", second.output);
}

#[tokio::test]
async fn seed_004_8_what_the_user_liked_outlives_a_restart_and_changes_what_is_recommended() {
    for kind in KINDS {
        let Place { house, _server } = Place::new(kind).await;
        rate_and_restart(house).await;
    }
}

async fn rate_and_restart(house: House) {
    let before = house.say("What is a good comedy?").await;
    check(&before, &[("Recommender", json!({"genre": "Comedy"}), COMEDIES)]);
    for _time in 0..2 {
        let rated = house.say("I give Keanu 5 of 5").await;
        check(&rated, &[("Memory", json!({"movie": "Keanu", "rating": 5}), STORED)]);
    }
    let house = house.without_store().await;
    let after = house.say("What is a good comedy?").await;
    let [source] = after.sources.as_slice() else { panic!("{after:?}") };
    let titles: Vec<&str> =
        source.output.lines().filter_map(|line| Some(line.split_once("title:")?.1)).collect();
    let expected =
        ["Ice Age: The Great Egg-Scapade", "Neighbors 2: Sorority Rising", "Some Like It Hot"];
    assert_eq!(titles, expected, "a film that was seen is recommended no more");
    assert!(expected.iter().all(|title| after.output.contains(title)), "{}", after.output);

    let taste = house.say("What should I watch?").await;
    let [source] = taste.sources.as_slice() else { panic!("{taste:?}") };
    let head = "Recommended movies are: title:The Matrix\n";
    assert!(source.output.starts_with(head), "{}", source.output);
    assert!(taste.output.contains("The Matrix"), "{}", taste.output);
    house.end().await;
}

#[tokio::test]
async fn seed_004_8_every_branch_of_the_tools() {
    for kind in KINDS {
        take_every_branch(&Place::new(kind).await).await;
    }
}

async fn take_every_branch(place: &Place) {
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
        assert_eq!(place.call(tool, &arguments).await, Ok(expected.to_owned()), "{arguments}");
    }
    // A slip at the end of a word does no harm.
    let slip = json!({"entity": "Pulp Ficton", "entity_type": "movie"});
    assert!(place.call("Information", &slip).await.unwrap().contains("title: Pulp Fiction\n"));
    let liked = place.call("Recommender", &json!({"movie": "The Matrix", "genre": "Comedy"})).await;
    let expected = "Recommended movies are: title:Back to the Future\n";
    assert!(liked.as_ref().unwrap().starts_with(expected), "{liked:?}");

    for genre in GENRES {
        let found = place.call("Recommender", &json!({"genre": genre})).await.unwrap();
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
        assert!(place.call(tool, &arguments).await.is_err(), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn both_databases_say_the_same() {
    let [sqlite, graph] = [Place::new(Kind::Sqlite).await, Place::new(Kind::Neo4j).await];
    let both = async |tool: &str, arguments: Value| {
        let said = sqlite.call(tool, &arguments).await.unwrap();
        assert_eq!(graph.call(tool, &arguments).await.as_ref(), Ok(&said), "{tool} {arguments}");
        said
    };
    let script = std::fs::read_to_string(seeds().join("movies/movies.cypher")).unwrap();
    let titles: Vec<String> = script
        .lines()
        .filter_map(|line| Some(line.strip_prefix("  {title: '")?.split_once("', year: ")?.0))
        .map(|title| title.replace("\\'", "'"))
        .collect();
    assert_eq!(titles.len(), 43);
    let mut people = BTreeSet::new();
    for title in &titles {
        let told = both("Information", json!({"entity": title, "entity_type": "movie"})).await;
        let lists = told.lines().filter_map(|line| {
            line.strip_prefix("ACTED_IN: ").or_else(|| line.strip_prefix("DIRECTED: "))
        });
        people.extend(lists.flat_map(|list| list.split(", ")).map(str::to_owned));
        both("Recommender", json!({"movie": title})).await;
    }
    assert!(people.len() > 100, "{people:?}");
    for person in people {
        both("Information", json!({"entity": person, "entity_type": "person"})).await;
    }
    for genre in GENRES {
        both("Recommender", json!({"genre": genre})).await;
        both("Recommender", json!({"movie": "The Matrix", "genre": genre})).await;
    }
}
