//! What the servers are sent, and what follows from their answers.

use serde_json::{Value, json};
use wire::{ErrorCode, RunStatus};

use super::{
    BY_GRAMMAR, GIRLFRIEND, QUESTION, TOOLS, call, respond, served, start, without_thinker,
};
use crate::house::{changed, check, heard, on_servers, shipped};
use crate::server::{Server, completion, cut};

const MEANS: [&str; 3] = ["json_schema", "grammar", "response_format"];

/// Returns the means by which a request says what the reply has to obey.
fn means(body: &Value) -> Vec<&str> {
    MEANS.into_iter().filter(|means| body.get(means).is_some()).collect()
}

#[tokio::test]
async fn seed_000_1_an_act_request_carries_one_alternative_a_tool_and_the_answer_last() {
    let by_schema = "constrain = \"json_schema\"";
    for (setting, sent) in [(BY_GRAMMAR, "grammar"), (by_schema, "json_schema")] {
        let server = Server::start(["No tool.", &respond("Hello!")].map(completion)).await;
        let team = changed(&served(&server, &server), BY_GRAMMAR, setting);
        let house = start(&team).await;
        assert_eq!(house.say("Hi").await.output, "Hello!");
        let [_, act] = &server.seen()[..] else { panic!("{:?}", server.seen()) };
        assert_eq!((act.path.as_str(), means(&act.body)), ("/completion", vec![sent]));
        let names =
            ["search_internet", "search_images", "create_event", "calculate", "respond_to_user"];
        if sent == "grammar" {
            let grammar = act.body[sent].as_str().unwrap();
            let root = grammar.lines().find(|line| line.starts_with("root ::=")).unwrap();
            assert_eq!(root, "root ::= 0 | 1 | 2 | 3 | 4");
            let written = |index| format!("{index}-tool ::= \"\\\"{}\\\"\"", names[index]);
            assert!((0..5).all(|index| grammar.contains(&written(index))), "{grammar}");
        } else {
            let alternatives = act.body[sent]["oneOf"].as_array().unwrap();
            let tools: Vec<&Value> = alternatives
                .iter()
                .map(|alternative| &alternative["properties"]["tool"]["const"])
                .collect();
            assert_eq!(tools, names);
        }
        house.end().await;
    }
}

#[tokio::test]
async fn seed_000_2_a_think_request_carries_no_schema_and_the_act_request_the_thought() {
    let thought = "A joke needs no tool, so I tell one.";
    let server = Server::start([thought, &respond("Ha!")].map(completion)).await;
    let house = start(&served(&server, &server)).await;
    house.say("Tell me a joke").await;
    let [think, act] = &server.seen()[..] else { panic!("{:?}", server.seen()) };
    assert_eq!((means(&think.body), means(&act.body)), (vec![], vec!["grammar"]));
    assert!(!think.prompt().contains(thought), "{think:?}");
    assert!(act.prompt().contains(&format!("[/INST] {thought} </s><s>[INST] ")), "{act:?}");
    house.end().await;

    let answer =
        json!({"thought": "so", "tool": "respond_to_user", "arguments": {"answer": "Ha!"}});
    let server = Server::start([completion(&answer.to_string())]).await;
    let house = start(&without_thinker(&served(&server, &server))).await;
    assert_eq!(house.say("Tell me a joke").await.output, "Ha!");
    let [act] = &server.seen()[..] else { panic!("{:?}", server.seen()) };
    assert_eq!(means(&act.body), ["grammar"]);
    house.end().await;
}

#[tokio::test]
async fn seed_000_3_the_fields_are_those_of_the_preset() {
    let server = Server::start(["No tool.", &respond("Hello!")].map(completion)).await;
    let house = start(&served(&server, &server)).await;
    house.say("Hi").await;
    let expected = json!({"n_predict": 512, "temperature": -1.0, "top_k": 40, "top_p": 0.9,
        "repeat_penalty": 1.1, "repeat_last_n": 64, "stop": ["</s>"], "stream": false});
    for request in server.seen() {
        let mut body = request.body.as_object().unwrap().clone();
        body.shift_remove("prompt").unwrap();
        body.shift_remove("grammar");
        assert_eq!(Value::Object(body), expected);
    }
    house.end().await;
}

/// Writes a system's text, a first question, its answer and a second question as each form does.
fn golden(template: &str, [system, first, answer, second]: [&str; 4]) -> String {
    match template {
        "llama-2" => format!(
            "<s>[INST] <<SYS>>\n{system}\n<</SYS>>\n\n{first} [/INST] {answer} </s>\
             <s>[INST] {second} [/INST]"
        ),
        "llama-3" => format!(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\n{first}<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\n{second}<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        "chatml" => format!(
            "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{first}<|im_end|>\n\
             <|im_start|>assistant\n{answer}<|im_end|>\n<|im_start|>user\n{second}<|im_end|>\n\
             <|im_start|>assistant\n"
        ),
        "mistral" => {
            format!("<s>[INST] {system}\n\n{first} [/INST]{answer}</s> [INST] {second} [/INST]")
        }
        other => panic!("no such form: {other}"),
    }
}

#[tokio::test]
async fn seed_000_3_the_prompt_is_exactly_the_text_of_each_form() {
    for template in ["llama-2", "llama-3", "chatml", "mistral"] {
        let server = Server::start(["No tool.", &respond("Hello!")].map(completion)).await;
        let team = served(&server, &server);
        let team = changed(&team, "\"llama-2\"", &format!("{template:?}"));
        let house = start(&team).await;
        let mut acts = house.hear("actor").await;
        house.say("Hi").await;
        let heard = heard(&mut acts).await;
        let [system, request, thought, ask] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(request, "The user request is: Hi");
        assert_eq!(thought, "No tool.");
        let expected = golden(template, [system.trim_end(), request, thought, ask]);
        assert_eq!(server.seen()[1].prompt(), expected, "{template}");
        house.end().await;
    }
}

#[tokio::test]
async fn seed_000_4_the_published_grammar_is_sent() {
    let server = Server::start(["No tool.", &respond("Hello!")].map(completion)).await;
    let three = r#"["search_internet", "create_event"]"#;
    let house = start(&changed(&served(&server, &server), TOOLS, three)).await;
    house.say("Hi").await;
    let seen = server.seen();
    let grammar = seen[1].body["grammar"].as_str().unwrap();
    let lines: Vec<&str> = grammar.lines().filter(|line| !line.starts_with("char ")).collect();
    let expected = [
        r#"space ::= " "?"#,
        r#"0-tool ::= "\"search_internet\"""#,
        r#"string ::= "\"" char* "\"" space"#,
        r#"0-arguments ::= "{" space "\"query\"" space ":" space string "}" space"#,
        r#"0 ::= "{" space "\"tool\"" space ":" space 0-tool "," space "\"arguments\"" space ":" space 0-arguments "}" space"#,
        r#"1-tool ::= "\"create_event\"""#,
        r#"1-arguments ::= "{" space "\"datetime\"" space ":" space string "," space "\"title\"" space ":" space string "}" space"#,
        r#"1 ::= "{" space "\"tool\"" space ":" space 1-tool "," space "\"arguments\"" space ":" space 1-arguments "}" space"#,
        r#"2-tool ::= "\"respond_to_user\"""#,
        r#"2-arguments ::= "{" space "\"answer\"" space ":" space string "}" space"#,
        r#"2 ::= "{" space "\"tool\"" space ":" space 2-tool "," space "\"arguments\"" space ":" space 2-arguments "}" space"#,
        "root ::= 0 | 1 | 2",
    ];
    assert_eq!(lines, expected);
    house.end().await;
}

#[tokio::test]
async fn seed_000_4_a_call_of_the_published_form_is_made_and_one_without_a_key_is_not() {
    let answers = [
        "I create it.",
        r#"{ "tool": "create_event", "arguments": {"datetime": "x"}}"#,
        r#"{ "tool": "create_event", "arguments": {"datetime": "x", "title": "y"}}"#,
        "It is there.",
        &respond("Done."),
    ];
    let server = Server::start(answers.map(completion)).await;
    let house = start(&served(&server, &server)).await;
    let reply = house.say("Create an event").await;
    let arguments = json!({"datetime": "x", "title": "y"});
    check(&reply, &[("create_event", arguments, "ok", "Event y successfully created!")]);
    assert!(server.seen()[2].prompt().contains("invalid_arguments"), "{:?}", server.seen()[2]);
    house.end().await;
}

#[test]
fn seed_000_4_parameters_of_every_kind_have_a_grammar() {
    for (parameter, rule) in [
        (json!({"enum": ["mild", "hot"]}), r#""\"mild\"" | "\"hot\"""#),
        (json!({"type": "array", "items": {"type": "boolean"}}), r#""[" space"#),
        (json!({"type": "integer"}), "integer ::="),
        (json!({"type": "boolean"}), r#""true" | "false""#),
        (
            json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}),
            r#""\"x\"" space ":" space number"#,
        ),
    ] {
        for required in [vec!["p"], vec![]] {
            let arguments = json!({"type": "object", "properties": {"p": parameter}, "required": required,
                "additionalProperties": false});
            let grammar = agents_core::grammar::to_gbnf(&arguments).unwrap();
            assert!(grammar.contains(rule), "{rule} in {grammar}");
            assert_eq!(grammar.contains("(p-pair)?"), required.is_empty(), "{grammar}");
        }
    }
}

#[tokio::test]
async fn seed_000_5_the_published_run_makes_its_two_calls_and_answers() {
    let search = json!({"query": "Leonardo DiCaprio's current girlfriend"});
    let power = json!({"expression": "25^0.24"});
    let answers = [
        "I search for her.",
        &call("search_internet", &search),
        "I calculate the power of her age.",
        &call("calculate", &power),
        "Nothing is missing.",
        &respond("Vittoria Ceretti, 2.16524"),
    ];
    let server = Server::start(answers.map(completion)).await;
    let house = start(&served(&server, &server)).await;
    let reply = house.say(QUESTION).await;
    assert_eq!(reply.output, "Vittoria Ceretti, 2.16524");
    let calls =
        [("search_internet", search, "ok", GIRLFRIEND), ("calculate", power, "ok", "2.16524")];
    check(&reply, &calls);
    let seen = server.seen();
    let last = |index: usize| seen[index].prompt().rsplit_once("[INST] ").unwrap().1.to_owned();
    assert_eq!(seen.len(), answers.len());
    assert!(last(2).starts_with("The result of tool call 1 is: Leonardo"), "{}", last(2));
    assert!(last(4).starts_with("The result of tool call 2 is: 2.16524"), "{}", last(4));
    house.end().await;
}

#[tokio::test]
async fn seed_000_5_the_shipped_team_plays_the_published_run() {
    let house = crate::house::House::shipped("grammar").await;
    let reply = house.say(QUESTION).await;
    let tools: Vec<&str> = reply.sources.iter().map(|source| source.tool.as_str()).collect();
    assert_eq!(tools, ["search_internet", "calculate"]);
    assert!(reply.output.contains("Vittoria Ceretti") && reply.output.contains("2.16524"));
    let event = json!({"datetime": "2026-12-01T19:00", "title": "Dinner with Vittoria"});
    for (input, calls, part) in [
        ("Tell me a joke", vec![], "keeps to its rules"),
        (
            "What is (2 * 5) raised to power of 0.8 divided by 2?",
            vec![("calculate", json!({"expression": "(2 * 5) ** 0.8 / 2"}), "ok", "3.15479")],
            "3.15479",
        ),
        (
            "Schedule a dinner with Vittoria on 2026-12-01 at 19:00",
            vec![("create_event", event, "ok", "Event Dinner with Vittoria successfully created!")],
            "in your calendar",
        ),
    ] {
        let reply = house.say(input).await;
        check(&reply, &calls);
        assert!(reply.output.contains(part), "{input}: {}", reply.output);
    }
    house.end().await;
}

#[tokio::test]
async fn seed_000_6_thoughts_are_asked_of_one_server_and_calls_of_the_other() {
    let power = call("calculate", &json!({"expression": "2 ** 3"}));
    let thinker = Server::start(["I calculate.", "It is 8."].map(completion)).await;
    let actor = Server::start([&power, &respond("8")].map(|text| completion(text))).await;
    let math = Server::start([completion("```\nresult = 2 ** 3\n```")]).await;
    let team = on_servers(
        &shipped("grammar"),
        &[("thinker", &thinker.url), ("actor", &actor.url), ("math", &math.url)],
    );
    let house = start(&team).await;
    let reply = house.say("What is 2 to the power 3?").await;
    check(&reply, &[("calculate", json!({"expression": "2 ** 3"}), "ok", "8")]);
    let constrained = |server: &Server| -> Vec<bool> {
        server.seen().iter().map(|request| !means(&request.body).is_empty()).collect()
    };
    assert_eq!(constrained(&thinker), [false, false]);
    assert_eq!(constrained(&actor), [true, true]);
    assert_eq!(constrained(&math), [false]);
    assert!(math.seen()[0].prompt().ends_with("2 ** 3 [/INST]"));
    house.end().await;
}

#[tokio::test]
async fn seed_000_8_respond_to_user_ends_the_run_and_the_step_cap_says_why() {
    let search = call("search_internet", &json!({"query": "x"}));
    let answers = ["I search.", &search, "I search again.", &search, "Again.", &search];
    let server = Server::start(answers.map(completion)).await;
    let house = start(&served(&server, &server)).await;
    let request = json!({"input": "Who?", "budget": {"steps": 2}});
    let reply = house.ask("assistant", request).await;
    assert_eq!((reply.status, reply.sources.len()), (RunStatus::Partial, 2), "{reply:?}");
    let error = reply.error.unwrap();
    assert_eq!(error.code, ErrorCode::StepLimit, "{error}");
    assert!(error.message.contains('2'), "{error}");
    assert_eq!(server.seen().len(), 4);
    house.end().await;

    let server = Server::start(["I answer.", &respond("Done.")].map(completion)).await;
    let house = start(&served(&server, &server)).await;
    let reply = house.say("Who?").await;
    assert_eq!((reply.output.as_str(), server.seen().len()), ("Done.", 2));
    check(&reply, &[]);
    house.end().await;
}

#[tokio::test]
async fn seed_000_9_a_cut_reply_is_told_and_asked_for_again_and_never_run() {
    let half = r#"{"tool": "create_event", "arguments": {"datetime": "tomorrow", "title": "Din"#;
    let whole = call("create_event", &json!({"datetime": "tomorrow", "title": "Dinner"}));
    let cuts: Vec<Value> = cut(half).into_iter().chain(cut(&whole)).collect();
    let answers = cuts.iter().flat_map(|cut_answer| {
        [
            completion("I create it."),
            cut_answer.clone(),
            completion(&whole),
            completion("It is there."),
            completion(&respond("Done.")),
        ]
    });
    let server = Server::start(answers).await;
    let house = start(&served(&server, &server)).await;
    for (index, cut_answer) in cuts.iter().enumerate() {
        let reply = house.say("Dinner tomorrow!").await;
        let expected = "Event Dinner successfully created!";
        let arguments = json!({"datetime": "tomorrow", "title": "Dinner"});
        check(&reply, &[("create_event", arguments, "ok", expected)]);
        let again = server.seen()[5 * index + 2].clone();
        assert!(again.prompt().contains("truncated_reply"), "{cut_answer}: {again:?}");
    }
    house.end().await;

    let mut answers = vec![completion("I create it.")];
    answers.extend(std::iter::repeat_n(cut(half)[0].clone(), 5));
    let server = Server::start(answers).await;
    let house = start(&served(&server, &server)).await;
    let reply = house.ask("assistant", json!({"input": "Dinner tomorrow!"})).await;
    assert_eq!((reply.status, reply.sources.len()), (RunStatus::Failed, 0));
    let error = reply.error.unwrap();
    assert_eq!(error.code, ErrorCode::ReplyUnusable, "{error}");
    assert!(error.message.contains("cut"), "{error}");
    house.end().await;
}
