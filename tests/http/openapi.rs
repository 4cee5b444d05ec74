//! Agents that call the operations of OpenAPI files, on a server that notes what it is asked.

use std::path::Path;

use serde_json::{Value, json};
use tools::ToolKind;
use tools::http::HttpSpec;
use wire::EffectClass;

use crate::agent::{answer as answer_of, run};
use crate::site::{Answer, Seen, Site, answer, ok};

const SHOP: &str = include_str!("shop.yaml");
const NOTES: &str = include_str!("notes.json");

const BEARER: (&str, &str) = ("authorization", "Bearer hunter2-hunter2");

/// Lays out both files and a key, and returns the tables of both.
fn tables(folder: &Path, base: &str) -> String {
    std::fs::write(folder.join("shop.yaml"), SHOP).unwrap();
    std::fs::write(folder.join("notes.json"), NOTES).unwrap();
    std::fs::write(folder.join("key"), "hunter2-hunter2\n").unwrap();
    format!(
        "tools = ['shop_*', 'n-search', 'n-*']\n\
         [openapi.shop]\nfile = 'shop.yaml'\noperations = ['*', '!upload*']\nbase_url = '{base}/v2/'\n\
         headers = {{ Authorization = {{ file = 'key', prefix = 'Bearer ' }} }}\n\
         effects = {{ addAnimal = 'idempotent' }}\n\
         [openapi.notes]\nfile = 'notes.json'\nprefix = 'n-'\nbase_url = '{base}'\n\
         query = {{ api_key = {{ file = 'key' }} }}\n"
    )
}

fn answers(seen: &Seen) -> Answer {
    let json = |body: &str| answer("200 OK", "content-type: application/json\r\n", body);
    match (seen.method.as_str(), seen.target.split('?').next().unwrap_or_default()) {
        ("GET", "/v2/animals") => json(r#"[{"id":1,"name":"Rex"}]"#),
        ("POST", "/v2/animals") => {
            answer("201 Created", "content-type: application/json\r\n", "{}")
        }
        ("DELETE" | "PATCH", _) => answer("204 No Content", "", ""),
        ("POST", "/echo") => ok(&seen.body),
        _ => json("{}"),
    }
}

/// What is called, and what the server has to see: the line, and parts of its headers and body.
struct Case {
    call: (&'static str, Value),
    line: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            call: (
                "shop_listAnimals",
                json!({"kind": ["cat", "fish"], "tag": ["a", "b c"], "limit": 3,
                    "filter": {"color": "red", "weight_max": 1.5}, "X-Trace": "t",
                    "expand": ["mother", "born"]}),
            ),
            line: "GET /v2/animals?kind=cat&kind=fish&tag=a%2Cb+c&filter%5Bcolor%5D=red\
                   &filter%5Bweight_max%5D=1.5&expand%5B%5D=mother&expand%5B%5D=born&limit=3",
            headers: &[BEARER, ("x-trace", "t")],
            body: "",
        },
        Case {
            call: (
                "shop_addAnimal",
                json!({"body": {"name": "Rex", "born": null, "mother": null, "children": []}}),
            ),
            line: "POST /v2/animals",
            headers: &[BEARER, ("content-type", "application/json")],
            body: r#"{"name":"Rex","born":null,"mother":null,"children":[]}"#,
        },
        Case {
            call: (
                "shop_animals_get",
                json!({"animal-id": 7, "X-Locale": "de", "seen": "1", "visits": 2}),
            ),
            line: "GET /v2/animals/7",
            headers: &[("x-locale", "de"), ("cookie", "seen=1; visits=2")],
            body: "",
        },
        Case {
            call: (
                "shop_patch_animals_animal-id",
                json!({"animal-id": 7, "body": {"name": "R & x", "tags": ["a", "b"],
                    "nicks": ["c", "d"], "owner": {"name": "Ada", "phones": ["1", "2"]},
                    "chip": {"id": [7]}}}),
            ),
            line: "PATCH /v2/animals/7",
            headers: &[("content-type", "application/x-www-form-urlencoded")],
            body: "name=R+%26+x&tags=a&tags=b&nicks=c%2Cd&owner%5Bname%5D=Ada\
                   &owner%5Bphones%5D%5B%5D=1&owner%5Bphones%5D%5B%5D=2\
                   &chip=%7B%22id%22%3A%5B7%5D%7D",
        },
        Case {
            call: ("shop_deleteAnimal", json!({"animal-id": 8})),
            line: "DELETE /v2/animals/8",
            headers: &[BEARER],
            body: "",
        },
        Case {
            call: (
                "n-putNote",
                json!({"id": "a/b", "body": {"text": null, "priority": 1, "place": [1.5, 2]}}),
            ),
            line: "PUT /notes/a%2Fb?api_key=hunter2-hunter2",
            headers: &[("content-type", "application/vnd.notes+json")],
            body: r#"{"text":null,"priority":1,"place":[1.5,2]}"#,
        },
        Case {
            call: ("n-search", json!({"where": {"a": [1]}, "range": {"from": 1, "to": 2}})),
            line: "GET /search?api_key=hunter2-hunter2&where=%7B%22a%22%3A%5B1%5D%7D&from=1&to=2",
            headers: &[],
            body: "",
        },
        Case {
            call: ("n-echo", json!({"body": "plain"})),
            line: "POST /echo?api_key=hunter2-hunter2",
            headers: &[("content-type", "text/plain")],
            body: "plain",
        },
        Case {
            call: ("n-echo", json!({})),
            line: "POST /echo?api_key=hunter2-hunter2",
            headers: &[],
            body: "",
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_calls_operations_as_their_file_says() {
    let site = Site::start(answers).await;
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let calls: Vec<_> = cases.iter().map(|case| case.call.clone()).collect();
    let outputs = run(folder.path(), &tables(folder.path(), &site.base()), &calls).await;
    let seen = site.take();
    assert_eq!(seen.len(), cases.len(), "{outputs:#?}\n{seen:#?}");
    for (case, seen) in cases.iter().zip(&seen) {
        assert_eq!(format!("{} {}", seen.method, seen.target), case.line);
        assert_eq!(seen.body, case.body, "{}", case.line);
        for (name, value) in case.headers {
            let found = seen.headers.get(*name).map(String::as_str);
            assert_eq!(found, Some(*value), "{} {name}", case.line);
        }
    }
    assert_eq!(outputs[0], r#"[{"id":1,"name":"Rex"}]"#);
    assert!(outputs[4].contains("204 No Content"), "{outputs:?}");
    assert_eq!(outputs[6..8], ["{}", "plain"]);
    // What the file promises of an answer is told, and not insisted on.
    for (index, missing) in [(1, "\"id\""), (5, "\"text\"")] {
        let note =
            format!("{{}}\n[this is not of the form that the interface promises: {missing} is");
        assert!(outputs[index].starts_with(&note), "{}", outputs[index]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_held_to_the_schemas_of_the_file() {
    let site = Site::start(answers).await;
    let folder = tempfile::tempdir().unwrap();
    let calls = [
        ("shop_listAnimals", json!({"kind": ["cow"]})),
        ("shop_listAnimals", json!({"filter": {"weight_max": 0}})),
        ("shop_addAnimal", json!({"body": {"born": null}})),
        ("shop_animals_get", json!({})),
        ("shop_animals_get", json!({"animal-id": 1, "api_key": "mine"})),
        ("n-putNote", json!({"id": "x", "body": {"text": "t", "place": [1, 2, 3]}})),
    ];
    let lines = calls.iter().map(|(name, arguments)| {
        json!({"calls": [{"name": name, "arguments": arguments}]}).to_string() + "\n"
    });
    // Each is told to the model, which then gives up.
    let tables = tables(folder.path(), &site.base());
    for line in lines {
        let script = line + "{\"content\": \"done\"}\n";
        let reply = answer_of(folder.path(), &tables, &script).await;
        assert_eq!(reply.output, "done");
        assert!(site.take().is_empty());
    }
}

fn tool<'t>(team: &'t config::Team, name: &str) -> (&'t wire::plan::Offer, &'t HttpSpec) {
    let tool = &team.tools[name];
    let ToolKind::Http(spec) = &tool.kind else { panic!("{name} is no http tool") };
    (&tool.offer, spec)
}

#[test]
fn operations_become_tools() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path(), "http://127.0.0.1:1");
    let file = folder.path().join("t.toml");
    let head = "[models.m]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\nmodel = 'm'\n\
                [agents.a]\ninstructions = 'i'\nmodel = 'm'\n";
    std::fs::write(&file, format!("{head}{tables}")).unwrap();
    let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let offered: Vec<&str> =
        team.agents["a"].tools.iter().map(|offer| offer.spec.name.as_str()).collect();
    let expected = [
        "shop_addAnimal",
        "shop_animals_get",
        "shop_deleteAnimal",
        "shop_listAnimals",
        "shop_patch_animals_animal-id",
        "n-search",
        "n-echo",
        "n-putNote",
    ];
    assert_eq!(offered, expected);
    for (name, effect) in [
        ("shop_listAnimals", EffectClass::Read),
        ("shop_addAnimal", EffectClass::Idempotent),
        ("shop_deleteAnimal", EffectClass::Idempotent),
        ("shop_patch_animals_animal-id", EffectClass::Once),
        ("n-echo", EffectClass::Once),
    ] {
        assert_eq!(tool(&team, name).0.effect, effect, "{name}");
    }
    let (offer, spec) = tool(&team, "shop_addAnimal");
    assert_eq!(offer.spec.description, "Adds an animal.");
    assert!(!spec.foreign);
    let another = json!({"description": "another Animal"});
    let animal = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"},
        "born": {"type": ["string", "null"], "format": "date"},
        "mother": {"anyOf": [{"allOf": [another]}, {"type": "null"}]},
        "children": {"type": "array", "items": another},
    }});
    let expected = json!({"type": "object", "properties": {
        "X-Trace": {"type": "string", "description": "a word that comes back"}, "body": animal,
    }, "required": ["body"], "additionalProperties": false});
    assert_eq!(offer.spec.parameters, expected);
    let (offer, _) = tool(&team, "shop_listAnimals");
    assert_eq!(
        offer.spec.description,
        "Lists animals.\nLists animals of some kinds, the youngest first."
    );
    let properties = &offer.spec.parameters["properties"];
    assert_eq!(properties["kind"]["description"], "kinds that are wanted");
    let weight = &properties["filter"]["properties"]["weight_max"];
    assert_eq!(weight, &json!({"type": "number", "minimum": 0, "exclusiveMinimum": 0}));
    let (offer, _) = tool(&team, "shop_animals_get");
    assert_eq!(
        offer.spec.parameters["properties"]["X-Locale"],
        json!({"type": ["string", "null"], "enum": ["de", "en", null]})
    );
    let (offer, _) = tool(&team, "n-putNote");
    assert_eq!(
        offer.spec.parameters["properties"]["body"]["properties"]["place"],
        json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}],
            "items": false, "description": "where it was written"})
    );
    let (offer, _) = tool(&team, "n-search");
    assert!(offer.spec.parameters["properties"].get("api_key").is_none());
}
