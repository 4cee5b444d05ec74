//! Which calls a team permits, and what follows from calls without an answer.

use std::path::Path;

use wire::plan::Permission::{Allow, Ask};
use wire::plan::{OnUnknown, Permission, Permissions, Probe};

use super::broken::{FINE, check, files};

/// A team with tools that change something; line 8 on is free.
const SHOP: &str = r"[models.m]
provider = 'scripted'
script = 'm.jsonl'
[agents.a]
instructions = 'Answer.'
model = 'm'
tools = ['pay', 'put', 'seen', 'now']
";

const TOOLS: &str = r"
[tools.pay]
kind = 'http'
description = 'Pays.'
method = 'POST'
url = 'http://h/pay'
body = 'arguments'
parameters = { to = 'string', amount = 'integer' }
[tools.put]
kind = 'http'
description = 'Puts.'
method = 'PUT'
url = 'http://h/{what}'
parameters = { what = 'string' }
[tools.seen]
kind = 'http'
description = 'Looks.'
url = 'http://h/seen/{key}'
parameters = { key = 'string' }
";

fn team(text: &str) -> config::Team {
    config::parse(Path::new("teams/t.toml"), text, &files)
        .unwrap_or_else(|report| panic!("{}", report.render(false)))
}

#[test]
fn what_a_call_needs_follows_from_its_effect_and_the_patterns() {
    let added = "[agents.a.permissions]\nallow = ['pay(to=ann)']\nallow_tainted = ['pay(to=bob)']\n[agents.a.limits]\n\
                 approval_timeout_ms = 7\n[permissions]\nallow = ['now']\nallow_tainted = ['put(what=a)']\ndeny = ['put(what=x*)']\n";
    let team = team(&format!("{SHOP}{added}{TOOLS}"));
    let plan = &team.agents["a"];
    let needs: Vec<Permission> = plan.tools.iter().map(|offer| offer.permission).collect();
    assert_eq!(needs, [Ask, Allow, Allow, Allow]);
    let attempts: Vec<u32> = plan.tools.iter().map(|offer| offer.attempts_max).collect();
    assert_eq!(attempts, [5, 5, 3, 3]);
    let list = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = Permissions {
        allow: list(&["now", "pay(to=ann)"]),
        allow_tainted: list(&["put(what=a)", "pay(to=bob)"]),
        ask: Vec::new(),
        deny: list(&["put(what=x*)"]),
        by_meaning: true,
    };
    assert_eq!(plan.permissions, expected);
    assert_eq!(plan.limits.approval_timeout_ms, 7);
}

#[test]
fn what_follows_from_doubt_is_the_tools_own() {
    let text = format!("{SHOP}{TOOLS}")
        .replace("[tools.put]", "probe = 'seen'\non_unknown = 'fail'\n[tools.put]")
        .replace("[tools.seen]", "key_ttl_ms = 1000\non_unknown = 'ask'\n[tools.seen]");
    let team = team(&text);
    let [pay, put, seen, _] = team.agents["a"].tools.as_slice() else { panic!() };
    let probe = Probe { tool: seen.spec.name.clone(), takes_arguments: false, timeout_ms: 30_000 };
    assert_eq!((&pay.probe, pay.on_unknown, pay.key_ttl_ms), (&Some(probe), OnUnknown::Fail, None));
    assert_eq!((&put.probe, put.on_unknown, put.key_ttl_ms), (&None, OnUnknown::Ask, Some(1000)));
    assert_eq!(seen.on_unknown, OnUnknown::Tell);
}

#[test]
fn one_fault_in_what_is_permitted() {
    // A line that is too long would not be drawn.
    let half = "x".repeat(256);
    let long = format!("[permissions]\nask = [\"\"\"\\\n{half}\\\n{half}x\"\"\"]");
    for (added, line, message, help) in [
        ("[permissions]\ndeny = ['delete(']", 9, "cannot be read: the bracket", "conditions:"),
        (&*long, 9, "`permissions.ask[0]` has 513 bytes, at most 512 allowed", "shorter"),
        ("[permissions]\nask = ['pey']", 9, "pattern \"pey\" fits no tool", "did you mean `pay`?"),
        ("[permissions]\nask = ['delete_*']", 9, "fits no tool", "`*` stands for any text"),
        ("[permissions]\ndeny = ['pay(too=x)']", 9, "the argument \"too\"", "parameters"),
        ("[permissions]\nallow = 'pay'", 9, "`permissions.allow` must be a list", ""),
        ("[permissions]\nalow = ['pay']", 9, "unknown key `alow`", "did you mean `allow`?"),
        ("permissions = { deny = ['writer'] }", 8, "fits no tool", "name a tool"),
        ("limits = { approval_timeout_ms = 0 }", 8, "must be from 1 to 604800000", ""),
    ] {
        check(&format!("{SHOP}{added}\n{TOOLS}"), line, message, help);
    }
}

#[test]
fn one_fault_in_what_follows_from_doubt() {
    let tool = "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\n";
    let once = format!("{tool}effect = 'once'\n");
    let put = format!("{tool}effect = 'idempotent'\n");
    let other = "[tools.u]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\n";
    for (added, line, message, help) in [
        (format!("{once}key_ttl_ms = 5"), 12, "has the effect `once`", "effect = \"idempotent\""),
        (format!("{put}key_ttl_ms = 0"), 12, "must be from 1 to 31536000000", ""),
        (format!("{tool}on_unknown = 'ask'"), 11, "has the effect `read`", "another `effect`"),
        (format!("{once}on_unknown = 'shout'"), 12, "shout", ""),
        (format!("{once}probe = 'v'\n{other}"), 12, "there is no tool `v`", ""),
        (format!("{once}probe = 'u'\n{other}"), 12, "has no parameter `key`", "`arguments`"),
        (
            format!(
                "{once}probe = 'u'\n{other}effect = 'once'\nquery = {{ k = '{{key}}' }}\nparameters = {{ key = 'string' }}"
            ),
            12,
            "probe `u` has the effect `once`",
            "changes nothing",
        ),
        (
            "[tools.now]\nkind = 'builtin'\non_unknown = 'ask'".to_owned(),
            9,
            "`on_unknown` goes with",
            "remove",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}
