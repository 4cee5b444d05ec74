//! Broken tools of the kind `nats`, each with what is said about it, where, and what to do.

use std::path::Path;

use tools::ToolKind;
use tools::http::{BodyTemplate, HeaderSource};
use tools::nats::NatsSpec;
use wire::EffectClass;

use super::broken::{FINE, check, files};

#[test]
fn one_fault_in_a_tool_behind_a_subject() {
    let head = "[tools.t]\nkind = 'nats'\ndescription = 'd'\n";
    for (added, line, message, help) in [
        ("subject = ' '", 10, "`subject` is empty", "where is asked"),
        ("", 7, "`tools.t` lacks `subject`", "such as `orders.{id}.show`"),
        (
            "subject = 'a.{x}'",
            7,
            "tool `t`: {x} stands for a parameter that is not declared",
            "change the request template",
        ),
        (
            "subject = 'a.{x}'\nparameters = { x = 'string?' }",
            7,
            "tool `t`: parameter \"x\" is part of the subject and may be absent",
            "`parameters`",
        ),
        (
            "subject = 'a.b{x}'\nparameters = { x = 'string' }",
            7,
            "tool `t`: {x} in the subject is not a whole token",
            "change the request template",
        ),
        ("subject = '$SRV.PING'", 7, "belongs to NATS itself", "change"),
        ("subject = 'callboard.v1.t.tool.t'", 7, "may be one of the runtime's own", "change"),
        ("subject = 'a.>'", 7, "token \">\" of the subject has a wildcard", "change"),
        (
            "subject = 'a'\nheaders = { Nats-Msg-Id = '1' }",
            7,
            "header \"Nats-Msg-Id\" is set by the runtime",
            "change",
        ),
        (
            "subject = 'a'\nbody = { text = 't' }\nparameters = { x = 'string' }",
            7,
            "parameter \"x\" appears nowhere in the request",
            "change",
        ),
        (
            "subject = 'a'\nmethod = 'GET'",
            11,
            "`method` goes with `kind = \"http\"` only",
            "remove `method`",
        ),
    ] {
        check(&format!("{FINE}{head}{added}\n"), line, message, help);
    }
    check(
        &format!(
            "{FINE}[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nsubject = 'a'\n"
        ),
        11,
        "`subject` goes with `kind = \"nats\"` only",
        "remove `subject`",
    );
}

#[test]
fn a_subject_becomes_a_tool() {
    let text = "[tools.t]\nkind = 'nats'\ndescription = 'd'\nsubject = 'a.{x}'\n\
        headers = { H = 'v' }\nparameters = { x = 'string' }\n";
    let team = config::parse(Path::new("teams/t.toml"), &format!("{FINE}{text}"), &files).unwrap();
    let tool = &team.tools["t"];
    let spec = NatsSpec {
        source: None,
        subject: "a.{x}".to_owned(),
        headers: vec![("H".to_owned(), HeaderSource::Template("v".to_owned()))],
        body: BodyTemplate::Arguments,
        response_bytes_max: 65_536,
    };
    assert_eq!(tool.kind, ToolKind::Nats(spec));
    assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (EffectClass::Once, 30_000));
}
