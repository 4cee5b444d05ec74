//! `callboard tools`: what the models of a team are offered.

use std::collections::BTreeMap;
use std::time::Duration;

use agents_core::dialect;
use agents_core::permission::decide;
use bus::Bus;
use config::Team;
use model::unenforced;
use serde_json::{Map, Value, json};
use wire::plan::{Audience, Labels, Offer, Permission, Target};
use wire::{ErrorCode, Name, Plan};

use crate::args::Tools;
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::screen::{self, Screen};
use crate::text;
use crate::verb::{nats, servers};

/// The columns by which a tool's lines stand in.
const INDENT: usize = 4;

/// Prints the offers of one agent or of all.
pub(crate) async fn tools(args: &Tools, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let paint = screen.err.paint;
    let team = super::load(&args.team, paint)?;
    if let Some(server) = &args.compare {
        return servers::compare(&team, place, server, args.json).await;
    }
    if let Some(server) = &args.approve {
        return servers::approve(&team, place, server, args.json, paint).await;
    }
    let bus = match nats::options(&args.nats)? {
        Some(options) => Some((Bus::connect(options).await?, nats::subjects(&args.nats)?)),
        None => None,
    };
    let bus = bus.as_ref().map(|(bus, subjects)| (bus, subjects));
    let (_, team) = super::complete(&args.team, place, bus, paint).await?;
    super::note_left_out(&team);
    let plans: Vec<&Plan> = match &args.agent {
        Some(name) => vec![agent(&team, name)?],
        None => team.agents.values().collect(),
    };
    if args.json {
        let offered = |plan: &Plan| {
            let before = |audience: Audience| {
                (audience.as_str().to_owned(), dialect::before(plan, audience))
            };
            // What a task is told first is about its tool, and stands beside it where that matters.
            let told = |audience: &Audience| *audience != Audience::Task && audience.is_of(plan);
            let audiences = Audience::ALL.into_iter().filter(told);
            let offer = json!({
                "dialect": plan.dialect,
                "offered": dialect::offered(plan),
                "system": audiences.map(before).collect::<BTreeMap<String, String>>(),
                "notes": unenforced(&team, [plan]),
            });
            (plan.agent.to_string(), offer)
        };
        screen::json(&plans.into_iter().map(offered).collect::<Map<String, Value>>())?;
    } else {
        screen::answer(&render(&plans, screen.out.paint, screen.out.width))?;
        super::note_unenforced(&unenforced(&team, plans));
    }
    Ok(Exit::Done)
}

/// Returns an agent of a team, or says which there are.
pub(crate) fn agent<'t>(team: &'t Team, name: &Name) -> Result<&'t Plan, Failure> {
    team.agents.get(name).ok_or_else(|| {
        let known: Vec<&str> = team.agents.keys().map(Name::as_str).collect();
        let text = format!("team {} has no agent {name}; it has {}", team.name, known.join(", "));
        Failure::new(ErrorCode::UnknownAgent, text)
    })
}

fn render(plans: &[&Plan], paint: Paint, width: usize) -> String {
    let mut lines = Vec::new();
    for plan in plans {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let models = match (&plan.planner, &plan.thinker) {
            (Some(planner), _) => format!("{} plans, {} acts", planner.model, plan.actor),
            (None, Some(thinker)) => format!("{thinker} thinks, {} acts", plan.actor),
            (None, None) => format!("{} thinks and acts", plan.actor),
        };
        let agent = paint.bold(plan.agent.as_str());
        lines.push(format!("{agent}  {models}, dialect {}", plan.dialect.as_str()));
        if plan.tools.is_empty() {
            lines.push("  no tools".to_owned());
        }
        for offer in &plan.tools {
            render_offer(&mut lines, plan, offer, paint, width);
        }
    }
    lines.join("\n")
}

fn render_offer(lines: &mut Vec<String>, plan: &Plan, offer: &Offer, paint: Paint, width: usize) {
    let kind = match offer.target {
        Target::Tool => "tool",
        Target::Agent => "agent",
    };
    let limit = text::duration(Duration::from_millis(offer.timeout_ms));
    let own =
        offer.actor.as_ref().filter(|_| plan.planner.is_some()).map_or_else(String::new, |own| {
            format!(", {} acts, dialect {}", own.model, own.dialect.as_str())
        });
    // Patterns with conditions may say otherwise of a single call.
    let decision = decide(&plan.permissions, offer, &Value::Null, true);
    let needs = match decision.permission {
        Permission::Allow => "",
        Permission::Ask if decision.for_taint => ", needs leave in tainted runs",
        Permission::Ask => ", needs leave",
        Permission::Deny => ", denied",
    };
    let Labels { untrusted, private, .. } = offer.labels;
    let labels = [(untrusted, ", untrusted"), (private, ", private")];
    let labels: String = labels.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    let facts = format!("{kind}, {}, up to {limit}{own}{labels}{needs}", offer.effect.as_str());
    lines.push(format!("  {}  {}", paint.cyan(offer.spec.name.as_str()), paint.dim(&facts)));
    let line = |text: &str| {
        let line = text::shorten(&text::one_line(text), width.saturating_sub(INDENT));
        format!("{}{line}", " ".repeat(INDENT))
    };
    lines.push(line(&offer.spec.description));
    for (name, schema, required) in parameters(&offer.spec.parameters) {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
        let need = if required { "" } else { ", optional" };
        let about = schema.get("description").and_then(Value::as_str);
        let about = about.map_or_else(String::new, |about| format!(": {about}"));
        lines.push(line(&format!("{name} ({kind}{need}){about}")));
    }
}

fn parameters(schema: &Value) -> Vec<(&str, &Value, bool)> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    properties.iter().map(|(name, schema)| (name.as_str(), schema, is_required(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_listed_by_agent() {
        let text = r#"
            [team]
            name = "t"
            entry = "lead"
            [models.m]
            provider = "openai"
            base_url = "http://127.0.0.1:1/v1"
            model = "m"
            [agents.lead]
            description = "Leads."
            instructions = "Lead."
            actor = "m"
            tools = ["calculate"]
            agents = ["writer"]
            [agents.writer]
            description = "Writes."
            instructions = "Write."
            thinker = "m"
            actor = "m"
            [models.own]
            provider = "llamacpp"
            dialect = "schema"
            [tools.clock]
            kind = "builtin"
            builtin = "now"
            actor = "own"
            [agents.planner]
            instructions = "Plan."
            planner = "m"
            actor = "m"
            tools = ["clock"]
        "#;
        let team =
            config::parse("t.toml".as_ref(), text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let team = team.unwrap_or_else(|report| panic!("{}", report.render(false)));
        let plans: Vec<&Plan> = team.agents.values().collect();
        let shown = render(&plans, Paint::new(false), 60);
        assert!(shown.starts_with("lead  m thinks and acts, dialect native\n  calculate  tool, "));
        assert!(shown.contains("\n    expression (string)"), "{shown}");
        assert!(shown.contains("\n  writer  agent, "), "{shown}");
        assert!(
            shown.contains("\nplanner  m plans, m acts, dialect native\n  clock  tool, read, ")
        );
        assert!(shown.contains(", own acts, dialect schema\n"), "{shown}");
        assert!(shown.ends_with("\nwriter  m thinks, m acts, dialect native\n  no tools"));
        assert!(shown.lines().all(|line| text::width(line) <= 60), "{shown}");
    }
}
