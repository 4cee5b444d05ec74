use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wire::chat::TurnDetail;
use wire::hop::HopReport;
use wire::{
    CallKey, CallOutcome, ErrorCode, FinishReason, Message, ModelReply, Name, ToolReply, Usage,
    WireError,
};

use super::{ModelOutput, ModelSpec, ModelTool, PreparedModels};
use crate::testing;
use crate::tool::{Tool, ToolContext};

fn spec(output: ModelOutput) -> ModelSpec {
    ModelSpec {
        model: Name::new("small").unwrap(),
        instructions: Some("You translate {carefully}.".to_owned()),
        prompt: "Translate into {language}: {string}".to_owned(),
        output,
        reply_tokens_max: 1024,
    }
}

fn reply(content: &str, finish: FinishReason) -> ModelReply {
    ModelReply {
        content: content.into(),
        calls: Vec::new(),
        reasoning: None,
        finish,
        usage: Usage::default(),
        provider: "prepared".to_owned(),
        model: "small".to_owned(),
        attempts: 1,
        served_by: None,
        detail: TurnDetail::default(),
    }
}

fn context() -> ToolContext {
    let (call, tool) = (CallKey::new("k").unwrap(), Name::new("translate").unwrap());
    let agent = Name::new("lead").unwrap();
    ToolContext { call, tool, agent, ..testing::context(Duration::from_secs(5)) }
}

async fn reply_to(tool: &ModelTool, arguments: Value) -> ToolReply {
    tool.call(&context(), &arguments).await
}

async fn outcome(tool: &ModelTool, arguments: Value) -> CallOutcome {
    match reply_to(tool, arguments).await {
        ToolReply::Settled { outcome, .. } => outcome,
        other @ (ToolReply::Lost { .. } | ToolReply::Asks { .. } | ToolReply::Suspended { .. }) => {
            panic!("{other:?}")
        }
    }
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "note": {"type": "string"},
            "told": {"type": ["string", "null"]},
            "home": {"anyOf": [
                {"type": "object", "properties": {"a/b": {"type": "string"}}, "required": []},
                {"type": "integer"},
            ]},
        },
        "required": ["name", "age"],
    })
}

#[tokio::test]
async fn the_question_is_made_of_the_arguments() {
    for (output, arguments, prompt) in [
        (
            ModelOutput::Text,
            json!({"string": "a {b} \"c\"", "language": "French"}),
            "Translate into French: a {b} \"c\"",
        ),
        (ModelOutput::Calculate, json!({"string": [1, "x"]}), "Translate into : [1,\"x\"]"),
        (
            ModelOutput::Json { schema: person() },
            json!({"string": {"a": null}, "language": null}),
            "Translate into : {\"a\":null}",
        ),
    ] {
        let models = Arc::new(PreparedModels::default());
        let tool = ModelTool::new(spec(output.clone()), models.clone());
        drop(outcome(&tool, arguments).await);
        let asked = models.asked();
        let [question] = asked.as_slice() else { panic!("{asked:?}") };
        let system = "You translate {carefully}.".to_owned();
        assert_eq!(
            question.messages,
            [Message::System { content: system }, Message::User { content: prompt.to_owned() }]
        );
        assert_eq!((question.model.as_str(), question.max_tokens), ("small", 1024));
        assert!(question.remaining < context().remaining, "{question:?}");
        let schema = question.response_schema.as_ref().map(|it| (it.name.as_str(), &it.schema));
        match &output {
            ModelOutput::Json { schema: given } => assert_eq!(schema, Some(("translate", given))),
            ModelOutput::Text | ModelOutput::Calculate => assert_eq!(schema, None),
        }
    }
}

#[tokio::test]
async fn replies_become_results() {
    let text = || ModelOutput::Text;
    let calculate = || ModelOutput::Calculate;
    let person = || ModelOutput::Json { schema: person() };
    let ada = json!({"name": "Ada", "age": 36});
    for (output, content, expected) in [
        (text(), " 你好 \n", json!("你好")),
        (text(), "```\ncode\n```", json!("```\ncode\n```")),
        (text(), "<think>Hm.\n2?</think>\n\n4", json!("4")),
        (text(), "a <think>b</think>", json!("a <think>b</think>")),
        (text(), "Okay, 2 and 2.\n</think>\n\n4", json!("4")),
        (text(), "Okay.</think>Hm.</think>4", json!("4")),
        (text(), "Okay, `x`</think>`4`", json!("`4`")),
        (text(), "Write `</think>` after it.", json!("Write `</think>` after it.")),
        (text(), "Write `</think>`!</think>``</think>``", json!("``</think>``")),
        (text(), "```\n<think>\nHm.\n</think>\n```", json!("```\n<think>\nHm.\n</think>\n```")),
        (person(), r#"{"name": "</think>", "age": 36}"#, json!({"name": "</think>", "age": 36})),
        (person(), "She is 36.\n</think>\n{\"name\":\"Ada\",\"age\":36}", ada.clone()),
        (calculate(), "```\n1\n```\n</think>2", json!(2)),
        (
            person(),
            "```json\n{\"name\":\"</think>\",\"age\":36}\n```",
            json!({"name": "</think>", "age": 36}),
        ),
        (
            text(),
            "It ends so:\n```html\n</think>\n```",
            json!("It ends so:\n```html\n</think>\n```"),
        ),
        (person(), r#"{"name": "Ada", "age": 36}"#, ada.clone()),
        (person(), "Here it is:\n```json\n{\"name\":\"Ada\",\"age\":36}\n```\nDone.", ada.clone()),
        (person(), "```{\"name\":\"Ada\",\"age\":36}```", ada.clone()),
        (
            person(),
            r#"{"name": "Ada", "age": 36000000000000000000}"#,
            json!({"name": "Ada", "age": "36000000000000000000"}),
        ),
        // A null says that a property is absent, where the schema knows none.
        (person(), r#"{"name": "Ada", "age": 36, "note": null}"#, ada),
        (
            person(),
            r#"{"name": "Ada", "age": 1, "told": null, "home": {"a/b": null}}"#,
            json!({"name": "Ada", "age": 1, "told": null, "home": {}}),
        ),
        (
            person(),
            r#"{"name": "```json\n{}\n```", "age": 1}"#,
            json!({"name": "```json\n{}\n```", "age": 1}),
        ),
        (calculate(), "2 + 3", json!(5)),
        (calculate(), "result = 2 ** 10", json!(1024)),
        (calculate(), "Of course!\n```python\nresult = 25 ** 0\n```\n```\n7\n```", json!(1)),
        (calculate(), "```\nround(25^0.24, 5)\n```", json!(2.16524)),
        (calculate(), "```12 * 34```", json!(408)),
        (calculate(), "```\npi * 0\n", json!(0)),
        (calculate(), "```pi\n```", json!(std::f64::consts::PI)),
        (calculate(), "<think>```\n1\n```</think>result=2", json!(2)),
    ] {
        let models = Arc::new(PreparedModels::default());
        models.prepare(Ok(reply(content, FinishReason::Stop)));
        let tool = ModelTool::new(spec(output), models);
        let outcome = outcome(&tool, json!({"string": "x"})).await;
        assert_eq!(outcome, CallOutcome::Ok { output: expected }, "{content}");
    }
}

#[tokio::test]
async fn replies_that_are_not_what_was_promised_are_errors() {
    use FinishReason::{ContentFilter, Length, Stop};
    let text = || ModelOutput::Text;
    let calculate = || ModelOutput::Calculate;
    let person = || ModelOutput::Json { schema: person() };
    for (output, content, finish, part) in [
        (text(), "4", Length, "was cut after 1024 tokens"),
        (calculate(), "2 + 3", Length, "was cut after 1024 tokens"),
        (person(), r#"{"name": "Ada", "age": 36}"#, Length, "was cut after 1024 tokens"),
        (text(), "4", ContentFilter, "was withheld"),
        (text(), " \n", Stop, "is empty"),
        (text(), "<think>I do not know", Stop, "is empty"),
        (text(), "<think>I do not know</think> ", Stop, "is empty"),
        (text(), "I do not know</think>", Stop, "is empty"),
        (person(), "Ada is 36.", Stop, "is not JSON: expected value at line 1 column 1: \"Ada"),
        (person(), "```json\n{\"name\":\n```", Stop, "is not JSON"),
        (person(), r#"{"name": 5, "age": "x"}"#, Stop, "/age: "),
        (person(), r#"{"name": 5, "age": "x"}"#, Stop, "/name: "),
        (person(), r#"{"name": "Ada", "age": null}"#, Stop, "/age: null is not of type"),
        (person(), "[]", Stop, "does not obey the schema"),
        (calculate(), "import os", Stop, "no expression that can be computed: "),
        (
            calculate(),
            "```python\nimport math\nresult = 2\n```",
            Stop,
            "character 20: unexpected '='",
        ),
        (calculate(), "result = 1 / 0", Stop, "zero"),
        (calculate(), "result == 1", Stop, "no expression"),
        (calculate(), "The result is 4.", Stop, "\"The result is 4.\""),
    ] {
        let models = Arc::new(PreparedModels::default());
        models.prepare(Ok(reply(content, finish)));
        let tool = ModelTool::new(spec(output), models);
        let outcome = outcome(&tool, json!({"string": "x"})).await;
        let CallOutcome::Error { error } = outcome else { panic!("{content}: {outcome:?}") };
        assert_eq!(error.code, ErrorCode::ReplyUnusable, "{content}");
        assert!(error.message.starts_with("the reply of model small "), "{error}");
        assert!(error.message.contains(part), "{content}: {error}");
    }
}

#[tokio::test]
async fn an_error_stays_short() {
    let models = Arc::new(PreparedModels::default());
    models.prepare(Ok(reply(&"[".repeat(100_000), FinishReason::Stop)));
    let long = json!({"name": "x".repeat(100_000)}).to_string();
    models.prepare(Ok(reply(&format!("[{long}]"), FinishReason::Stop)));
    let tool = ModelTool::new(spec(ModelOutput::Json { schema: person() }), models);
    for _reply in 0..2 {
        let outcome = outcome(&tool, json!({})).await;
        assert!(matches!(outcome, CallOutcome::Error { .. }), "{outcome:?}");
        assert!(outcome.to_text().len() < 2000, "{outcome:?}");
    }
}

#[tokio::test]
async fn what_sets_the_price_is_told_though_the_reply_is_unusable() {
    for (content, served_by, read, written) in [
        ("4", Some("spare"), Some(5), None),
        (" ", Some("spare"), None, Some(3)),
        ("4", None, None, None),
    ] {
        let served_by = served_by.map(|text| Name::new(text).unwrap());
        let (cache_read_tokens, cache_creation_tokens) = (read, written);
        let detail =
            TurnDetail { cache_read_tokens, cache_creation_tokens, ..TurnDetail::default() };
        let models = Arc::new(PreparedModels::default());
        let prepared = reply(content, FinishReason::Stop);
        models.prepare(Ok(ModelReply { served_by: served_by.clone(), detail, ..prepared }));
        let tool = ModelTool::new(spec(ModelOutput::Text), models);
        let context = context();
        drop(tool.call(&context, &json!({})).await);
        let report = HopReport {
            served_by,
            cache_read_tokens,
            cache_creation_tokens,
            ..HopReport::default()
        };
        assert_eq!(context.hop.report(), report, "{content}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_an_error_or_lost() {
    let refused = WireError::new(ErrorCode::Overloaded, "model small: full").retry_after(7);
    let late = WireError::new(ErrorCode::DeadlineExceeded, "model small: no reply in 9 ms");
    let silent =
        WireError::new(ErrorCode::ToolTimeout, "model small did not answer within 4900 ms");
    // The longest reply, and half as many tokens as its texts have bytes where no argument is given.
    let usage = Usage::of_tokens(22, 1024);
    for (answer, expected) in [
        (Some(&refused), ToolReply::settled(CallOutcome::Error { error: refused.clone() })),
        (Some(&late), ToolReply::Lost { error: late.clone(), usage, tainted: false, hop: None }),
        (None, ToolReply::Lost { error: silent, usage, tainted: false, hop: None }),
    ] {
        let models = Arc::new(PreparedModels::default());
        match answer {
            Some(error) => models.prepare(Err(error.clone())),
            None => models.prepare_silence(),
        }
        let tool = ModelTool::new(spec(ModelOutput::Text), models);
        assert_eq!(reply_to(&tool, json!({})).await, expected);
    }
}

#[tokio::test]
async fn a_schema_that_does_not_compile_is_told_and_nobody_is_asked() {
    let models = Arc::new(PreparedModels::default());
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}});
    let tool = ModelTool::new(spec(ModelOutput::Json { schema }), models.clone());
    let outcome = outcome(&tool, json!({})).await;
    let CallOutcome::Error { error } = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code, ErrorCode::ToolUnavailable, "{error}");
    assert_eq!(models.asked(), []);
}

#[test]
fn texts_are_checked_against_the_parameters() {
    let both = json!({"properties": {"string": {}, "language": {}}});
    for (instructions, parameters, faults) in [
        (None, both.clone(), &[][..]),
        (Some("Be {kind}."), both.clone(), &[]),
        (Some("Speak {language}."), both, &["{language} stands in the instructions"]),
        (None, json!({"properties": {"string": {}}}), &["{language} stands for a parameter"]),
        (None, json!({}), &["{language} stands for", "{string} stands for"]),
        (
            None,
            json!({"properties": {"string": {}, "language": {}, "tone": {}}}),
            &["parameter \"tone\" appears nowhere in the prompt"],
        ),
    ] {
        let instructions = instructions.map(str::to_owned);
        let found = ModelSpec { instructions, ..spec(ModelOutput::Text) }.check(&parameters);
        assert_eq!(found.len(), faults.len(), "{found:?}");
        for (found, part) in found.iter().zip(faults) {
            assert!(found.contains(part), "{found}");
        }
    }
}
