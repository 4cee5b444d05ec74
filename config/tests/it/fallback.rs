//! Models that stand in for others: what a team file means, and what is wrong with it.

use std::path::Path;

use wire::Name;
use wire::money::{ModelPrice, Price};

use super::broken::{check, files};

/// Models a to d of the scripted provider, and one agent.
fn text(fields: [&str; 4], agent: &str) -> String {
    let models = ["a", "b", "c", "d"].iter().zip(fields).map(|(name, fields)| {
        format!("[models.{name}]\nprovider = 'scripted'\nscript = 'm.jsonl'\n{fields}\n")
    });
    models.collect::<String>() + &format!("[agents.x]\ninstructions = 'Answer.'\n{agent}\n")
}

#[test]
fn fallbacks_follow_each_other_and_add_their_time() {
    let cases = [
        (["", "", "", ""], "", 120_000),
        (["fallback = ['b', 'c']", "", "", ""], "b c", 360_000),
        (["fallback = ['b']", "fallback = ['c']", "fallback = ['d']", ""], "b c d", 480_000),
        (["fallback = ['b', 'c']", "fallback = ['d']", "fallback = ['d']", ""], "b d c", 480_000),
        (["fallback = ['b']\ntimeout_ms = 5000", "timeout_ms = 7000", "", ""], "b", 12_000),
        (["fallback = ['b']", "timeout_ms = 3600000", "", ""], "b", 3_600_000),
        // What a model is asked by matters where it is asked for calls only.
        (["fallback = ['b']\ndialect = 'schema'", "dialect = 'native'", "", ""], "b", 240_000),
        (["fallback = ['b']\ndialect = 'json'", "dialect = 'schema'", "", ""], "b", 240_000),
    ];
    for (fields, chain, timeout_ms) in cases {
        let text = text(fields, "model = 'a'");
        let team = config::parse(Path::new("teams/t.toml"), &text, &files)
            .unwrap_or_else(|report| panic!("{}", report.render(false)));
        let found: Vec<&str> = team.models["a"].fallback.iter().map(Name::as_str).collect();
        assert_eq!(found.join(" "), chain, "{text}");
        assert_eq!(team.agents["x"].limits.model_timeout_ms, timeout_ms, "{text}");
    }
    let thinks =
        text(["fallback = ['b']", "dialect = 'json'", "", ""], "thinker = 'a'\nactor = 'c'");
    assert!(config::parse(Path::new("teams/t.toml"), &thinks, &files).is_ok());
}

#[test]
fn a_price_is_the_highest_of_those_that_stand_in() {
    let price =
        |input, output, cache_read, cache_write| Price { input, output, cache_read, cache_write };
    let milli = 1_000_000;
    let uncached = "price = { input = 0.003, output = 0.015 }";
    let cached =
        "price = { input = 0.002, output = 0.02, cache_read = 0.0002, cache_write = 0.0025 }";
    let own = price(3 * milli, 15 * milli, None, None);
    for (other, highest, unpriced) in [
        (
            "price = { input = 0.004, output = 0.001 }",
            price(4 * milli, 15 * milli, None, None),
            None,
        ),
        (cached, price(3 * milli, 20 * milli, Some(3 * milli), Some(3 * milli)), None),
        ("", own, Some(Name::new("b").unwrap())),
    ] {
        let first = format!("{uncached}\nfallback = ['b']");
        let text = text([&first, other, cached, ""], "thinker = 'a'\nactor = 'c'");
        // What is scripted costs nothing.
        let unscripted = "[models.b]\nprovider = 'ollama'\nmodel = 'm'\n";
        let scripted = "[models.b]\nprovider = 'scripted'\nscript = 'm.jsonl'\n";
        let text = text.replace(scripted, unscripted);
        let team = config::parse(Path::new("teams/t.toml"), &text, &files)
            .unwrap_or_else(|report| panic!("{}", report.render(false)));
        let plan = &team.agents["x"];
        assert_eq!(plan.unpriced(), unpriced.as_ref(), "{text}");
        assert_eq!(plan.prices["a"], ModelPrice { own, highest, unpriced }, "{text}");
        let read = price(2 * milli, 20 * milli, Some(200_000), Some(2_500_000));
        assert_eq!(
            plan.prices["c"],
            ModelPrice { own: read, highest: read, unpriced: None },
            "{text}"
        );
    }
}

#[test]
fn what_cannot_stand_in_is_told() {
    for (fields, line, message, help) in [
        (
            ["fallback = ['b']", "fallback = ['c']", "dialect = 'json'", ""],
            4,
            "model `c` of dialect `json` cannot stand in for `a`, whose agents ask by `native`",
            "name another model",
        ),
        (["fallback = ['e']", "", "", ""], 4, "there is no model `e`", "known models: a, b, c, d"),
        (["fallback = ['b', 'b']", "", "", ""], 4, "`b` is twice in `fallback`", "remove one"),
        (["fallback = ['a']", "", "", ""], 4, "in a circle: a -> a", "remove one of them"),
        (
            ["fallback = ['b']", "fallback = ['c']", "fallback = ['a']", ""],
            12,
            "models stand in for each other in a circle: a -> b -> c -> a",
            "from its `fallback`",
        ),
        (
            ["fallback = ['b']", "dialect = 'schema'", "", ""],
            4,
            "model `b` of dialect `schema` cannot stand in for `a`, whose agents ask by `native`",
            "the prompt is made for `a`",
        ),
        (
            ["fallback = ['b', 'c']\ndialect = 'schema'", "", "dialect = 'react'", ""],
            4,
            "model `c` of dialect `react` cannot stand in for `a`",
            "name another model",
        ),
        (["fallback = 'b'", "", "", ""], 4, "`models.a.fallback` must be a list", ""),
        (["server_concurrency = 4", "", "", ""], 4, "`server_concurrency` goes with", "remove"),
        (["requests_per_minute = 0", "", "", ""], 4, "requests_per_minute", ""),
    ] {
        check(&text(fields, "model = 'a'"), line, message, help);
    }
}

#[test]
fn those_of_planners_and_of_the_actors_of_tools_are_held_against_what_they_are_sent() {
    const PLANS: &str = "planner = 'a'\nactor = 'd'\ntools = ['now']";
    const OWN: &str = "[tools.now]\nkind = 'builtin'\nactor = 'a'";
    let planned = |tools: &str| format!("planner = 'd'\nactor = 'd'\n{tools}{OWN}");
    let to = |dialect: &str| ["fallback = ['b']".to_owned(), format!("dialect = '{dialect}'")];
    let from = |own: &str, [fallback, other]: [String; 2]| {
        [format!("{fallback}\ndialect = '{own}'"), other]
    };
    let plan = Some("whose plans are held to a schema");
    for (fields, agent, fault) in [
        // A plan is held to a schema, whichever way the planner's model makes calls.
        (to("json"), PLANS.to_owned(), plan),
        (from("schema", to("react")), PLANS.to_owned(), plan),
        (to("schema"), PLANS.to_owned(), None),
        (from("json", to("react")), PLANS.to_owned(), None),
        // The actor of a tool acts where a planner selects that tool, and nowhere else.
        (to("schema"), planned("tools = ['now']\n"), Some("whose agents ask by `native`")),
        (from("schema", to("json")), planned("tools = ['now']\n"), Some("ask by `schema`")),
        (from("schema", to("native")), planned("tools = ['now']\n"), None),
        (to("json"), planned("tools = []\n"), None),
        (to("json"), format!("actor = 'd'\ntools = ['now']\n{OWN}"), None),
        // A thinker is asked for words.
        (to("json"), "thinker = 'a'\nactor = 'd'".to_owned(), None),
    ] {
        let [a, b] = &fields;
        let text = text([a, b, "", ""], &agent);
        match fault {
            Some(fault) => check(&text, 4, fault, "the prompt is made for `a`"),
            None => drop(
                config::parse(Path::new("teams/t.toml"), &text, &files)
                    .unwrap_or_else(|report| panic!("{}", report.render(false))),
            ),
        }
    }
}
