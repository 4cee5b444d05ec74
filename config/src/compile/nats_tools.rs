//! The tools of a team that are requests on subjects of NATS.

use tools::ToolKind;
use tools::http::{BodyTemplate, HeaderSource};
use tools::nats::NatsSpec;
use wire::{Name, ToolSpec};

use super::Compiler;
use super::tools::{concurrency, offer};
use crate::bound::{RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS};
use crate::raw::{RawTool, RawValue};
use crate::team::TeamTool;

impl Compiler<'_> {
    pub(super) fn nats_tool(&mut self, name: &Name, raw: RawTool) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description, what);
        let what = "where is asked, such as `orders.{id}.show`";
        let subject = self.needed(&path, "subject", raw.subject, what);
        let written = raw.parameters.unwrap_or_default();
        let parameters = self.object_schema(&path, "parameters", &written);
        let headers = self.headers(&path, raw.headers.unwrap_or_default());
        let body = match raw.body {
            Some(body) => self.body(&path, body),
            None => Some(BodyTemplate::Arguments),
        };
        let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
        let spec = NatsSpec {
            source: None,
            subject: subject?,
            headers,
            body: body?,
            response_bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let parameters = parameters?;
        for fault in spec.check(&parameters) {
            let message = format!("tool `{name}`: {fault}");
            self.fault_at_key(&path, message, "change the request template, or `parameters`");
        }
        let effect = raw.effect.unwrap_or_else(|| spec.effect());
        let spec_of_tool = ToolSpec { name: name.clone(), description: description?, parameters };
        Some(TeamTool {
            offer: offer(spec_of_tool, effect, raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default)),
            kind: ToolKind::Nats(spec),
            concurrency: raw.concurrency.unwrap_or_else(concurrency),
        })
    }

    /// Takes the headers of a request.
    pub(super) fn headers(
        &mut self,
        path: &[&str; 2],
        headers: impl IntoIterator<Item = (String, RawValue)>,
    ) -> Vec<(String, HeaderSource)> {
        let [table, own] = *path;
        let headers = headers.into_iter().filter_map(|(header, value)| {
            let value = match value {
                RawValue::Text(text) => HeaderSource::Template(text),
                RawValue::Secret(secret) => {
                    let at = [table, own, "headers", &header];
                    let (prefix, secret) =
                        self.secret_value(&at, &format!("header `{header}`"), secret)?;
                    HeaderSource::Secret { prefix, secret }
                }
            };
            Some((header, value))
        });
        headers.collect()
    }
}
