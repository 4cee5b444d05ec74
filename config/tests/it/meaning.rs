//! What a team file means: defaults, order, paths, secrets, limits.

use std::path::{Path, PathBuf};

use config::Team;
use config::team::{
    Constrain, OpenAi, Provider, Retention, Sampling, Server, Template, TokensField,
};
use serde_json::json;
use tools::http::{BodyTemplate, FieldSource, HttpSpec, QueryField, QueryStyle};
use tools::model::{ModelOutput, ModelSpec};
use tools::{SecretRef, ToolKind};
use wire::plan::{Dialect, Form, Limits, Target, Text, WhenBusy};
use wire::{EffectClass, Name};

fn team(text: &str) -> Team {
    let files = |path: &Path| Ok(format!("The text of {}.", path.display()));
    config::parse(Path::new("folder/crew.toml"), text, &files)
        .unwrap_or_else(|report| panic!("{}", report.render(false)))
}

const CREW: &str = r#"
[limits]
steps_max = 7
queue_max = 0

[models.big]
provider = "openai"
base_url = "https://host/v1/"
model = "big-1"
api_key_file = "keys/big"
strict = true
tokens_field = "max_completion_tokens"
temperature = 1
timeout_ms = 300_000
requests_per_minute = 60
tokens_per_minute = 90_000
server_concurrency = 5
extra_body = { seed = 7, nested = { b = 1, a = [true, 0.5] } }

[models.small]
provider = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "small-1"
dialect = "schema"
concurrency = 2
reasoning = false
stream_usage = false

[team]
entry = "lead"

[agents.lead]
description = "Leads."
instructions_file = "lead.md"
thinker = "big"
actor = "small"
tools = ["weather", "now", "note"]
agents = ["writer"]

[agents.lead.limits]
steps_max = 3

[agents.writer]
description = "Writes."
instructions = "Write."
model = "small"
agents = ["lead"]
recursion = true
continue_word = "CONTINUE"
when_busy = "interrupt"
coerce = false
limits = { deadline_ms = 5000, model_timeout_ms = 1000 }

[tools.weather]
kind = "http"
description = "Tells the weather."
url = "https://host/{city}"
query = { units = "{units}", lang = "en" }
headers = { Authorization = { env = "KEY", prefix = "Bearer " }, Accept = "text/plain", X = { file = "x" } }
timeout_ms = 1500
parameters = { units = "string?", city = "string: the city" }

[tools.note]
kind = "http"
description = "Keeps a note."
method = "POST"
url = "https://host/notes"
body = { json = { text = "{text}" } }
response_bytes_max = 10

[tools.note.parameters]
type = "object"
required = ["text"]
properties.text = { type = "string" }
"#;

const MODEL_TOOLS: &str = r#"
[models.big]
provider = "openai"
base_url = "https://host/v1"
model = "big-1"
timeout_ms = 300_000

[models.small]
provider = "openai"
base_url = "https://host/v1"
model = "small-1"

[agents.lead]
instructions = "Lead."
model = "big"
tools = ["translate", "film", "sum"]

[tools.translate]
kind = "model"
description = "Translates."
model = "small"
instructions = "You translate."
prompt = "Translate into Simplified Chinese: {string}"
parameters = { string = "string: the text" }

[tools.film]
kind = "model"
description = "Names a film."
model = "big"
prompt = "Which film is it? {hints}"
parameters = { hints = "string[]" }
output = "json"
schema = { title = "string", year = "integer?" }
reply_tokens_max = 64

[tools.sum]
kind = "model"
description = "Computes."
model = "small"
prompt = "Write as an expression: {task}"
instructions = ""
parameters = { task = "string" }
output = "calculate"
effect = "once"
timeout_ms = 9000
"#;

#[test]
fn models() {
    let team = team(CREW);
    let (big, small) = (&team.models["big"], &team.models["small"]);
    assert_eq!((big.dialect, small.dialect), (Dialect::Native, Dialect::Schema));
    assert_eq!((big.concurrency, small.concurrency), (8, 2));
    assert_eq!((big.queue_max, big.retries_max), (256, 4));
    assert_eq!((big.timeout_ms, big.idle_timeout_ms), (300_000, 30_000));
    assert_eq!((big.reasoning, small.reasoning), (true, false));
    assert_eq!((big.requests_per_minute, big.tokens_per_minute), (Some(60), Some(90_000)));
    assert_eq!((small.requests_per_minute, small.tokens_per_minute), (None, None));
    let Provider::OpenAi(options) = &big.provider else { panic!("{big:?}") };
    let OpenAi { server, strict, merge_adjacent, tokens_field, stream_usage } = options;
    let Server { base_url, api_key, stream, temperature, extra_body, .. } = server;
    assert_eq!(base_url, "https://host/v1");
    assert_eq!((server.concurrency, team.weight), (Some(5), 1));
    assert_eq!(*api_key, Some(SecretRef::File(PathBuf::from("folder/keys/big"))));
    assert_eq!((*stream, *strict, *temperature), (true, true, Some(1.0)));
    assert_eq!((*merge_adjacent, *tokens_field), (false, TokensField::MaxCompletionTokens));
    assert!(*stream_usage);
    let Provider::OpenAi(small) = &small.provider else { panic!("{small:?}") };
    assert_eq!((small.tokens_field, small.stream_usage), (TokensField::MaxTokens, false));
    let written = serde_json::to_string(extra_body).unwrap();
    assert_eq!(written, r#"{"seed":7,"nested":{"b":1,"a":[true,0.5]}}"#);
}

#[test]
fn models_of_other_providers() {
    let team = team(
        "[models.seed]\nprovider='llamacpp'\ntemplate='llama-2'\ntemperature=-1\ntop_k=40\ntop_p=0.9\nrepeat_penalty=1.1\nrepeat_last_n=64\nn_predict=512\nstop=['</s>']\nrecord='out/seed.jsonl'\n[models.chat]\nprovider='llamacpp'\nconstrain='grammar'\n[models.ollama]\nprovider='ollama'\nmodel='mixtral'\nnum_ctx=8192\nthink='low'\nkeep_alive='5m'\n[models.claude]\nprovider='anthropic'\nmodel='c'\nbase_url='http://h/'\n[agents.a]\nmodel='seed'\ninstructions='Help.'\n",
    );
    let Provider::LlamaCpp(seed) = &team.models["seed"].provider else { panic!() };
    assert_eq!(team.models["seed"].dialect, Dialect::Schema);
    assert!(!team.models["seed"].reasoning && team.models["claude"].reasoning);
    assert_eq!(team.models["seed"].record, Some(PathBuf::from("folder/out/seed.jsonl")));
    assert_eq!((seed.template, seed.constrain), (Template::Llama2, Constrain::JsonSchema));
    assert_eq!(
        (seed.server.base_url.as_str(), seed.n_predict),
        ("http://127.0.0.1:8080", Some(512))
    );
    assert_eq!((seed.server.model.as_str(), seed.server.temperature), ("seed", Some(-1.0)));
    assert_eq!(seed.server.stop, ["</s>"]);
    let sampling = Sampling {
        top_k: Some(40),
        top_p: Some(0.9),
        repeat_penalty: Some(1.1),
        repeat_last_n: Some(64),
        seed: None,
    };
    assert_eq!(seed.sampling, sampling);
    let Provider::LlamaCpp(chat) = &team.models["chat"].provider else { panic!() };
    assert_eq!((chat.template, chat.constrain), (Template::Server, Constrain::Grammar));
    assert_eq!(team.models["chat"].dialect, Dialect::Native);
    let Provider::Ollama(ollama) = &team.models["ollama"].provider else { panic!() };
    assert_eq!((ollama.num_ctx, ollama.think.clone()), (Some(8192), Some("low".into())));
    assert_eq!(ollama.keep_alive.as_deref(), Some("5m"));
    assert_eq!(ollama.server.base_url, "http://127.0.0.1:11434");
    let Provider::Anthropic(claude) = &team.models["claude"].provider else { panic!() };
    assert_eq!((claude.base_url.as_str(), claude.model.as_str()), ("http://h", "c"));
}

#[test]
fn agents() {
    let team = team(CREW);
    assert_eq!((team.name.as_str(), team.entry.as_str()), ("crew", "lead"));
    let (lead, writer) = (&team.agents["lead"], &team.agents["writer"]);
    assert_eq!(lead.instructions, "The text of folder/lead.md.");
    assert_eq!(lead.thinker.as_ref().map(Name::as_str), Some("big"));
    assert_eq!((lead.actor.as_str(), lead.dialect), ("small", Dialect::Schema));
    assert_eq!((&writer.thinker, writer.actor.as_str()), (&None, "small"));
    assert_eq!((&lead.continue_word, writer.continue_word.as_deref()), (&None, Some("CONTINUE")));
    assert_eq!((lead.coerce, writer.coerce), (true, false));
    assert_eq!((lead.when_busy, writer.when_busy), (WhenBusy::Queue, WhenBusy::Interrupt));
    let offered: Vec<_> = lead
        .tools
        .iter()
        .map(|offer| (offer.spec.name.as_str(), offer.target, offer.effect, offer.timeout_ms))
        .collect();
    assert_eq!(
        offered,
        [
            ("weather", Target::Tool, EffectClass::Read, 1500),
            ("now", Target::Tool, EffectClass::Read, team.tools["now"].offer.timeout_ms),
            ("note", Target::Tool, EffectClass::Once, 30_000),
            ("writer", Target::Agent, EffectClass::Idempotent, 5000),
        ]
    );
    let task = &lead.tools[3].spec;
    assert_eq!(task.description, "Writes.");
    assert!(jsonschema::is_valid(&task.parameters, &json!({"task": "a poem"})));
    for wrong in [json!({}), json!({"task": 1}), json!({"task": "a", "more": "b"})] {
        assert!(!jsonschema::is_valid(&task.parameters, &wrong), "{wrong}");
    }
}

#[test]
fn agents_are_called_with_parameters_of_their_own() {
    let agent = |name: &str, more: &str| {
        format!("[agents.{name}]\ndescription='d'\ninstructions='Help.'\nmodel='m'\n{more}\n")
    };
    let schema = "parameters={type='object', properties={string={title='String', type='string'}}, \
                  required=['string']}\ntask='Translate: {string}'";
    let text = [
        "[team]\nentry='lead'\n[models.m]\nprovider='openai'\nbase_url='http://h/v1'\nmodel='x'\n",
        &agent("lead", "agents=['plain','joke','short','seed','none']"),
        &agent("plain", ""),
        &agent("joke", "parameters={}\ntask='Tell a joke.'"),
        &agent("short", "parameters={to='string', loud='boolean?'}\ntask='To {to} ({loud})'"),
        &agent("seed", schema),
        &agent("none", "parameters={type='object', properties={}}\ntask='Tell another.'"),
    ]
    .concat();
    let team = team(&text);
    let offered: Vec<_> = team.agents["lead"]
        .tools
        .iter()
        .map(|offer| (offer.spec.parameters.to_string(), offer.task.as_deref()))
        .collect();
    let task = &team.agents["lead"].tools[0].spec.parameters["properties"]["task"];
    assert_eq!((task["type"].as_str(), offered[0].1), (Some("string"), None));
    let expected = [
        (r#"{"type":"object","properties":{},"additionalProperties":false}"#, Some("Tell a joke.")),
        (
            r#"{"type":"object","properties":{"to":{"type":"string"},"loud":{"type":"boolean"}},"required":["to"],"additionalProperties":false}"#,
            Some("To {to} ({loud})"),
        ),
        (
            r#"{"type":"object","properties":{"string":{"title":"String","type":"string"}},"required":["string"]}"#,
            Some("Translate: {string}"),
        ),
        (r#"{"type":"object","properties":{}}"#, Some("Tell another.")),
    ];
    let found: Vec<_> = offered[1..].iter().map(|(text, task)| (text.as_str(), *task)).collect();
    assert_eq!(found, expected);
}

#[test]
fn limits_are_the_agents_own_or_the_teams_or_the_default() {
    let team = team(CREW);
    let defaults = Limits {
        steps_max: 7,
        calls_per_step_max: 16,
        depth_max: 8,
        tokens_max: 200_000,
        reply_tokens_max: 4096,
        feedback_max: 3,
        resumes_max: 10,
        deadline_ms: 600_000,
        model_timeout_ms: 300_000,
        queue_max: 0,
        history_messages_max: 40,
        history_tokens_max: Some(1_000_000_000),
        approval_timeout_ms: 300_000,
        calls_max: 200,
        repeats_max: 5,
        cost_max_nano_usd: None,
    };
    let lead = Limits { steps_max: 3, ..defaults.clone() };
    assert_eq!(team.agents["lead"].limits, lead);
    let writer = Limits { deadline_ms: 5000, model_timeout_ms: 1000, ..defaults };
    assert_eq!(team.agents["writer"].limits, writer);
}

#[test]
fn http_tools() {
    let team = team(CREW);
    let ToolKind::Http(weather) = &team.tools["weather"].kind else { panic!() };
    let text = |text: &str| text.to_owned();
    let secret = |prefix, secret| FieldSource::Secret { prefix: text(prefix), secret };
    let query = |name, value| QueryField {
        name: text(name),
        source: FieldSource::Template(text(value)),
        style: QueryStyle::Repeated,
    };
    let expected = HttpSpec {
        query: vec![query("lang", "en"), query("units", "{units}")],
        headers: vec![
            (text("Accept"), FieldSource::Template(text("text/plain"))),
            (text("Authorization"), secret("Bearer ", SecretRef::Env(text("KEY")))),
            (text("X"), secret("", SecretRef::File(PathBuf::from("folder/x")))),
        ],
        ..HttpSpec::new("GET", "https://host/{city}", 65_536)
    };
    assert_eq!(*weather, expected);
    // Models write arguments in this order, so it is the one of the file.
    let parameters = &team.tools["weather"].offer.spec.parameters["properties"];
    assert_eq!(
        parameters.to_string(),
        r#"{"units":{"type":"string"},"city":{"type":"string","description":"the city"}}"#
    );
    let ToolKind::Http(note) = &team.tools["note"].kind else { panic!() };
    assert_eq!(note.body, Some(BodyTemplate::Json(json!({"text": "{text}"}))));
    assert_eq!((note.method.as_str(), note.response_bytes_max), ("POST", 10));
    let ToolKind::Builtin(now) = &team.tools["now"].kind else { panic!() };
    assert_eq!(*now, tools::builtin::Builtin::Now);
}

#[test]
fn tools_that_are_questions_to_a_model() {
    let team = team(MODEL_TOOLS);
    let text = |text: &str| text.to_owned();
    let translate = ModelSpec {
        model: Name::new("small").unwrap(),
        instructions: Some(text("You translate.")),
        prompt: text("Translate into Simplified Chinese: {string}"),
        output: ModelOutput::Text,
        reply_tokens_max: 1024,
    };
    let short = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": false,
    });
    let film = ModelSpec {
        model: Name::new("big").unwrap(),
        instructions: None,
        prompt: text("Which film is it? {hints}"),
        output: ModelOutput::Json { schema: short },
        reply_tokens_max: 64,
    };
    let sum = ModelSpec {
        prompt: text("Write as an expression: {task}"),
        instructions: None,
        output: ModelOutput::Calculate,
        ..translate.clone()
    };
    for (name, spec, effect, timeout_ms) in [
        ("translate", translate, EffectClass::Read, 120_000),
        ("film", film, EffectClass::Read, 300_000),
        ("sum", sum, EffectClass::Once, 9_000),
    ] {
        let tool = &team.tools[name];
        assert_eq!(tool.kind, ToolKind::Model(spec), "{name}");
        assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (effect, timeout_ms), "{name}");
        assert_eq!((tool.offer.target, tool.concurrency), (Target::Tool, 16), "{name}");
    }
    let offered: Vec<_> = team.agents["lead"].tools.iter().map(|offer| &offer.spec).collect();
    assert_eq!(offered[0].description, "Translates.");
    let parameters = &offered[0].parameters;
    assert_eq!(parameters["properties"]["string"]["description"], "the text");
}

#[test]
fn a_team_in_a_few_lines() {
    let team = team(
        "[models.m]\nprovider='openai'\nbase_url='http://h/v1'\nmodel='x'\n[agents.a]\nmodel='m'\ninstructions='Help.'\n",
    );
    assert_eq!((team.entry.as_str(), team.tools.len()), ("a", 0));
    assert_eq!((team.description.as_str(), team.otlp_endpoint), ("", None));
    let month = Retention {
        runs_ms: Some(2_592_000_000),
        traces_ms: Some(2_592_000_000),
        trace_bytes_max: Some(512 << 20),
        ..Retention::default()
    };
    assert_eq!(team.retention, month);
    assert_eq!(team.file, Path::new("folder/crew.toml"));
}

#[test]
fn an_agent_s_own_text_wins_over_the_team_s() {
    let texts = r#"
[prompts.thinker]
ask = "Think."
[prompts.actor]
system = "Team."
request = "{{ request }}!"
[agents.lead.prompts.actor]
system = { file = "lead.jinja" }
[agents.lead.prompts.thinker]
opening = ""
"#;
    let team = team(&format!("{CREW}{texts}"));
    let of = |agent: &str| {
        let prompts = &team.agents[agent].prompts;
        let texts = |texts: &std::collections::BTreeMap<Text, String>| {
            texts.iter().map(|(text, source)| format!("{}={source}", text.as_str())).collect()
        };
        let texts: [Vec<String>; 2] = [texts(&prompts.thinker), texts(&prompts.actor)];
        texts
    };
    let file = "system=The text of folder/lead.jinja.";
    assert_eq!(of("lead"), [vec!["opening=", "ask=Think."], vec![file, "request={{ request }}!"]]);
    assert_eq!(of("writer"), [vec!["ask=Think."], vec!["system=Team.", "request={{ request }}!"]]);
    assert_eq!(team.agents["lead"].form, Form::default());
}
