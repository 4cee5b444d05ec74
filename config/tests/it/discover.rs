//! Tools of discovered services: named, granted and left out; and what is broken in their tables.

use std::path::Path;

use config::{Sources, Team};
use tools::ToolKind;
use tools::nats::Described;
use wire::{EffectClass, Name};

use super::broken::{FINE, check, files};

fn described(service: &str, endpoint: &str) -> Described {
    Described {
        service: service.to_owned(),
        endpoint: endpoint.to_owned(),
        subject: format!("{service}.{endpoint}"),
        description: "Does it.".to_owned(),
        schema: r#"{"properties": {"id": {"type": "integer"}}}"#.to_owned(),
    }
}

fn compile(text: &str, found: Vec<Described>) -> Team {
    let services = [(Name::new("shop").unwrap(), found)].into();
    let sources = Sources { services, ..Sources::default() };
    let team = config::parse_with(Path::new("teams/t.toml"), text, &files, &sources);
    team.unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn offered(team: &Team) -> Vec<&str> {
    team.agents["b"].tools.iter().map(|offer| offer.spec.name.as_str()).collect()
}

const AGENT: &str = "[team]\nentry = 'a'\n[agents.b]\ninstructions = 'Help.'\nmodel = 'm'\n";

#[test]
fn endpoints_are_tools_under_names_of_their_own() {
    let text = format!(
        "{FINE}{AGENT}tools = ['shop_*']\n[discover.shop]\nservice = 'shop'\neffect = 'read'\n\
         timeout_ms = 500\n"
    );
    let found = vec![described("shop", "a.b"), described("shop", "a_b"), described("shop", "c")];
    let team = compile(&text, found);
    let [plain, dotted, last] = offered(&team)[..] else { panic!("{:?}", offered(&team)) };
    assert_eq!((plain, last), ("shop_a_b", "shop_c"));
    assert!(dotted.starts_with("shop_a_b_"), "{dotted}");
    let subject = |name: &str| match &team.tools[name].kind {
        ToolKind::Nats(spec) => spec.subject.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((subject(plain), subject(dotted)), ("shop.a_b".to_owned(), "shop.a.b".to_owned()));
    let tool = &team.tools["shop_c"];
    let ToolKind::Nats(spec) = &tool.kind else { panic!("{:?}", tool.kind) };
    assert_eq!((spec.subject.as_str(), spec.source.as_ref().unwrap().as_str()), ("shop.c", "shop"));
    assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (EffectClass::Read, 500));
    assert_eq!(tool.offer.spec.parameters["type"], "object");
    assert_eq!(tool.offer.spec.description, "Does it.");

    // With a wildcard, endpoints of several services may have one name.
    let text = text
        .replace("'shop'", "'s*'")
        .replace("shop_*", "x-*")
        .replace("effect = 'read'", "prefix = 'x-'");
    let team = compile(&text, vec![described("shop", "c"), described("store", "c")]);
    assert_eq!(offered(&team), ["x-shop_c", "x-store_c"]);
    assert_eq!(team.tools["x-shop_c"].offer.effect, EffectClass::Once);
}

#[test]
fn a_tool_that_comes_and_goes_may_be_named_while_it_is_not_there() {
    let text = format!(
        "{FINE}{AGENT}tools = ['shop_c', 'shop_*', 'now']\npermissions = {{ allow = ['shop_c'], deny = ['shop_d(id=1)', 's*'] }}\n\
         [discover.shop]\nservice = 'shop'\n"
    );
    assert_eq!(offered(&compile(&text, Vec::new())), ["now"]);
    let both = vec![described("shop", "c"), described("shop", "d")];
    assert_eq!(offered(&compile(&text, both)), ["shop_c", "shop_d", "now"]);
}

#[test]
fn what_cannot_be_offered_is_left_out() {
    let text = format!("{FINE}{AGENT}tools = ['shop_*']\n[discover.shop]\nservice = 'shop'\n");
    let with = |schema: &str, subject: &str| Described {
        schema: schema.to_owned(),
        subject: subject.to_owned(),
        ..described("shop", "x")
    };
    let cases = [
        (with("{", "shop.x"), "its schema is no JSON"),
        (with("[]", "shop.x"), "its schema is no object"),
        (with(r#"{"type": "string"}"#, "shop.x"), "endpoint x of service shop is not offered"),
        (with("{}", "$JS.API.INFO"), "belongs to NATS itself"),
        (with("{}", "shop.>"), "has a wildcard"),
    ];
    for (found, reason) in cases {
        let team = compile(&text, vec![found, described("shop", "c")]);
        assert_eq!(offered(&team), ["shop_c"]);
        let [left_out] = team.left_out.as_slice() else { panic!("{:?}", team.left_out) };
        assert!(left_out.contains(reason), "{left_out}");
    }
    // A name of the team's own is never another's.
    let text = format!("{text}prefix = ''\n[agents.c]\ninstructions = 'x'\nmodel = 'm'\n");
    let text = text.replace("'shop_*'", "'*'");
    let team = compile(&text, vec![described("shop", "c"), described("shop", "now")]);
    assert!(offered(&team).iter().all(|name| name.starts_with("c_") || name.starts_with("now_")));
    assert_eq!(offered(&team).len(), 2);
}

#[test]
fn one_fault_in_a_table_of_services() {
    for (added, line, message, help) in [
        ("", 7, "`discover.d` lacks `service`", "with `*` for any text"),
        ("service = 'a.b'", 8, "\"a.b\" is no name of a service", "use letters"),
        ("service = 'callboard-t'", 8, "is the service of the team itself", "use letters"),
        ("service = 'a'\nprefix = 'a.'", 9, "`prefix` \"a.\" is no beginning of a name", "letters"),
        ("service = 'a'\ntimeout_ms = 0", 9, "must be from 1 to 3600000", "one call"),
    ] {
        check(&format!("{FINE}[discover.d]\n{added}\n"), line, message, help);
    }
    let agent =
        "[team]\nentry = 'a'\n[agents.b]\ninstructions = 'x'\nmodel = 'm'\ntools = ['e_x']\n";
    let text = format!("{FINE}[discover.d]\nservice = 'a'\n{agent}");
    check(&text, 14, "there is no tool `e_x`", "");
    check(
        &text.replace("e_x", "e_*"),
        14,
        "no tool of a server, service or interface begins with \"e_\"",
        "",
    );
}
