//! What a team file may put into a request.

use std::io;
use std::path::Path;

use config::{Report, Team};
use serde_json::json;

use super::*;
use crate::fixture::{conversation, head, sent, system, user};

/// Every field by which each provider is told something; what stands in the request for it.
const MODELS: [&str; 6] = [
    "provider = 'openai'\nbase_url = 'http://h'\nmodel = 'x'",
    "provider = 'openai'\nbase_url = 'http://h'\nmodel = 'x'\ntokens_field = 'max_completion_tokens'",
    "provider = 'llamacpp'\ntop_k = 1\ntop_p = 0.5\nrepeat_penalty = 1\nrepeat_last_n = 1\nseed = 1",
    "provider = 'llamacpp'\ntemplate = 'chatml'\nconstrain = 'grammar'\nn_predict = 1",
    "provider = 'ollama'\nmodel = 'x'\nnum_ctx = 1\nkeep_alive = '5m'\nthink = true",
    "provider = 'anthropic'\nmodel = 'x'",
];

fn team(model: &str, extra: &str) -> Result<Team, Report> {
    let text = format!(
        "[models.m]\n{model}\ntemperature = 0.5\nstop = ['END']\n{extra}\n[agents.a]\ninstructions = 'Answer.'\nmodel = 'm'\n"
    );
    let files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    config::parse(Path::new("t.toml"), &text, &files)
}

#[test]
fn a_team_file_replaces_nothing_that_the_runtime_writes() {
    let tool = json!({"type": "object", "properties": {}});
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    for model in MODELS {
        let team = team(model, "").unwrap();
        let asked = Asked::of(&team.models["m"].provider);
        let Asked::Server(_, protocol) = asked else { panic!("{model}") };
        // A prompt that we write has no place for tools.
        let heads = [(None, Some(schema.clone())), (Some(tool.clone()), None)];
        let mut bodies = 0;
        for (tool, schema) in heads {
            let messages = vec![system("S"), user("U")];
            let asked = conversation(head(tool, schema, &["Observation"]), messages, Some(9));
            let Ok((body, _)) = sent(&*protocol, &asked) else { continue };
            bodies += 1;
            // How tools are chosen is the team's to say.
            for field in body.as_object().unwrap().keys().filter(|key| *key != "tool_choice") {
                let report = self::team(model, &format!("extra_body = {{ {field} = 1 }}"));
                let report = report.expect_err(field);
                let [fault] = report.faults() else { panic!("{model}\n{report}") };
                let message = format!("`{field}` of the request is written by the runtime");
                assert_eq!(fault.message, message, "{model}");
            }
        }
        assert!(bodies > 0, "{model}");
        assert!(self::team(model, "extra_body = { tool_choice = 'auto' }").is_ok(), "{model}");
    }
}
