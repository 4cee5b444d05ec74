//! The film critic on Ollama: what the server is sent, and what its tools are given.

use serde_json::{Value, json};
use wire::RunStatus;

use crate::house::{House, calls, said, seeds};
use crate::server::Server;

/// The published texts: the instruction comes as the user, results come bare.
const TEXTS: &str = r#"
[prompts.actor]
system = ""
opening = """
Answer the following questions as best you can. You can answer directly if the user is greeting you or similar.
Otherise, you have access to the following tools:

{% for tool in tools %}
{{ tool.name }}: {{ tool.description }}, args: {{ tool.parameters.properties | python }}
{% endfor %}

The only values that should be in the "action" field are: {{ tools | map(attribute="name") | list | python }}
Begin! Reminder to always use the exact characters `Final Answer` when responding."""
request = "{{ request }}"
call = "{{ reply }}"
result = "{{ result }}"
"#;

const TOOLS: &str = r#"
[tools.Recommender]
kind = "builtin"
builtin = "say"
description = "useful for when you need to recommend a movie"
text = "Recommended movies are: title:Keanu"
[tools.Recommender.parameters]
type = "object"
[tools.Recommender.parameters.properties]
movie = { title = "Movie", description = "movie used for recommendation", type = "string" }
genre = { title = "Genre", description = "genre used for recommendation. Available options are:['Action', 'Adventure', 'Animation', 'Children', 'Comedy', 'Crime', 'Documentary', 'Drama', 'Fantasy', 'Film-Noir', 'Horror', 'IMAX', 'Musical', 'Mystery', 'Romance', 'Sci-Fi', 'Thriller', 'War', 'Western']", type = "string" }

[tools.Information]
kind = "builtin"
builtin = "say"
description = "useful for when you need to answer questions about various actors or movies"
text = "type:Actor\ntitle: Keanu Reeves"
[tools.Information.parameters]
type = "object"
required = ["entity", "entity_type"]
[tools.Information.parameters.properties]
entity = { title = "Entity", description = "movie or a person mentioned in the question", type = "string" }
entity_type = { title = "Entity Type", description = "type of the entity. Available options are 'movie' or 'person'", type = "string" }

[tools.Smalltalk]
kind = "builtin"
builtin = "say"
description = "useful for when user greets you or wants to smalltalk"
text = "Create a final answer that says if they have any questions about movies or actors"
[tools.Smalltalk.parameters]
type = "object"
[tools.Smalltalk.parameters.properties]
query = { title = "Query", description = "user query", type = "string" }
"#;

/// The lines that the published notebook prints of its three tools.
const PRINTED: &str = r#"
Recommender: useful for when you need to recommend a movie, args: {'movie': {'title': 'Movie', 'description': 'movie used for recommendation', 'type': 'string'}, 'genre': {'title': 'Genre', 'description': "genre used for recommendation. Available options are:['Action', 'Adventure', 'Animation', 'Children', 'Comedy', 'Crime', 'Documentary', 'Drama', 'Fantasy', 'Film-Noir', 'Horror', 'IMAX', 'Musical', 'Mystery', 'Romance', 'Sci-Fi', 'Thriller', 'War', 'Western']", 'type': 'string'}}
Information: useful for when you need to answer questions about various actors or movies, args: {'entity': {'title': 'Entity', 'description': 'movie or a person mentioned in the question', 'type': 'string'}, 'entity_type': {'title': 'Entity Type', 'description': "type of the entity. Available options are 'movie' or 'person'", 'type': 'string'}}
Smalltalk: useful for when user greets you or wants to smalltalk, args: {'query': {'title': 'Query', 'description': 'user query', 'type': 'string'}}
"#;

fn model(server: &Server) -> String {
    let url = &server.url;
    format!(
        "provider = \"ollama\"\nbase_url = \"{url}\"\nmodel = \"mixtral\"\ntemperature = 0\n\
         dialect = \"react\"\n"
    )
}

/// A team with the published texts and tools, and so with no database.
async fn published(server: &Server) -> House {
    let text = format!(
        "[team]\nname = \"critic\"\n[models.mixtral]\n{}[agents.critic]\n\
         instructions = \"You help.\"\nmodel = \"mixtral\"\n\
         tools = [\"Recommender\", \"Information\", \"Smalltalk\"]\n{TEXTS}{TOOLS}",
        model(server)
    );
    House::of("critic", &text).await
}

/// Writes the shipped team with its model at a server.
pub(crate) fn at_ollama(server: &Server) -> String {
    let shipped = std::fs::read_to_string(seeds().join("movies.toml")).unwrap();
    let scripted =
        "provider = \"scripted\"\nscript = \"movies/actor.jsonl\"\ndialect = \"react\"\n";
    assert!(shipped.contains(scripted));
    shipped.replacen(scripted, &model(server), 1)
}

/// The same at work.
pub(crate) async fn served(server: &Server) -> House {
    House::of("movies", &at_ollama(server)).await
}

pub(crate) fn action(tool: &str, input: &Value) -> String {
    let blob = json!({"action": tool, "action_input": input});
    format!("Thought: I need a tool.\n\nAction:\n```json\n{blob:#}\n```")
}

#[tokio::test]
async fn seed_004_1_the_request_of_ollama() {
    let call = action("Information", &json!({"entity": "Keanu", "entity_type": "person"}));
    let hello = "Thought: I greet.\nFinal Answer: Hello!";
    let server = Server::ollama(&[hello, &call, "Final Answer: He is an actor."], vec![]).await;
    let house = published(&server).await;
    let first = house.put("Hey").await;
    assert_eq!(first.output, "Hello!");
    let second = house.in_session(&first, "What do you know about Keanu?").await;
    assert_eq!(second.output, "He is an actor.");

    let chats = server.chats();
    assert_eq!(chats.len(), 3);
    for chat in &chats {
        assert_eq!(chat["model"], "mixtral");
        assert_eq!(chat["options"]["temperature"].as_f64(), Some(0.0));
        assert_eq!(chat["options"]["stop"], json!(["\nObservation"]));
    }
    let shown = said(&chats[2]);
    let (who, instruction) = shown[0];
    assert_eq!(who, "user");
    assert!(instruction.starts_with("Answer the following questions as best you can."));
    assert!(instruction.contains(PRINTED), "{instruction}");
    let names = "are: ['Recommender', 'Information', 'Smalltalk']\n";
    assert!(instruction.contains(names), "{instruction}");
    let expected = [
        ("user", "Hey"),
        ("assistant", "Hello!"),
        ("user", "What do you know about Keanu?"),
        ("assistant", call.as_str()),
        ("user", "type:Actor\ntitle: Keanu Reeves"),
    ];
    assert_eq!(shown[1..], expected);
    house.end().await;
}

#[tokio::test]
async fn seed_004_4_texts_nulls_and_genres() {
    let genre = json!({"movie": null, "genre": "Comedies"});
    let comedy = json!({"movie": null, "genre": "Comedy"});
    let replies = [
        action("Smalltalk", &json!("Hey")),
        action("Recommender", &genre),
        action("Recommender", &comedy),
        "Final Answer: Keanu.".to_owned(),
    ];
    let server = Server::ollama(&replies, vec![]).await;
    let house = served(&server).await;
    let reply = house.put("Hey, what is a good comedy?").await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "Keanu."));
    let made = calls(&reply);
    let arguments: Vec<(&str, Value)> =
        made.iter().map(|(tool, arguments, _)| (*tool, arguments.clone())).collect();
    let expected =
        [("Smalltalk", json!({"query": "Hey"})), ("Recommender", json!({"genre": "Comedy"}))];
    assert_eq!(arguments, expected);
    let chats = server.chats();
    let (who, refusal) = *said(&chats[2]).last().unwrap();
    assert_eq!(who, "user");
    for genre in ["Action", "Comedy", "Film-Noir", "IMAX", "Sci-Fi", "Western"] {
        assert!(refusal.contains(genre), "{refusal}");
    }
    house.end().await;
}
