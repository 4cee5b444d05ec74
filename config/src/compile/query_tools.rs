//! The tools of a team that are statements on a database.

use serde_json::{Map, Value};
use tools::ToolKind;
use tools::query::{QueryPart, QuerySpec};
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use super::databases::Databases;
use super::tools::{concurrency, offer};
use crate::bound::{QUERY_ROWS_MAX, RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS};
use crate::raw::RawTool;
use crate::team::TeamTool;

impl Compiler<'_> {
    pub(super) fn query_tool(
        &mut self,
        name: &Name,
        raw: RawTool,
        databases: &Databases,
    ) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [table, own] = path;
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description, what);
        let database = self.needed(&path, "database", raw.database, "the database of the team");
        let at = [table, own, "database"];
        let database = database.and_then(|text| self.reference("databases", &text, &at));
        let statements = self.statements(&path, raw.statement, raw.statements);
        let written = raw.parameters.unwrap_or_default();
        let parameters = self.object_schema(&path, "parameters", &written)?;
        let properties = parameters.get("properties").and_then(Value::as_object);
        let size = |given: Option<u64>, bound: crate::bound::Bound| {
            usize::try_from(given.unwrap_or(bound.default)).unwrap_or(usize::MAX)
        };
        let effect = raw.effect.unwrap_or(EffectClass::Read);
        let spec = QuerySpec {
            database: database?,
            statements: statements?,
            parameters: properties.into_iter().flat_map(Map::keys).cloned().collect(),
            result: raw.result,
            effect,
            rows_max: size(raw.rows_max, QUERY_ROWS_MAX),
            response_bytes_max: size(raw.response_bytes_max, RESPONSE_BYTES_MAX),
        };
        // A database that is not among them has faults of its own, which have been reported.
        if let Some((_, trial)) = databases.get(&spec.database) {
            for fault in spec.check(&**trial) {
                let message = format!("tool `{name}`: {}", fault.message);
                self.query_fault(&path, fault.part, message, &fault.help);
            }
        }
        let spec_of_tool = ToolSpec { name: name.clone(), description: description?, parameters };
        let timeout_ms = raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default);
        Some(TeamTool {
            offer: offer(spec_of_tool, effect, timeout_ms),
            kind: ToolKind::Query(spec),
            concurrency: raw.concurrency.unwrap_or_else(concurrency),
        })
    }

    fn statements(
        &mut self,
        path: &[&str; 2],
        one: Option<String>,
        several: Option<Vec<String>>,
    ) -> Option<Vec<String>> {
        let [table, own] = *path;
        let [has_one, has_several] =
            ["statement", "statements"].map(|field| self.document.has(&[table, own, field]));
        match (has_one, has_several) {
            (true, true) => {
                let message = format!("tool `{own}` has `statement` and `statements`");
                self.fault_at_key(&[table, own, "statement"], message, "put it into the list");
                None
            }
            (false, true) => several,
            (true | false, false) => {
                let what =
                    "an SQL statement with `:name` for arguments, or several in `statements`";
                self.needed(path, "statement", one, what).map(|statement| vec![statement])
            }
        }
    }

    fn query_fault(&mut self, path: &[&str; 2], part: QueryPart, message: String, help: &str) {
        let [table, own] = *path;
        match part {
            QueryPart::Statement(index) if self.document.has(&[table, own, "statements"]) => {
                self.fault(&[table, own, "statements", &index.to_string()], message, help);
            }
            QueryPart::Statement(_) => self.fault(&[table, own, "statement"], message, help),
            QueryPart::Result => self.fault(&[table, own, "result"], message, help),
            QueryPart::Parameters => {
                self.fault_at_key(&[table, own, "parameters"], message, help);
            }
        }
    }
}
