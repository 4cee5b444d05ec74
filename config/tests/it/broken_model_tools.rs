//! Broken tools of the kind `model`, each with what is said about it, where, and what to do.

use std::path::Path;

use super::broken::{FINE, check, files};

#[test]
fn one_fault_in_a_tool_that_asks_a_model() {
    for (added, line, message, help) in [
        (
            "[tools.t]\nkind = 'model'\nmodel = 'm'\nprompt = 'p'",
            7,
            "`tools.t` lacks `description`",
            "for models",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nprompt = 'p'",
            7,
            "`tools.t` lacks `model`",
            "the model of the team that is asked",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'",
            7,
            "`tools.t` lacks `prompt`",
            "`{parameter}` for arguments",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = ' '",
            11,
            "`prompt` is empty",
            "write what the model is asked",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'n'\nprompt = 'p'",
            10,
            "there is no model `n`",
            "known models: m",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p {x}'",
            7,
            "tool `t`: {x} stands for a parameter that is not declared",
            "change the texts",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\nparameters = { x = 'string' }",
            7,
            "tool `t`: parameter \"x\" appears nowhere in the prompt",
            "`parameters`",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = '{x}'\ninstructions = '{x}'\nparameters = { x = 'string' }",
            7,
            "tool `t`: {x} stands in the instructions",
            "change the texts",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'jsn'",
            12,
            "\"text\" or \"json\" or \"calculate\", this is \"jsn\"",
            "did you mean \"json\"?",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'jsn'\nschema = {}",
            12,
            "this is \"jsn\"",
            "did you mean \"json\"?",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'json'",
            12,
            "tool `t` promises JSON but not which",
            "add `schema`",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'calculate'\nschema = { x = 'string' }",
            13,
            "`schema` goes with `output = \"json\"` only",
            "remove `schema`",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'json'\nschema = { x = 'text' }",
            13,
            "`x` of `schema` has no type: \"text\"",
            "one of string, integer",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\noutput = 'json'\nschema = { type = 'object', required = 1 }",
            13,
            "`schema` of `t` is no JSON Schema: /required: ",
            "short form",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\nreply_tokens_max = 0",
            12,
            "`tools.t.reply_tokens_max` must be from 1 to 1000000, this is 0",
            "a reply that is cut there is an error",
        ),
        (
            "[tools.t]\nkind = 'model'\ndescription = 'd'\nmodel = 'm'\nprompt = 'p'\nurl = 'http://h'",
            12,
            "`url` goes with `kind = \"http\"` only",
            "remove `url`",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nprompt = 'p'",
            11,
            "`prompt` goes with `kind = \"model\"` only",
            "remove `prompt`",
        ),
        (
            "[tools.now]\nkind = 'builtin'\neffect = 'read'",
            9,
            "`effect` goes with `kind = \"cloudevent\" | \"command\" | \"http\" | \"mcp\" | \"model\" | \"nats\" | \"query\"` only",
            "remove `effect`",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}

#[test]
fn what_no_grammar_can_hold_is_told_before_any_run() {
    let model = "[models.g]\nprovider = 'llamacpp'\ndialect = 'schema'\nconstrain = 'grammar'\n";
    let tool = "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nmethod = 'POST'\nbody = 'arguments'\n\
        parameters = { type = 'object', properties = { list = { type = 'array', uniqueItems = true } } }\n";
    let agent =
        "[agents.b]\ninstructions = 'Help.'\nmodel = 'g'\ntools = ['t']\n[team]\nentry = 'a'\n";
    let added = format!("{model}{tool}{agent}");
    let message = "agent `b`, parameters of `t`: make a grammar of the schema at /properties/list";
    check(&format!("{FINE}{added}"), 18, message, "json_schema");
    let native = added.replace("'schema'", "'native'");
    parse(&native).unwrap_or_else(|report| panic!("{report}"));

    let tool = "[tools.t]\nkind = 'model'\nmodel = 'g'\ndescription = 'd'\nprompt = 'p'\noutput = 'json'\n\
        schema = { type = 'object', minProperties = 2 }\n";
    let message = "tool `t`, its output: make a grammar of the schema: minProperties above 1";
    check(&format!("{FINE}{model}{tool}"), 17, message, "json_schema");
    parse(&format!("{}{tool}", model.replace("'grammar'", "'json_schema'")))
        .unwrap_or_else(|report| panic!("{report}"));
}

fn parse(added: &str) -> Result<config::Team, config::Report> {
    config::parse(Path::new("teams/t.toml"), &format!("{FINE}{added}"), &files)
}
