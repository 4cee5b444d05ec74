//! What stands in the fields of tools: bodies, inputs and secrets.

use std::collections::BTreeMap;

use tools::SecretRef;
use tools::client::Allowed;
use tools::command::Stdin;
use tools::http::{BodyTemplate, FieldSource, NextPage, Pages, QueryField, QueryStyle};

use super::Compiler;
use crate::raw::{RawBody, RawBodyForm, RawBodyWord, RawSecret, RawStdin, RawStdinWord, RawValue};

/// How a table writes that answers have pages.
pub(super) struct WrittenPages {
    pub(super) pages_max: Option<u32>,
    pub(super) next: Option<String>,
    pub(super) parameter: Option<String>,
    pub(super) items: Option<String>,
}

impl Compiler<'_> {
    pub(super) fn body(&mut self, path: &[&str; 2], body: RawBody) -> Option<BodyTemplate> {
        let [table, own] = *path;
        match body {
            RawBody::Word(RawBodyWord::Arguments) => Some(BodyTemplate::Arguments),
            RawBody::Form(RawBodyForm { json: Some(json), text: None }) => {
                Some(BodyTemplate::Json(json))
            }
            RawBody::Form(RawBodyForm { json: None, text: Some(text) }) => {
                Some(BodyTemplate::Text(text))
            }
            RawBody::Form(_) => {
                let help = "write `\"arguments\"`, `{ json = .. }` or `{ text = \"..\" }`";
                self.fault(&[table, own, "body"], "a body is either `json` or `text`", help);
                None
            }
        }
    }

    /// Reads headers or query parameters, each a text or a secret.
    pub(super) fn field_sources(
        &mut self,
        path: &[&str; 2],
        field: &str,
        raw: BTreeMap<String, RawValue>,
    ) -> Vec<(String, FieldSource)> {
        let [table, own] = *path;
        let mut sources = Vec::new();
        for (name, value) in raw {
            let source = match value {
                RawValue::Text(text) => Some(FieldSource::Template(text)),
                RawValue::Secret(secret) => {
                    let at = [table, own, field, &name];
                    let what = if field == "headers" { "header" } else { "query parameter" };
                    let secret = self.secret_value(&at, &format!("{what} `{name}`"), secret);
                    secret.map(|(prefix, secret)| FieldSource::Secret { prefix, secret })
                }
            };
            sources.extend(source.map(|source| (name, source)));
        }
        sources
    }

    pub(super) fn query_fields(
        &mut self,
        path: &[&str; 2],
        raw: BTreeMap<String, RawValue>,
    ) -> Vec<QueryField> {
        let fields = self.field_sources(path, "query", raw).into_iter();
        let style = QueryStyle::default();
        fields.map(|(name, source)| QueryField { name, source, style }).collect()
    }

    /// Reads how answers go on, if more than one page of them is wanted.
    pub(super) fn pages(&mut self, path: &[&str; 2], written: WrittenPages) -> Option<Pages> {
        let [table, own] = *path;
        let WrittenPages { pages_max, next, parameter, items } = written;
        if pages_max.is_none_or(|pages| pages == 1) {
            for field in ["next", "next_parameter", "items"] {
                if self.document.has(&[table, own, field]) {
                    let message = format!("`{field}` is for more than one page");
                    let help = "add `pages_max`, or remove it";
                    self.fault_at_key(&[table, own, field], message, help);
                }
            }
            return None;
        }
        if let (Some(_), None) = (&parameter, &next) {
            let message = "`next_parameter` says where to put what `next` points to";
            let help = "add `next`, such as \"/meta/next_token\"";
            self.fault_at_key(&[table, own, "next_parameter"], message, help);
        }
        let next = match next {
            Some(pointer) => NextPage::Field { pointer, parameter },
            None => NextPage::Link,
        };
        let pages = Pages { pages_max: pages_max.unwrap_or(1), next, items };
        for (field, fault) in pages.pointer_faults() {
            self.fault(&[table, own, field], fault, "such as \"/meta/next\"");
        }
        Some(pages)
    }

    /// Reads what may be reached besides public addresses.
    pub(super) fn allowed(&mut self, path: &[&str; 2], texts: Option<&[String]>) -> Allowed {
        let [table, own] = *path;
        let allowed = Allowed::parse(texts.unwrap_or_default());
        allowed.unwrap_or_else(|faults| {
            for (index, fault) in faults {
                let help = "such as `name`, `name:8080`, `10.1.2.3` or `10.0.0.0/8`";
                self.fault(&[table, own, "allow_hosts", &index.to_string()], fault, help);
            }
            Allowed::default()
        })
    }

    pub(super) fn stdin(&mut self, path: &[&str; 2], stdin: RawStdin) -> Option<Stdin> {
        let [table, own] = *path;
        match stdin {
            RawStdin::Word(RawStdinWord::Arguments) => Some(Stdin::Arguments),
            RawStdin::Word(RawStdinWord::None) => Some(Stdin::Nothing),
            RawStdin::Form(RawBodyForm { json: Some(json), text: None }) => Some(Stdin::Json(json)),
            RawStdin::Form(RawBodyForm { json: None, text: Some(text) }) => Some(Stdin::Text(text)),
            RawStdin::Form(_) => {
                let help =
                    "write `\"arguments\"`, `\"none\"`, `{ json = .. }` or `{ text = \"..\" }`";
                self.fault(&[table, own, "stdin"], "an input is either `json` or `text`", help);
                None
            }
        }
    }

    /// Takes a secret and what stands before it; `what` names in a sentence whose value it is.
    pub(super) fn secret_value(
        &mut self,
        at: &[&str],
        what: &str,
        secret: RawSecret,
    ) -> Option<(String, SecretRef)> {
        let (env, file) = (secret.env.as_deref(), secret.file.as_deref());
        if env.is_none() && file.is_none() {
            let help = "add `env = \"VARIABLE\"` or `file = \"path\"`, or write a text";
            self.fault(at, format!("{what} does not say where its secret is"), help);
        }
        let secret_ref = self.secret(at, ["env", "file"], env, file)?;
        Some((secret.prefix.unwrap_or_default(), secret_ref))
    }
}
