//! The agents of a team: what they may call, and within which limits.

use std::collections::{BTreeMap, BTreeSet};

use tools::builtin::Builtin;
use wire::plan::{AskedModel, Dialect, Form, Limits, Offer, Prompts, WhenBusy};
use wire::{Levels, Name, Plan};

use super::Compiler;
use super::circle::{Calls, circles};
use super::fallback::chain_timeout_ms;
use super::prices::nano_usd;
use crate::bound::{self, Bound, INSTRUCTIONS_BYTES_MAX, OFFERS_MAX};
use crate::raw::{RawAgent, RawFile, RawLimits};
use crate::team::{Model, TeamTool};

impl Compiler<'_> {
    pub(super) fn agents(
        &mut self,
        team: Option<&Name>,
        raw: &RawFile,
        models: &BTreeMap<Name, Model>,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) -> BTreeMap<Name, Plan> {
        self.clashes(raw, tools);
        self.circles(&raw.agents);
        let named = self.named(
            "agents",
            raw.agents.iter().map(|(text, agent)| (text.clone(), agent)).collect(),
        );
        let offers: BTreeMap<Name, Offer> = named
            .iter()
            .map(|(name, agent)| {
                let timeout_ms = limits(&agent.limits, &raw.limits, None).deadline_ms;
                (name.clone(), self.offer_of(name, agent, timeout_ms))
            })
            .collect();
        let team_templates = self.templates(&[], &raw.prompts);
        let mut reported = BTreeSet::new();
        let mut plans = BTreeMap::new();
        let mut all_offers = BTreeMap::new();
        for (name, agent) in &named {
            let offers = self.offers(name, agent, tools, &offers);
            all_offers.insert(name.clone(), offers.clone());
            let permissions = self.permissions(name, &raw.permissions, &agent.permissions, &offers);
            let instructions = self.instructions(name, agent);
            let roles = self.roles(name, agent);
            self.continue_word(name, agent);
            let (Some(team), Some(Roles { thinker, planner, actor })) = (team, roles) else {
                continue;
            };
            let planner = planner.and_then(|name| asked(models, name));
            let mut plan = Plan {
                team: team.clone(),
                agent: name.clone(),
                description: agent.description.clone().unwrap_or_default(),
                instructions: instructions.unwrap_or_default(),
                thinker,
                planner,
                dialect: models.get(&actor).map_or(Dialect::Native, |model| model.dialect),
                actor,
                continue_word: agent.continue_word.clone(),
                coerce: agent.coerce.unwrap_or(true),
                tools: offers,
                limits: limits(&agent.limits, &raw.limits, None),
                prompts: Prompts::default(),
                form: Form::default(),
                permissions,
                prices: BTreeMap::new(),
                served: BTreeMap::new(),
                traces: Levels::default(),
                when_busy: agent.when_busy.unwrap_or_default(),
                keeps_unfinished: true,
                edition: wire::plan::EDITION,
            };
            let turns = plan.turn_models().filter_map(|model| chain_timeout_ms(model, models));
            plan.limits = limits(&agent.limits, &raw.limits, turns.max());
            self.when_busy(agent, &plan);
            if let Some(actor) = models.get(&plan.actor) {
                self.grammar_of_calls(&plan, actor);
            }
            plan.form = self.form(name, &agent.form, &plan);
            let own = self.templates(&["agents", name.as_str()], &agent.prompts);
            self.prompts(&mut plan, &team_templates, own, &mut reported);
            plans.insert(name.clone(), plan);
        }
        self.prices(&mut plans, models);
        self.rule_of_two(&raw.agents, &plans);
        self.team_permissions(raw, &all_offers);
        plans
    }

    fn offers(
        &mut self,
        name: &Name,
        agent: &RawAgent,
        tools: &mut BTreeMap<Name, TeamTool>,
        agents: &BTreeMap<Name, Offer>,
    ) -> Vec<Offer> {
        let path = ["agents", name.as_str()];
        let mut offers: Vec<Offer> = Vec::new();
        for (index, text) in self.listed(&path, "tools", &agent.tools) {
            let at = ["agents", name.as_str(), "tools", &index];
            if let Some(prefix) = text.strip_suffix('*') {
                self.offers_of_sources(prefix, &at, tools, &mut offers);
                continue;
            }
            let Some(tool) = self.tool_reference(&text, &at, tools) else { continue };
            if offers.iter().any(|offer| offer.spec.name == tool) {
                // A pattern before it has it.
            } else if let Some(tool) = tools.get(&tool) {
                offers.push(tool.offer.clone());
            } else if let Some(implied) =
                Self::implied(&tool).filter(|_| !self.document.has(&["tools", &text]))
            {
                offers.push(implied.offer.clone());
                tools.insert(tool, implied);
            }
        }
        for (index, text) in self.listed(&path, "agents", &agent.agents) {
            let at = ["agents", name.as_str(), "agents", &index];
            let Some(called) = self.reference("agents", &text, &at) else { continue };
            let Some(offer) = agents.get(&called) else { continue };
            if offer.spec.description.is_empty()
                && !self.document.has(&["agents", &text, "description"])
            {
                self.fault(
                    &["agents", &text],
                    format!("agent `{text}` lacks `description`, and agent `{name}` calls it"),
                    "add `description`: what the agent does, for those who call it",
                );
            }
            offers.push(offer.clone());
        }
        if offers.len() > OFFERS_MAX {
            self.fault(
                &path,
                format!(
                    "agent `{name}` may call {} tools and agents, at most {OFFERS_MAX} allowed",
                    offers.len()
                ),
                "share them out among several agents that it calls",
            );
        }
        offers
    }

    /// Returns the entries of a list with their indices, and reports those that are there twice.
    pub(super) fn listed(
        &mut self,
        path: &[&str; 2],
        field: &str,
        list: &[String],
    ) -> Vec<(String, String)> {
        let [table, name] = *path;
        let mut listed = Vec::new();
        for (index, text) in list.iter().enumerate() {
            let index = index.to_string();
            if list.iter().take(listed.len()).any(|earlier| earlier == text) {
                let message = format!("`{text}` is twice in `{field}` of `{table}.{name}`");
                self.fault(&[table, name, field, &index], message, "remove one of them");
            }
            listed.push((index, text.clone()));
        }
        listed
    }

    fn tool_reference(
        &mut self,
        text: &str,
        at: &[&str],
        tools: &mut BTreeMap<Name, TeamTool>,
    ) -> Option<Name> {
        let known = self.document.keys(&["tools"]);
        if known.contains(&text) || Builtin::from_name(text).is_some() || tools.contains_key(text) {
            return Name::new(text).ok();
        }
        let is_agent = self.document.has(&["agents", text]);
        let is_name = Name::new(text).is_ok();
        if is_name && !is_agent && self.may_come(text, &format!("`{text}` is no tool")) {
            return self.unlisted_tool(text, tools);
        }
        let help = if is_agent {
            format!("`{text}` is an agent: put it into `agents`")
        } else {
            let of_servers = tools.keys().map(Name::as_str).filter(|name| !known.contains(name));
            let mut names: Vec<&str> = known.iter().copied().chain(of_servers).collect();
            names.extend(Builtin::NAMES.iter().filter(|name| !tools.contains_key(**name)));
            self.advice(text, &names, "tools")
        };
        self.fault(at, format!("there is no tool `{text}`"), help);
        None
    }

    fn instructions(&mut self, name: &Name, agent: &RawAgent) -> Option<String> {
        let path = ["agents", name.as_str()];
        let [table, own] = path;
        let text = match (&agent.instructions, &agent.instructions_file) {
            (Some(_), Some(_)) => {
                let message =
                    format!("agent `{name}` has both `instructions` and `instructions_file`");
                self.fault_at_key(
                    &[table, own, "instructions_file"],
                    message,
                    "remove one of them",
                );
                return None;
            }
            (Some(text), None) => text.clone(),
            (None, Some(file)) => {
                self.read(&[table, own, "instructions_file"], file, INSTRUCTIONS_BYTES_MAX)?
            }
            (None, None) => {
                let broken = self.document.has(&[table, own, "instructions"])
                    || self.document.has(&[table, own, "instructions_file"]);
                if !broken {
                    let help = "add `instructions`, or `instructions_file` with a path";
                    self.fault(&path, format!("agent `{name}` lacks `instructions`"), help);
                }
                return None;
            }
        };
        if text.trim().is_empty() {
            self.fault(
                &path,
                format!("the instructions of agent `{name}` are empty"),
                "write what the agent is to do",
            );
        }
        Some(text)
    }

    /// Checks the word by which an agent goes on: it has to be found again in a text.
    fn continue_word(&mut self, name: &Name, agent: &RawAgent) {
        let Some(word) = &agent.continue_word else { return };
        // Only the task of a plan is carried out, so that no reply could go on.
        if agent.planner.is_some() {
            self.fault_at_key(
                &["agents", name.as_str(), "continue_word"],
                format!("agent `{name}` has both `planner` and `continue_word`"),
                "remove one of them: with a planner every step is planned",
            );
        }
        let is_word = word.contains(char::is_alphanumeric)
            && !word.contains(|c: char| c.is_whitespace() || c.is_control());
        if !is_word && !word.is_empty() {
            self.fault(
                &["agents", name.as_str(), "continue_word"],
                format!("`continue_word` {word:?} of agent `{name}` is not one word"),
                "write a word without spaces that no answer has, such as `CONTINUE`",
            );
        }
    }

    /// Checks that messages can join a run where an agent says that they do.
    fn when_busy(&mut self, agent: &RawAgent, plan: &Plan) {
        let name = plan.agent.as_str();
        if plan.when_busy == WhenBusy::Steer && plan.limits.queue_max == 0 {
            let at = match agent.limits.queue_max {
                Some(_) => vec!["agents", name, "limits", "queue_max"],
                None => vec!["limits", "queue_max"],
            };
            let message = format!(
                "messages join the runs of agent `{name}` (`when_busy`), but `queue_max` is 0"
            );
            self.fault(&at, message, "allow at least one, or write `when_busy = \"reject\"`");
        }
    }

    /// Resolves the models of an agent.
    fn roles(&mut self, name: &Name, agent: &RawAgent) -> Option<Roles> {
        let path = ["agents", name.as_str()];
        let [table, own] = path;
        let model = |compiler: &mut Self, field: &str, text: &Option<String>| {
            compiler.reference("models", text.as_deref()?, &[table, own, field])
        };
        let both = model(self, "model", &agent.model);
        let thinker = model(self, "thinker", &agent.thinker);
        let planner = model(self, "planner", &agent.planner);
        let actor = model(self, "actor", &agent.actor);
        let has = |field: &&str| self.document.has(&[table, own, *field]);
        let apart = ["actor", "planner", "thinker"].into_iter().find(has);
        let (has_model, has_actor) = (has(&"model"), has(&"actor"));
        let clashes = has(&"planner") && has(&"thinker");
        if let (true, Some(other)) = (has_model, apart) {
            self.fault_at_key(
                &[table, own, "model"],
                format!("agent `{name}` has both `model` and `{other}`"),
                "`model` stands for one model that does all; remove it, or remove `thinker`, `planner` and `actor`",
            );
        } else if !has_model && !has_actor {
            let help = "add `model`, or `actor` and if wanted `thinker` or `planner`";
            self.fault(
                &path,
                format!("agent `{name}` does not say which model makes its calls"),
                help,
            );
        }
        if clashes {
            self.fault_at_key(
                &[table, own, "planner"],
                format!("agent `{name}` has both `thinker` and `planner`"),
                "the planner stands in the thinker's place: remove one of them",
            );
        }
        Some(Roles { thinker, planner, actor: actor.or(both)? })
    }

    /// Reports names that stand for a tool and for an agent at once.
    fn clashes(&mut self, raw: &RawFile, tools: &BTreeMap<Name, TeamTool>) {
        let declared: Vec<String> =
            self.document.keys(&["tools"]).into_iter().map(str::to_owned).collect();
        for text in &declared {
            if raw.agents.contains_key(text) {
                let message = format!("`{text}` is the name of a tool and of an agent");
                self.fault_at_key(&["tools", text], message, "rename one of them");
            }
        }
        let listed = raw.agents.values().flat_map(|agent| &agent.tools);
        let implied = |text: &&String| {
            Builtin::from_name(text).is_some() && !tools.contains_key(text.as_str())
        };
        let mut clashing: Vec<&String> =
            listed.filter(implied).filter(|text| raw.agents.contains_key(*text)).collect();
        clashing.sort();
        clashing.dedup();
        for text in clashing.into_iter().filter(|text| !declared.contains(text)) {
            let message = format!(
                "`{text}` is the name of an agent and of a tool that comes with the runtime"
            );
            self.fault_at_key(&["agents", text], message, "rename the agent");
        }
    }

    /// Reports circles of agents in which none says `recursion = true`.
    fn circles(&mut self, agents: &BTreeMap<String, RawAgent>) {
        let calls: Calls = agents
            .iter()
            .filter(|(_, agent)| !agent.recursion)
            .map(|(name, agent)| (name.as_str(), agent.agents.iter().map(String::as_str).collect()))
            .collect();
        for circle in circles(&calls) {
            let [.., last, first] = circle.as_slice() else { continue };
            let index = agents
                .get(*last)
                .and_then(|agent| agent.agents.iter().position(|name| name == first));
            let message = format!("agents call each other in a circle: {}", circle.join(" -> "));
            let help = "remove a call, or write `recursion = true` on one of the agents; `depth_max` then bounds the circle";
            self.fault(
                &["agents", last, "agents", &index.unwrap_or_default().to_string()],
                message,
                help,
            );
        }
    }
}

/// The models of an agent, by the parts that they play.
struct Roles {
    thinker: Option<Name>,
    planner: Option<Name>,
    actor: Name,
}

/// Adds to a model how it is asked. A model that has faults of its own has been reported.
pub(super) fn asked(models: &BTreeMap<Name, Model>, name: Name) -> Option<AskedModel> {
    let dialect = models.get(&name)?.dialect;
    Some(AskedModel { model: name, dialect })
}

/// Fills the limits of an agent: its own, else the team's, else the runtime's.
fn limits(own: &RawLimits, team: &RawLimits, model_timeout_ms: Option<u64>) -> Limits {
    let small = |own: Option<u32>, team: Option<u32>, bound: Bound| {
        own.or(team).unwrap_or(u32::try_from(bound.default).unwrap_or(u32::MAX))
    };
    let large =
        |own: Option<u64>, team: Option<u64>, bound: Bound| own.or(team).unwrap_or(bound.default);
    Limits {
        steps_max: small(own.steps_max, team.steps_max, bound::STEPS_MAX),
        calls_per_step_max: small(
            own.calls_per_step_max,
            team.calls_per_step_max,
            bound::CALLS_PER_STEP_MAX,
        ),
        depth_max: small(own.depth_max, team.depth_max, bound::DEPTH_MAX),
        tokens_max: large(own.tokens_max, team.tokens_max, bound::TOKENS_MAX),
        reply_tokens_max: large(
            own.reply_tokens_max,
            team.reply_tokens_max,
            bound::REPLY_TOKENS_MAX,
        ),
        feedback_max: small(own.feedback_max, team.feedback_max, bound::FEEDBACK_MAX),
        resumes_max: small(own.resumes_max, team.resumes_max, bound::RESUMES_MAX),
        deadline_ms: large(own.deadline_ms, team.deadline_ms, bound::DEADLINE_MS),
        model_timeout_ms: own
            .model_timeout_ms
            .or(team.model_timeout_ms)
            .or(model_timeout_ms)
            .unwrap_or(bound::MODEL_TIMEOUT_MS.default),
        queue_max: small(own.queue_max, team.queue_max, bound::SESSION_QUEUE_MAX),
        history_messages_max: small(
            own.history_messages_max,
            team.history_messages_max,
            bound::HISTORY_MESSAGES_MAX,
        ),
        history_tokens_max: Some(large(
            own.history_tokens_max,
            team.history_tokens_max,
            bound::HISTORY_TOKENS_MAX,
        )),
        approval_timeout_ms: large(
            own.approval_timeout_ms,
            team.approval_timeout_ms,
            bound::APPROVAL_TIMEOUT_MS,
        ),
        calls_max: large(own.calls_max, team.calls_max, bound::CALLS_MAX),
        repeats_max: small(own.repeats_max, team.repeats_max, bound::REPEATS_MAX),
        cost_max_nano_usd: own.cost_max.or(team.cost_max).map(nano_usd),
    }
}
