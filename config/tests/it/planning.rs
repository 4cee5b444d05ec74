//! Agents that plan, and the models and aliases of the tools that they select.

use std::path::Path;

use config::Team;
use wire::Name;
use wire::plan::{AskedModel, Dialect};

use super::broken::{FINE, check, files};

/// What makes of the fine file one of a team that plans; line 7 ends the agent's table.
fn planning() -> String {
    let models = "planner = 'm'\nactor = 'm'\n";
    FINE.replace("model = 'm'\n", models)
}

fn team(text: &str) -> Team {
    let team = config::parse(Path::new("teams/t.toml"), text, &files);
    team.unwrap_or_else(|report| panic!("{}", report.render(false)))
}

#[test]
fn a_planner_stands_in_the_thinkers_place_and_tools_have_models_of_their_own() {
    let team = team(
        r"
        [models.big]
        provider = 'scripted'
        script = 'm.jsonl'
        dialect = 'json'
        timeout_ms = 1000
        [models.small]
        provider = 'scripted'
        script = 'm.jsonl'
        timeout_ms = 2000
        [models.math]
        provider = 'scripted'
        script = 'm.jsonl'
        dialect = 'schema'
        timeout_ms = 3000
        [agents.lead]
        instructions = 'Lead.'
        planner = 'big'
        actor = 'small'
        tools = ['calculate', 'now', 'ask']
        [agents.plain]
        instructions = 'Talk.'
        actor = 'small'
        tools = ['calculate']
        [agents.alone]
        instructions = 'Plan.'
        planner = 'small'
        actor = 'big'
        [tools.calculate]
        kind = 'builtin'
        actor = 'math'
        aliases = ['calculate_number', 'compute']
        [tools.ask]
        kind = 'model'
        description = 'Asks.'
        model = 'big'
        actor = 'small'
        prompt = 'Say something.'
        [team]
        entry = 'lead'
        ",
    );
    let asked =
        |model: &str, dialect| Some(AskedModel { model: Name::new(model).unwrap(), dialect });
    let lead = &team.agents["lead"];
    assert_eq!((&lead.thinker, &lead.planner), (&None, &asked("big", Dialect::Json)));
    assert_eq!((lead.actor.as_str(), lead.dialect), ("small", Dialect::Native));
    let own: Vec<_> = lead.tools.iter().map(|offer| offer.actor.clone()).collect();
    assert_eq!(own, [asked("math", Dialect::Schema), None, asked("small", Dialect::Native)]);
    assert_eq!(lead.tools[0].aliases, ["calculate_number", "compute"]);
    let timeouts = ["lead", "plain", "alone"].map(|name| team.agents[name].limits.model_timeout_ms);
    assert_eq!(timeouts, [3000, 2000, 2000], "the longest of the models that serve the agent");
}

#[test]
fn one_fault_in_an_agent_that_plans() {
    for (added, line, message, help) in [
        ("thinker = 'm'", 6, "agent `a` has both `thinker` and `planner`", "remove one of them"),
        (
            "continue_word = 'WAIT'",
            8,
            "agent `a` has both `planner` and `continue_word`",
            "remove one of them",
        ),
        ("planer = 'm'", 8, "unknown key `planer` in `agents.a`", "did you mean `planner`?"),
        (
            "[tools.now]\nkind = 'builtin'\nactor = 'n'",
            10,
            "there is no model `n`",
            "known models: m",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = 'time'",
            10,
            "`tools.now.aliases` must be a list",
            "Other names",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['']",
            10,
            "`tools.now.aliases[0]` has 0 bytes",
            "add to it",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['time', ' clock']",
            10,
            "alias \" clock\" begins or ends with white space",
            "choose another alias",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['respond_to_user']",
            10,
            "`respond_to_user` is the name by which models give their answer",
            "choose another alias",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['now']",
            10,
            "alias `now` of tool `now` is the name of a tool",
            "choose another alias",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['a']",
            10,
            "alias `a` of tool `now` is the name of an agent",
            "choose another alias",
        ),
        (
            "tools = ['recall']\n[tools.now]\nkind = 'builtin'\naliases = ['recall']",
            11,
            "alias `recall` of tool `now` is the name of a tool",
            "choose another alias",
        ),
        (
            "[tools.calculate]\nkind = 'builtin'\naliases = ['x']\n[tools.now]\nkind = 'builtin'\naliases = ['x']",
            13,
            "alias `x` is one of tool `calculate` already",
            "choose another alias",
        ),
        (
            "[tools.now]\nkind = 'builtin'\naliases = ['x', 'x']",
            10,
            "alias `x` is one of tool `now` already",
            "choose another alias",
        ),
    ] {
        check(&format!("{}{added}\n", planning()), line, message, help);
    }
    let both = format!("{FINE}planner = 'm'\n");
    check(&both, 6, "agent `a` has both `model` and `planner`", "remove `thinker`, `planner`");
    let none = FINE.replace("model = 'm'", "planner = 'm'");
    check(&none, 4, "agent `a` does not say which model makes its calls", "`planner`");
    let unknown = planning().replace("planner = 'm'", "planner = 'n'");
    check(&unknown, 6, "there is no model `n`", "known models: m");
}
