//! The shipped teams: they load, they obey the schema, and the quickstart answers its question.

use std::path::{Path, PathBuf};

use config::Team;
use config::script::{Script, matched_text};
use config::team::Provider;
use regex::Regex;
use serde_json::{Value, json};
use tools::ToolKind;
use tools::builtin::Builtin;
use wire::plan::{Dialect, Target};
use wire::{Message, Name, Plan};

const QUESTION: &str =
    "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";

fn shipped() -> Vec<PathBuf> {
    let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("teams");
    let folders = [teams.join("seeds"), teams];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

fn quickstart() -> Team {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("teams/quickstart.toml");
    config::load(&path).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

#[test]
fn all_load_and_obey_the_schema() {
    let schema = config::schema();
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let files = shipped();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
        assert_eq!(Some(team.name.as_str()), file.file_stem().and_then(|stem| stem.to_str()));
        assert!(team.agents.contains_key(&team.entry));
        for plan in team.agents.values() {
            let models = plan.thinker.iter().chain([&plan.actor]);
            assert!(models.into_iter().all(|model| team.models.contains_key(model)));
            assert_eq!(plan.dialect, team.models[&plan.actor].dialect);
            for offer in &plan.tools {
                let name = &offer.spec.name;
                match offer.target {
                    Target::Tool => assert_eq!(&team.tools[name].offer, offer),
                    Target::Agent => {
                        assert_eq!(offer.timeout_ms, team.agents[name].limits.deadline_ms);
                    }
                }
            }
        }
        let written: Value = toml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let refused: Vec<String> =
            validator.iter_errors(&written).map(|error| error.to_string()).collect();
        assert_eq!(refused, [""; 0], "{}", file.display());
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&config::schema()).unwrap();
    for (written, fine) in [
        (json!({}), true),
        (json!({"agent": {}}), false),
        (json!({"models": {"m": {}}}), false),
        (json!({"models": {"m": {"provider": "openai"}}}), true),
        (json!({"models": {"m": {"provider": "llamacpp", "template": "llama-2"}}}), true),
        (json!({"models": {"m": {"provider": "llamacpp", "template": "alpaca"}}}), false),
        (json!({"models": {"m": {"provider": "ollama", "think": true}}}), true),
        (json!({"models": {"m": {"provider": "ollama", "think": "low"}}}), true),
        (json!({"models": {"m": {"provider": "ollama", "think": "hard"}}}), false),
        (json!({"models": {"m": {"provider": "other"}}}), false),
        (json!({"models": {"m": {"provider": "openai", "concurrency": 0}}}), false),
        (json!({"models": {"m": {"provider": "openai", "concurrency": null}}}), false),
        (json!({"models": {"m": {"provider": "openai", "dialect": "schema"}}}), true),
        (json!({"models": {"m": {"provider": "openai", "dialect": "xml"}}}), false),
        (json!({"agents": {"a": {"tools": "search"}}}), false),
        (json!({"tools": {"t": {"kind": "http", "body": "arguments"}}}), true),
        (json!({"tools": {"t": {"kind": "http", "body": "everything"}}}), false),
        (json!({"tools": {"t": {"kind": "http", "headers": {"A": {"env": "B"}}}}}), true),
        (json!({"tools": {"t": {"kind": "http", "headers": {"A": {"secret": "B"}}}}}), false),
        (json!({"tools": {"t": {"kind": "model", "output": "json", "schema": {}}}}), true),
        (json!({"tools": {"t": {"kind": "model", "output": "yaml"}}}), false),
        (json!({"tools": {"t": {"kind": "query", "statements": ["select 1"]}}}), true),
        (json!({"tools": {"t": {"kind": "query", "statements": []}}}), false),
        (json!({"databases": {"d": {"kind": "sqlite"}}}), true),
        (json!({"databases": {"d": {"kind": "oracle"}}}), false),
        (json!({"limits": {"steps_max": 1001}}), false),
    ] {
        assert_eq!(validator.is_valid(&written), fine, "{written}");
    }
}

/// Takes the reply that a script gives to the end of a conversation.
fn play(script: &Script, before: &str, last: &str) -> String {
    let message = |content: &str| Message::User { content: content.to_owned() };
    let text = matched_text([message("The beginning."), message(before), message(last)].iter());
    let matches =
        |when: &Option<String>| Regex::new(when.as_ref().unwrap()).unwrap().is_match(&text);
    script.replies.iter().find(|reply| matches(&reply.when)).unwrap().content.clone()
}

/// Runs an agent with its scripts as the runtime would, and notes who called what.
fn answer(team: &Team, agent: &str, request: &str, trace: &mut Vec<String>) -> String {
    let plan: &Plan = &team.agents[agent];
    let script = |name: &Name| match &team.models[name].provider {
        Provider::Scripted(script) => script.clone(),
        other => panic!("the quickstart needs no server: {other:?}"),
    };
    let (thinker, actor) = (script(plan.thinker.as_ref().unwrap()), script(&plan.actor));
    let mut newest = format!("The user request is: {request}");
    for number in 1..=plan.limits.steps_max {
        let thought = play(&thinker, &newest, "What comes next? Say it in one or two sentences.");
        let written = play(&actor, &thought, "Now make the call, nothing else.");
        let call: Value = serde_json::from_str(&written).unwrap();
        let (name, arguments) = (call["tool"].as_str().unwrap(), &call["arguments"]);
        if name == "respond_to_user" {
            return arguments["answer"].as_str().unwrap().to_owned();
        }
        trace.push(format!("{agent} -> {name}"));
        let offer = plan.offer(name).unwrap_or_else(|| panic!("{agent} may not call {name}"));
        assert!(jsonschema::is_valid(&offer.spec.parameters, arguments), "{written}");
        let result = match offer.target {
            Target::Agent => answer(team, name, arguments["task"].as_str().unwrap(), trace),
            Target::Tool => result(&team.tools[name].kind, arguments),
        };
        newest = format!("The result of call {number} ({name}) is: {result}");
    }
    panic!("{agent} comes to no end")
}

fn result(kind: &ToolKind, arguments: &Value) -> String {
    match kind {
        ToolKind::Builtin(Builtin::Lookup(rows)) => {
            let query = arguments["query"].as_str().unwrap().to_lowercase();
            let row = rows.iter().find(|row| row.words.iter().all(|word| query.contains(word)));
            row.unwrap().answer.clone()
        }
        ToolKind::Builtin(Builtin::Calculate) => {
            assert_eq!(arguments["expression"], "25^0.24");
            25_f64.powf(0.24).to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_quickstart_answers_by_the_chain_of_calls_that_it_shows() {
    let team = quickstart();
    assert_eq!(team.agents["lead"].dialect, Dialect::Schema);
    let mut trace = Vec::new();
    let answer = answer(&team, "lead", QUESTION, &mut trace);
    assert!(answer.contains("Vittoria Ceretti") && answer.contains("2.16524"), "{answer}");
    assert_eq!(
        trace,
        [
            "lead -> researcher",
            "researcher -> search_internet",
            "lead -> mathematician",
            "mathematician -> calculate"
        ]
    );
}

#[test]
fn the_quickstart_answers_other_questions_without_calls() {
    let team = quickstart();
    for (request, part) in [
        ("Tell me a joke", "callboard"),
        ("What is the weather in Bonn?", "play prepared replies"),
        ("", "play prepared replies"),
        ("Two\nlines", "play prepared replies"),
    ] {
        let mut trace = Vec::new();
        let answer = answer(&team, "lead", request, &mut trace);
        assert!(answer.contains(part), "{request}: {answer}");
        assert_eq!(trace, [""; 0], "{request}");
    }
}
