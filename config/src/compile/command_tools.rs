//! The tools of a team that are programs of the machine.

use std::path::PathBuf;

use tools::ToolKind;
use tools::command::{CommandSpec, EnvSource, Limits, Sandbox, Stdin};
use wire::{Name, ToolSpec};

use super::Compiler;
use super::tools::{concurrency, offer};
use crate::bound::{
    COMMAND_FILE_BYTES_MAX, COMMAND_MEMORY_BYTES_MAX, COMMAND_OPEN_FILES_MAX,
    COMMAND_PROCESSES_MAX, RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS,
};
use crate::raw::{RawSandbox, RawTool, RawValue};
use crate::team::TeamTool;

/// Fields that say what a sandbox lets in, and what only a sandbox can limit.
const SANDBOX_FIELDS: [&str; 4] = ["network", "read", "write", "processes_max"];

impl Compiler<'_> {
    pub(super) fn command_tool(&mut self, name: &Name, mut raw: RawTool) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [table, own] = path;
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description.take(), what);
        let argv = self.argv(&path, raw.argv.take());
        let stdin = match raw.stdin.take() {
            Some(stdin) => self.stdin(&path, stdin),
            None => Some(Stdin::Arguments),
        };
        let mut env = Vec::new();
        for (variable, value) in raw.env.take().unwrap_or_default() {
            let source = match value {
                RawValue::Text(text) => Some(EnvSource::Text(text)),
                RawValue::Secret(secret) => self
                    .secret_value(
                        &[table, own, "env", &variable],
                        &format!("variable `{variable}`"),
                        secret,
                    )
                    .map(|(prefix, secret)| EnvSource::Secret { prefix, secret }),
            };
            env.extend(source.map(|source| (variable, source)));
        }
        let sandbox = self.sandbox(&path, &mut raw);
        let written = raw.parameters.take().unwrap_or_default();
        let parameters = self.object_schema(&path, "parameters", &written);
        let workdir = raw.workdir.take().map(|path| self.path_of(&path));
        let argv = argv?;
        let program = argv.first().filter(|program| program.contains('/'));
        let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
        let spec = CommandSpec {
            program: program.map(|program| self.path_of(program)),
            argv,
            stdin: stdin?,
            env,
            workdir,
            sandbox,
            limits: limits(&raw),
            response_bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let parameters = parameters?;
        for fault in spec.check(&parameters) {
            let message = format!("tool `{name}`: {fault}");
            self.fault_at_key(&path, message, "change the command, or `parameters`");
        }
        let effect = raw.effect.unwrap_or_else(|| spec.effect());
        let spec_of_tool = ToolSpec { name: name.clone(), description: description?, parameters };
        Some(TeamTool {
            offer: offer(spec_of_tool, effect, raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default)),
            kind: ToolKind::Command(spec),
            concurrency: raw.concurrency.unwrap_or_else(concurrency),
        })
    }

    fn argv(&mut self, path: &[&str; 2], argv: Option<Vec<String>>) -> Option<Vec<String>> {
        let [table, own] = *path;
        // One that is there but not of its shape has been reported.
        if argv.is_none() && !self.document.has(&[table, own, "argv"]) {
            let help =
                "add `argv = [\"program\", \"--option\", \"{parameter}\"]`; no shell reads it";
            self.fault(path, format!("`{table}.{own}` lacks `argv`"), help);
        }
        argv
    }

    fn sandbox(&mut self, path: &[&str; 2], raw: &mut RawTool) -> Sandbox {
        let paths = |written: Option<Vec<String>>| -> Vec<PathBuf> {
            written.unwrap_or_default().iter().map(|path| self.path_of(path)).collect()
        };
        let (read, write) = (paths(raw.read.take()), paths(raw.write.take()));
        match raw.sandbox.unwrap_or(RawSandbox::Bubblewrap) {
            RawSandbox::Bubblewrap => {
                Sandbox::Bubblewrap { network: raw.network.unwrap_or(false), read, write }
            }
            RawSandbox::None => {
                self.foreign_fields(path, &SANDBOX_FIELDS, "`sandbox = \"bubblewrap\"`");
                Sandbox::None
            }
        }
    }
}

fn limits(raw: &RawTool) -> Limits {
    Limits {
        memory_bytes: raw.memory_bytes_max.unwrap_or(COMMAND_MEMORY_BYTES_MAX.default),
        processes: raw.processes_max.unwrap_or(COMMAND_PROCESSES_MAX.default),
        open_files: raw.open_files_max.unwrap_or(COMMAND_OPEN_FILES_MAX.default),
        file_bytes: raw.file_bytes_max.unwrap_or(COMMAND_FILE_BYTES_MAX.default),
    }
}
