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
    let team = compile(&text, vec![described("shop", "a.b"), described("shop", "c")]);
    assert_eq!(offered(&team), ["shop_a_b", "shop_c"]);
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
fn a_name_that_several_endpoints_would_have_is_nobodys() {
    let table = |name: &str, service: &str| {
        format!("[discover.{name}]\nservice = '{service}'\nprefix = 'x-'\n")
    };
    let (wild, literal) = (table("shop", "s*"), table("shop", "s"));
    let two = [table("shop", "s*"), table("other", "o")].concat();
    let at = |subject: &str| Described { subject: subject.to_owned(), ..described("s", "c") };
    let cases = [
        (&wild, "x-s_b_c", [described("s", "b_c"), described("s_b", "c")]),
        (&wild, "x-s_b_c", [described("s", "b.c"), described("s_b", "c")]),
        (&wild, "x-s_c", [at("v1.c"), at("v2.c")]),
        (&literal, "x-c", [at("v1.c"), at("v2.c")]),
        (&literal, "x-b_c", [described("s", "b.c"), described("s", "b_c")]),
        (&two, "x-s_c", [described("s", "c"), described("o", "s_c")]),
    ];
    for (tables, plain, [one, other]) in cases {
        let text = format!("{FINE}{AGENT}tools = ['x-*']\n{tables}");
        let named = |found: &[&Described]| {
            let of = |service: fn(&str) -> bool| {
                let found = found.iter().filter(|found| service(&found.service));
                found.map(|found| (*found).clone()).collect()
            };
            let (shop, others) = (of(|name| name != "o"), of(|name| name == "o"));
            let services = [("shop", shop), ("other", others)];
            let services = services.map(|(table, found)| (Name::new(table).unwrap(), found)).into();
            let sources = Sources { services, ..Sources::default() };
            let team = config::parse_with(Path::new("teams/t.toml"), &text, &files, &sources);
            let team = team.unwrap_or_else(|report| panic!("{}", report.render(false)));
            assert_eq!(team.left_out, [""; 0], "{tables}");
            let subject = |name: &str| match &team.tools[name].kind {
                ToolKind::Nats(spec) => spec.subject.clone(),
                other => panic!("{other:?}"),
            };
            let names = offered(&team).into_iter();
            names.map(|name| (name.to_owned(), subject(name))).collect::<Vec<_>>()
        };
        for alone in [&one, &other] {
            assert_eq!(named(&[alone]), [(plain.to_owned(), alone.subject.clone())], "{tables}");
        }
        let both = named(&[&one, &other]);
        assert_eq!(named(&[&other, &one]), both, "{tables}");
        let mut subjects: Vec<&String> = both.iter().map(|(_, subject)| subject).collect();
        subjects.sort();
        let mut expected = [&one.subject, &other.subject];
        expected.sort();
        assert_eq!(subjects, expected, "{tables}");
        let begins = format!("{plain}_");
        assert!(both.iter().all(|(name, _)| name.starts_with(&begins)), "{both:?}");
    }

    // What is dropped all the same is said.
    let text = format!("{FINE}{AGENT}tools = ['x-*']\n{literal}");
    let team = compile(&text, vec![at("v1.c"), at("v1.c")]);
    assert_eq!(offered(&team).len(), 1);
    let said = "endpoint c of service s is not offered: another tool has its name";
    assert_eq!(team.left_out, [said]);
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

/// A tool that was granted by such a name is granted by it with the next version as well.
#[test]
fn a_name_that_is_told_apart_stays_what_it_is() {
    let at = |subject: &str| Described { subject: subject.to_owned(), ..described("s", "c") };
    let long = "x".repeat(70);
    let cut = format!("{}_626719d6", "x".repeat(55));
    let cases = [
        // A name of the team's own, one that is too long, and one that two endpoints have.
        (vec![described("s", "now")], vec!["now_470e9bee"]),
        (vec![described("s", &long)], vec![cut.as_str()]),
        (vec![at("v1.c"), at("v2.c")], vec!["c_2dd78c8a", "c_d4ea0df0"]),
    ];
    let text = format!("{FINE}{AGENT}tools = ['*']\n[discover.shop]\nservice = 's'\nprefix = ''\n");
    for (found, names) in cases {
        assert_eq!(offered(&compile(&text, found)), names);
    }
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
