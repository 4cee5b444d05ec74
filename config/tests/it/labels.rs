//! What comes in by tools and what goes out, and agents that would have too much of it together.

use std::path::Path;

use wire::Capture;
use wire::plan::Labels;

use super::broken::{FINE, check, files};

fn labels(text: &str, tool: &str) -> Labels {
    let team = config::parse(Path::new("teams/t.toml"), text, &files)
        .unwrap_or_else(|report| panic!("{}", report.render(false)));
    team.tools[tool].offer.labels
}

const NONE: [bool; 3] = [false, false, false];

#[test]
fn labels_follow_from_the_kind_and_the_effect_unless_the_table_says_otherwise() {
    let http = "kind = 'http'\nurl = 'http://h/x'";
    let led = "kind = 'http'\nurl = 'http://{x}.example.com/'\nparameters = { x = 'string' }";
    let query = "kind = 'query'\ndatabase = 'd'\nstatement = 'select title from film'";
    let delete = "kind = 'query'\ndatabase = 'd'\nstatement = 'delete from film'";
    let command = "kind = 'command'\nargv = ['date']";
    let bare = "kind = 'command'\nargv = ['date']\nsandbox = 'none'";
    let model = "kind = 'model'\nmodel = 'm'\nprompt = 'x'";
    // Untrusted output, private output, external effect.
    let cases: [(&str, &str, [bool; 3]); 19] = [
        ("kind = 'builtin'\nbuiltin = 'remember'", "", NONE),
        (model, "", NONE),
        (command, "effect = 'read'", NONE),
        (command, "", [false, false, true]),
        (command, "effect = 'read'\nnetwork = true", [true, false, true]),
        (command, "network = true", [true, false, true]),
        (bare, "effect = 'read'", [true, false, true]),
        (bare, "", [true, false, true]),
        (bare, "untrusted_output = false\nexternal_effect = false", NONE),
        (http, "", [true, false, false]),
        (http, "method = 'PUT'", [true, false, true]),
        (http, "method = 'POST'", [true, false, true]),
        (http, "untrusted_output = false\nprivate_output = true", [false, true, false]),
        (http, "external_effect = true", [true, false, true]),
        // What stands in the name of a host is told to those who look after its domain.
        (led, "", [true, false, true]),
        (led, "external_effect = false", [true, false, false]),
        (http, "method = 'POST'\nexternal_effect = false", [true, false, false]),
        (query, "", [false, true, false]),
        (delete, "effect = 'once'\nprivate_output = false", [false, false, true]),
    ];
    for (kind, said, [untrusted, private, external]) in cases {
        let text = format!(
            "{FINE}tools = ['t']\n[databases.d]\nkind = 'sqlite'\ninit = 'films.sql'\n\
             [tools.t]\ndescription = 'd'\n{kind}\n{said}\n"
        );
        let expected = Labels { untrusted, private, external };
        assert_eq!(labels(&text, "t"), expected, "{text}");
    }
}

#[test]
fn what_a_probe_brings_comes_in_by_the_tool_that_names_it() {
    // The labels of the probe and those of the tool, untrusted output, private output and external
    // effect, and what becomes of those of the tool.
    for (probe, own, expected) in [
        ([true, false, false], [false, false, false], [true, false, false]),
        ([false, true, false], [false, false, false], [false, true, false]),
        ([false, false, true], [false, false, false], [false, false, true]),
        ([true, true, true], [false, true, false], [true, true, true]),
        ([false, false, false], [true, true, true], [true, true, true]),
        ([false, false, false], [false, false, false], [false, false, false]),
    ] {
        let said = |[untrusted, private, external]: [bool; 3]| {
            format!(
                "untrusted_output = {untrusted}\nprivate_output = {private}\n\
                 external_effect = {external}\n"
            )
        };
        let text = probed(&said(own), &said(probe));
        let all =
            |[untrusted, private, external]: [bool; 3]| Labels { untrusted, private, external };
        assert_eq!(labels(&text, "pay"), all(expected), "{text}");
        assert_eq!(labels(&text, "seen"), all(probe));
    }
}

#[test]
fn traces_hold_no_more_of_calls_than_of_their_probes() {
    let capture = |said: &str| match said {
        "" => None,
        said => Some(serde_json::from_value::<Capture>(said.into()).unwrap()),
    };
    for (own, probe, expected) in [
        ("", "", ""),
        ("", "none", "none"),
        ("full", "", "full"),
        ("full", "metadata", "metadata"),
        ("none", "full", "none"),
    ] {
        let said = |level: &str| match level {
            "" => String::new(),
            level => format!("capture = '{level}'\n"),
        };
        let text = probed(&said(own), &said(probe));
        let team = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap();
        let found = team.tools["pay"].offer.capture;
        assert_eq!(found, capture(expected), "{own:?} {probe:?}");
    }
}

#[test]
fn traces_hold_no_more_of_a_tool_than_its_source_allows() {
    for (own, source, expected) in [
        ("full", "none", Some(Capture::None)),
        ("none", "full", Some(Capture::None)),
        ("metadata", "metadata", Some(Capture::Metadata)),
    ] {
        let text = format!(
            "{FINE}tools = ['look']\n[mcp.hr]\ncommand = ['hr-mcp']\ntools = ['look']\n\
             capture = '{source}'\n\
             [tools.look]\nkind = 'mcp'\nserver = 'hr'\ncapture = '{own}'\n"
        );
        let team = config::parse(Path::new("teams/t.toml"), &text, &files)
            .unwrap_or_else(|report| panic!("{text}\n{}", report.render(false)));
        assert_eq!(team.tools["look"].offer.capture, expected, "{own} {source}");
    }
}

/// A team with a tool that has a probe, and what their tables say beside that.
fn probed(own: &str, probe: &str) -> String {
    format!(
        "{FINE}tools = ['pay']\n\
         [tools.pay]\nkind = 'http'\nmethod = 'POST'\nurl = 'http://h/pay'\ndescription = 'd'\n\
         probe = 'seen'\n{own}\
         [tools.seen]\nkind = 'http'\nurl = 'http://h/{{key}}'\ndescription = 'd'\n\
         parameters = {{ key = 'string' }}\n{probe}"
    )
}

/// A team whose agent `a` may call `web`, `orders` and `send`, and `b`.
fn shop(tools: &str, more: &str) -> String {
    format!(
        "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
         [tools.web]\nkind = 'http'\nurl = 'http://h/web'\ndescription = 'd'\n\
         [tools.orders]\nkind = 'http'\nurl = 'http://h/orders'\ndescription = 'd'\n\
         untrusted_output = false\nprivate_output = true\n\
         [tools.send]\nkind = 'http'\nurl = 'http://h/send'\nmethod = 'POST'\ndescription = 'd'\n\
         untrusted_output = false\nparameters = {{ to = 'string' }}\nbody = 'arguments'\n\
         [team]\nentry = 'a'\n\
         [agents.a]\ninstructions = 'A.'\nmodel = 'm'\ntools = [{tools}]\n{more}\n"
    )
}

#[test]
fn what_strangers_write_private_data_and_effects_do_not_come_together() {
    let all = "'web', 'orders', 'send'";
    let b = "agents = ['b']\n[agents.b]\ndescription = 'd'\ninstructions = 'B.'\nmodel = 'm'\n";
    let cases = [
        (all, "permissions = { allow = ['send'] }".to_owned(), true),
        (all, "permissions = { allow = ['send(to=x)'] }".to_owned(), true),
        (all, "permissions = { allow_tainted = ['s*'] }".to_owned(), true),
        // Two of the three are fine.
        ("'web', 'send'", "permissions = { allow = ['send'] }".to_owned(), false),
        ("'orders', 'send'", "permissions = { allow = ['send'] }".to_owned(), false),
        ("'web', 'orders'", String::new(), false),
        // So is an effect that a person sees first, which is what `once` needs by itself.
        (all, String::new(), false),
        (all, "permissions = { allow = ['send'], ask = ['send'] }".to_owned(), false),
        (all, "permissions = { allow = ['send'], ask = ['send(to=x)'] }".to_owned(), true),
        (all, "permissions = { allow = ['*'], deny = ['send'] }".to_owned(), false),
        (all, "accept_risk = 'a test'\npermissions = { allow = ['send'] }".to_owned(), false),
        // What a called agent can do counts for its caller.
        (
            "'web'",
            format!("{b}tools = ['orders', 'send']\npermissions = {{ allow = ['*'] }}"),
            true,
        ),
        ("'web'", format!("{b}tools = ['orders', 'send']"), false),
        ("'web'", format!("{b}tools = ['orders']"), false),
        // Where it has all three by itself, it is to say so, and its caller is not.
        (
            "'web'",
            format!("{b}accept_risk = 'x'\ntools = [{all}]\npermissions = {{ allow = ['*'] }}"),
            false,
        ),
        // Unless its caller has them as well, or is called by it.
        (
            all,
            format!(
                "permissions = {{ allow = ['send'] }}\n{b}accept_risk = 'x'\ntools = [{all}]\n\
                 permissions = {{ allow = ['*'] }}"
            ),
            true,
        ),
        (
            all,
            format!(
                "description = 'd'\nrecursion = true\npermissions = {{ allow = ['send'] }}\n{b}\
                 accept_risk = 'x'\nagents = ['a']"
            ),
            true,
        ),
    ];
    for (tools, more, is_fault) in cases {
        let text = shop(tools, &more);
        if is_fault {
            let line = text.lines().position(|line| line == "[agents.a]").unwrap() + 1;
            let message = "agent a can read what strangers write (`web`), read private data \
                           (`orders`), and act outside without leave (`send`)";
            check(&text, line, message, "ask = [\"send\"]");
        } else {
            config::parse(Path::new("teams/t.toml"), &text, &files)
                .unwrap_or_else(|report| panic!("{text}\n{}", report.render(false)));
        }
    }
}

/// What the tools of a server are is known when it is asked, and then the file is read once more.
#[test]
fn tools_that_are_not_known_yet_count_as_far_as_the_file_says_what_they_are() {
    for (said, is_fault) in [
        ("", false),
        ("untrusted_output = false", false),
        ("untrusted_output = true", false),
        ("untrusted_output = true\nexternal_effect = true", true),
        ("untrusted_output = true\nexternal_effect = false", false),
    ] {
        let more = format!(
            "permissions = {{ allow = ['mail_send'] }}\n\
             [mcp.mail]\ncommand = ['mail-mcp']\ntools = ['send']\n{said}"
        );
        let text = shop("'orders', 'mail_send'", &more);
        if is_fault {
            let line = text.lines().position(|line| line == "[agents.a]").unwrap() + 1;
            check(&text, line, "agent a can read what strangers write (`mail_send`)", "mail_send");
        } else {
            config::parse(Path::new("teams/t.toml"), &text, &files)
                .unwrap_or_else(|report| panic!("{text}\n{}", report.render(false)));
        }
    }
    // Runs are held to the worse of it until then.
    let server = "[mcp.mail]\ncommand = ['mail-mcp']\ntools = ['send']\neffect = 'read'\n";
    let text = format!("{FINE}tools = ['mail_send']\n{server}");
    let expected = Labels { untrusted: true, private: false, external: false };
    assert_eq!(labels(&text, "mail_send"), expected);
}

#[test]
fn a_probe_counts_for_what_agents_have_together_though_they_cannot_call_it() {
    let more = "permissions = { allow = ['pay'] }\n\
                [tools.pay]\nkind = 'http'\nurl = 'http://h/pay'\nmethod = 'POST'\n\
                description = 'd'\nuntrusted_output = false\nprobe = 'seen'\n\
                [tools.seen]\nkind = 'http'\nurl = 'http://h/{key}'\ndescription = 'd'\n\
                parameters = { key = 'string' }";
    let text = shop("'orders', 'pay'", more);
    let line = text.lines().position(|line| line == "[agents.a]").unwrap() + 1;
    let message = "agent a can read what strangers write (`pay`), read private data (`orders`), \
                   and act outside without leave (`pay`)";
    check(&text, line, message, "ask = [\"pay\"]");
    let own = text.replace("parameters = { key", "untrusted_output = false\nparameters = { key");
    config::parse(Path::new("teams/t.toml"), &own, &files)
        .unwrap_or_else(|report| panic!("{own}\n{}", report.render(false)));
}
