//! The texts that a team sets itself, and the words of dialect `json`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use agents_core::dialect::{TextFault, text_faults};
use wire::plan::{Audience, Dialect, Form, Prompts, Text};
use wire::{ErrorCode, Name, Plan};

use super::{ANSWER, Compiler};
use crate::bound::PROMPT_BYTES_MAX;
use crate::raw::{RawForm, RawPrompts, RawText};

/// Keys that the runtime's own messages have beside those of the form.
const TAKEN: [&str; 3] = ["type", "result", "error"];

/// Templates of a team file, by the text that they stand for.
pub(super) type Templates = BTreeMap<(Audience, Text), Template>;

/// One template, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Template {
    source: String,
    path: Vec<String>,
    /// The file that holds it, as the report knows it; absent if it is the team file.
    file: Option<usize>,
}

impl Compiler<'_> {
    /// Reads the templates of a table `prompts`.
    pub(super) fn templates(&mut self, above: &[&str], raw: &RawPrompts) -> Templates {
        let mut templates = BTreeMap::new();
        for audience in Audience::ALL {
            for text in Text::ALL {
                let Some(written) = raw.get(audience, text) else { continue };
                let path = [above, &["prompts", audience.as_str(), text.as_str()]].concat();
                if !audience.is_told(text) {
                    let [reader, text] = [audience.as_str(), text.as_str()];
                    let message = format!("`{text}` is never told to `{reader}`");
                    let help = "remove it; config/README.md says who is told which text";
                    self.fault_at_key(&path, message, help);
                }
                if let Some(template) = self.template(&path, written) {
                    templates.insert((audience, text), template);
                }
            }
        }
        templates
    }

    fn template(&mut self, path: &[&str], written: &RawText) -> Option<Template> {
        let owned = path.iter().map(|&step| step.to_owned()).collect();
        match written {
            RawText::Template(source) => {
                Some(Template { source: source.clone(), path: owned, file: None })
            }
            RawText::File(named) => {
                let at = [path, &["file"]].concat();
                let source = self.read(&at, &named.file, PROMPT_BYTES_MAX)?;
                let file = Some(self.report.add_source(&self.path_of(&named.file), &source));
                Some(Template { source, path: owned, file })
            }
        }
    }

    /// Gives a plan its texts and tries them. Each template is reported on once, however many
    /// agents use it.
    pub(super) fn prompts(
        &mut self,
        plan: &mut Plan,
        team: &Templates,
        own: Templates,
        reported: &mut BTreeSet<Vec<String>>,
    ) {
        self.idle_texts(plan, &own);
        let mut templates = team.clone();
        templates.extend(own);
        let mut prompts = Prompts::default();
        for ((audience, text), template) in &templates {
            prompts.of_mut(*audience).insert(*text, template.source.clone());
        }
        plan.prompts = prompts;
        if plan.prompts.is_empty() {
            return;
        }
        for fault in text_faults(&Arc::new(plan.clone())) {
            let Some(template) = templates.get(&(fault.audience, fault.text)) else { continue };
            if reported.insert(template.path.clone()) {
                self.text_fault(template, &fault);
            }
        }
    }

    /// Reports texts that an agent sets and never uses.
    fn idle_texts(&mut self, plan: &Plan, own: &Templates) {
        for ((audience, text), template) in own {
            let path: Vec<&str> = template.path.iter().map(String::as_str).collect();
            let agent = &plan.agent;
            if !audience.is_of(plan) {
                let (has, instead) = match audience {
                    Audience::Thinker if plan.planner.is_none() => ("no thinker", "`actor`"),
                    Audience::Thinker => ("a planner and no thinker", "`planner`"),
                    Audience::Actor => ("a planner", "`task` or `answer`"),
                    Audience::Planner | Audience::Task | Audience::Answer => {
                        ("no planner", "`thinker` or `actor`")
                    }
                };
                let message = format!("agent `{agent}` has {has}, so this text is never used");
                self.fault_at_key(&path, message, format!("remove it, or set it for {instead}"));
            } else if (*audience, *text, plan.dialect)
                == (Audience::Actor, Text::Call, Dialect::Native)
            {
                self.fault_at_key(
                    &path,
                    "dialect native shows calls by the provider's own means, so this text is never used",
                    "remove it, or choose another dialect for the model",
                );
            }
        }
    }

    fn text_fault(&mut self, template: &Template, fault: &TextFault) {
        let path: Vec<&str> = template.path.iter().map(String::as_str).collect();
        let help = "config/README.md lists what each text may name".to_owned();
        let message = format!("text `{}`: {}", path.join("."), fault.message);
        let code = ErrorCode::ConfigInvalid;
        if let Some(file) = template.file {
            self.report.add_in(file, code, fault.span.clone(), message, help);
            return;
        }
        let value = self.span(&path);
        let within = value.clone().zip(fault.span.clone()).and_then(|(value, span)| {
            // A text with escapes stands otherwise in the file than it is.
            let start = value.start + self.report.text().get(value)?.find(&template.source)?;
            Some(start + span.start..start + span.end)
        });
        let line = |span: &Range<usize>| {
            let before = template.source.get(..span.start).unwrap_or_default();
            before.matches('\n').count() + 1
        };
        let message = match (&within, &fault.span) {
            (None, Some(span)) => format!("{message}, in line {} of the text", line(span)),
            (Some(_), _) | (None, None) => message,
        };
        self.report.add_in(0, code, within.or(value), message, help);
    }

    /// Fills the words of dialect `json`.
    pub(super) fn form(&mut self, name: &Name, raw: &RawForm, plan: &Plan) -> Form {
        let path = ["agents", name.as_str(), "form"];
        let [table, own, form] = path;
        let standard = Form::default();
        if !self.document.has(&path) {
            return standard;
        }
        if plan.dialect != Dialect::Json {
            let message = format!("`form` is for dialect json, and agent `{name}` has another");
            self.fault_at_key(
                &path,
                message,
                "remove it, or write `dialect = \"json\"` for the model",
            );
        }
        let flat = raw.flat == Some(true);
        if flat && raw.action.is_some() {
            let message = "`action` has no place in a flat form";
            self.fault_at_key(&[table, own, form, "action"], message, "remove it, or `flat`");
        }
        let word = |written: &Option<String>, standard: String| written.clone().unwrap_or(standard);
        let action = standard.action.map(|action| word(&raw.action, action));
        let form = Form {
            thought: word(&raw.thought, standard.thought),
            action: action.filter(|_| !flat),
            function: word(&raw.function, standard.function),
            arguments: word(&raw.arguments, standard.arguments),
            ending: word(&raw.ending, standard.ending),
            answer: word(&raw.answer, standard.answer),
            success: word(&raw.success, standard.success),
            error: word(&raw.error, standard.error),
        };
        self.words(&path, &form, plan);
        form
    }

    /// Reports words that would stand for two things at once.
    fn words(&mut self, path: &[&str], form: &Form, plan: &Plan) {
        let outer = form.action.as_ref().map(|action| ("action", action));
        let mut keys = vec![("thought", &form.thought)];
        keys.extend(outer);
        keys.extend([("function", &form.function), ("arguments", &form.arguments)]);
        for (index, (field, word)) in keys.iter().enumerate() {
            let at = [path, &[*field]].concat();
            if TAKEN.contains(&word.as_str()) {
                let message = format!("`{word}` is a key of the runtime's own messages");
                self.fault(&at, message, "choose another word");
            } else if keys.iter().take(index).any(|(_, earlier)| earlier == word) {
                self.fault(
                    &at,
                    format!("`{word}` is the key of two things"),
                    "choose another word",
                );
            }
        }
        if form.success == form.error {
            let message = format!("`{}` tells results and faults alike", form.error);
            self.fault(&[path, &["error"]].concat(), message, "choose another word");
        }
        if form.ending != ANSWER && plan.offer(&form.ending).is_some() {
            let message =
                format!("`{}` is a tool or an agent that this agent may call", form.ending);
            self.fault(&[path, &["ending"]].concat(), message, "choose another word");
        }
    }
}
