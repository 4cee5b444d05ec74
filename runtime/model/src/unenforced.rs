//! What providers will not hold replies to, known before anybody is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use config::Team;
use config::team::Model;
use serde::Serialize;
use serde_json::Value;
use tools::ToolKind;
use tools::model::ModelOutput;
use wire::Name;
use wire::plan::{Dialect, Plan};

use crate::lower::{Dropped, lower};
use crate::provider::Asked;

/// Notes on some agents that are given at most; a person reads them.
pub const NOTES_MAX: usize = 64;

/// Places that one note names at most.
pub const PLACES_MAX: usize = 8;

/// The keywords of a tool's schema that a provider does not know.
///
/// They are left out of what the provider is sent, so that only the check of the reply against the
/// whole schema holds a model to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unenforced {
    /// The tool, or the agent that is called as one.
    pub tool: Name,
    /// The model.
    pub model: Name,
    /// The kind of its provider.
    pub provider: &'static str,
    /// The keywords as paths below the tool, such as `parameters/properties/city/pattern`; at most
    /// [`PLACES_MAX`].
    pub places: Vec<String>,
    /// Further ones.
    pub omitted: usize,
}

impl fmt::Display for Unenforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, model, provider, places, omitted } = self;
        let places = places.join(", ");
        write!(f, "tool {tool}: provider {provider} does not hold model {model} to {places}")?;
        if *omitted > 0 {
            write!(f, " and {omitted} more")?;
        }
        f.write_str("; replies are checked against the whole schema when they are there")
    }
}

/// Returns what the providers of a team will not hold replies to in the work of some of its
/// agents: the first [`NOTES_MAX`] notes, by tool and model.
pub fn unenforced<'a>(
    team: &'a Team,
    agents: impl IntoIterator<Item = &'a Plan>,
) -> Vec<Unenforced> {
    let mut found: BTreeMap<(&Name, &Name), (&'static str, BTreeSet<String>)> = BTreeMap::new();
    let mut add = |tool: &'a Name, model: &'a Model, field: &str, dialect, schema: &Value| {
        let Some((word, dropped)) = dropped(model, dialect, schema) else { return };
        if dropped.is_empty() {
            return;
        }
        let places =
            dropped.into_iter().map(|Dropped { at, keyword }| format!("{field}{at}/{keyword}"));
        found
            .entry((tool, &model.name))
            .or_insert_with(|| (word, BTreeSet::new()))
            .1
            .extend(places);
    };
    for plan in agents {
        for offer in &plan.tools {
            let tool = &offer.spec.name;
            let (actor, dialect) = match &offer.actor {
                Some(own) => (&own.model, own.dialect),
                None => (&plan.actor, plan.dialect),
            };
            if let Some(actor) = team.models.get(actor) {
                add(tool, actor, "parameters", dialect, &offer.spec.parameters);
            }
            if let Some(ToolKind::Model(spec)) = team.tools.get(tool).map(|tool| &tool.kind)
                && let (ModelOutput::Json { schema }, Some(model)) =
                    (&spec.output, team.models.get(&spec.model))
            {
                add(tool, model, "schema", Dialect::Schema, schema);
            }
        }
    }
    let notes = found.into_iter().take(NOTES_MAX).map(|((tool, model), (provider, places))| {
        let omitted = places.len().saturating_sub(PLACES_MAX);
        let places = places.into_iter().take(PLACES_MAX).collect();
        Unenforced { tool: tool.clone(), model: model.clone(), provider, places, omitted }
    });
    notes.collect()
}

/// Returns the provider's word, and what is left out of a schema where a model is asked by a dialect.
fn dropped(
    model: &Model,
    dialect: Dialect,
    schema: &Value,
) -> Option<(&'static str, BTreeSet<Dropped>)> {
    let Asked::Server(_, protocol) = Asked::of(&model.provider) else { return None };
    let dropped = match dialect {
        Dialect::Schema => lower(schema, protocol.schema_form()?).dropped,
        Dialect::Native => protocol.parameters(schema)?.dropped,
        Dialect::Json | Dialect::React => return None,
    };
    Some((protocol.word(), dropped))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    const TOOLS: &str = r#"
        [agents.lead]
        instructions = "Lead."
        model = "m"
        tools = ["weather", "note"]
        agents = ["writer"]
        [agents.writer]
        description = "Writes."
        instructions = "Write."
        model = "n"
        [team]
        name = "t"
        entry = "lead"
        [models.n]
        provider = "anthropic"
        model = "n"
        [tools.weather]
        kind = "http"
        description = "Tells the weather."
        url = "https://host/{city}"
        [tools.weather.parameters]
        type = "object"
        required = ["city"]
        properties.city = { type = "string", pattern = "[a-z]" }
        [tools.note]
        kind = "model"
        description = "Notes."
        model = "n"
        prompt = "Note {text}."
        parameters = { text = "string" }
        output = "json"
        [tools.note.schema]
        type = "object"
        required = ["text"]
        properties.text = { type = "string", maxLength = 9 }
    "#;

    fn team(model: &str, more: &str) -> Team {
        let text = format!("[models.m]\nmodel = \"x\"\n{model}\n{TOOLS}\n{more}");
        let files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        config::parse(Path::new("t.toml"), &text, &files)
            .unwrap_or_else(|report| panic!("{}", report.render(false)))
    }

    #[test]
    fn notes_name_tool_model_and_keyword() {
        let note = "note n anthropic schema/properties/text/maxLength";
        let weather =
            |provider: &str| format!("weather m {provider} parameters/properties/city/pattern");
        let cases = [
            ("provider = 'ollama'\ndialect = 'schema'", vec![note.to_owned(), weather("ollama")]),
            ("provider = 'ollama'", vec![note.to_owned()]),
            ("provider = 'llamacpp'", vec![note.to_owned(), weather("llamacpp")]),
            (
                "provider = 'llamacpp'\ndialect = 'schema'",
                vec![note.to_owned(), weather("llamacpp")],
            ),
            (
                "provider = 'openai'\nbase_url = 'http://h/v1'\ndialect = 'schema'\nstrict = true",
                vec![note.to_owned()],
            ),
            (
                "provider = 'openai'\nbase_url = 'http://h/v1'\ndialect = 'schema'",
                vec![note.to_owned()],
            ),
            (
                "provider = 'anthropic'\ndialect = 'schema'",
                vec![note.to_owned(), weather("anthropic")],
            ),
        ];
        for (model, expected) in cases {
            let team = team(model, "");
            let notes: Vec<String> = unenforced(&team, team.agents.values())
                .into_iter()
                .map(|Unenforced { tool, model, provider, places, .. }| {
                    format!("{tool} {model} {provider} {}", places.join(" "))
                })
                .collect();
            assert_eq!(notes, expected, "{model}");
            assert_eq!(unenforced(&team, team.agents.get("writer")), [], "{model}");
        }
    }

    #[test]
    fn notes_tell_what_no_provider_is_told_of_native_tools() {
        let more = "[tools.either]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\n\
            body = 'arguments'\nmethod = 'POST'\n[tools.either.parameters]\ntype = 'object'\n\
            properties.a = { type = 'string' }\nproperties.b = { type = 'string' }\n\
            anyOf = [{ required = ['a'] }, { required = ['b'] }]";
        for (model, provider) in [
            ("provider = 'openai'\nbase_url = 'http://h/v1'", Some("openai")),
            ("provider = 'anthropic'", Some("anthropic")),
            ("provider = 'ollama'", None),
            ("provider = 'llamacpp'", Some("llamacpp")),
            ("provider = 'anthropic'\ndialect = 'json'", None),
        ] {
            let mut team = team(model, more);
            let offer = team.tools["either"].offer.clone();
            let lead = team.agents.get_mut("lead").unwrap();
            lead.tools = vec![offer];
            let told: Vec<_> = unenforced(&team, team.agents.values())
                .into_iter()
                .map(|note| (note.tool.to_string(), note.provider, note.places))
                .collect();
            let expected = provider.map(|provider| {
                ("either".to_owned(), provider, vec!["parameters/anyOf".to_owned()])
            });
            assert_eq!(told, Vec::from_iter(expected), "{model}");
        }
    }

    #[test]
    fn a_note_names_a_few_places_and_counts_the_rest() {
        let mut more = "[tools.wide]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nbody = 'arguments'\n\
            method = 'POST'\n[tools.wide.parameters]\ntype = 'object'\n"
            .to_owned();
        for n in 0..=PLACES_MAX {
            writeln!(more, "properties.p{n} = {{ type = 'array', uniqueItems = true }}").unwrap();
        }
        let model = "provider = 'ollama'\ndialect = 'schema'";
        let mut team = team(model, &more);
        let offer = team.tools["wide"].offer.clone();
        let lead = team.agents.get_mut("lead").unwrap();
        lead.tools = vec![offer];
        let notes = unenforced(&team, team.agents.values());
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!((note.places.len(), note.omitted), (PLACES_MAX, 1));
        let told = note.to_string();
        assert!(
            told.starts_with("tool wide: provider ollama does not hold model m to parameters/"),
            "{told}"
        );
        assert!(told.contains("/uniqueItems and 1 more; "), "{told}");
    }
}
