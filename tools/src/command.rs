//! Tools that are programs of the machine: no shell, and within a sandbox unless it is refused.
//!
//! A call starts the program once. Its arguments come from a template, its input is JSON, and what
//! it writes to its output is the result.

mod fill;
mod launcher;
mod outcome;
mod process;
mod sandbox;
mod swap;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use wire::{CallOutcome, EffectClass, ErrorCode, ToolReply};

use crate::Template;
use crate::secret::SecretRef;
use crate::template::{declared, json_texts};
use crate::tool::{Tool, ToolContext};
use launcher::Start;

pub use fill::ARGV_BYTES_MAX;
pub use launcher::Launcher;
pub use process::STOP_GRACE;
pub use swap::{Opening, check_openings};

/// Variables that the runtime sets, or that would reach the programs which make the sandbox.
const RESERVED: [&str; 3] = [IDEMPOTENCY_KEY, TRACEPARENT, "GLIBC_TUNABLES"];

/// The variable that holds the key of the call.
const IDEMPOTENCY_KEY: &str = "CALLBOARD_IDEMPOTENCY_KEY";

/// The variable that holds the span of the call.
const TRACEPARENT: &str = "TRACEPARENT";

/// A program and how it is started. `{name}` in a text stands for the argument of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments. Each stays one argument whatever is put into it; one whose
    /// argument is absent or null is left out.
    pub argv: Vec<String>,
    /// The file of the program where the team file names a path.
    pub program: Option<PathBuf>,
    /// What the program reads.
    pub stdin: Stdin,
    /// The variables of the program, beside those that every program gets.
    pub env: Vec<(String, EnvSource)>,
    /// The folder in which the program works; a temporary one of the call if absent.
    pub workdir: Option<PathBuf>,
    /// What the program sees of the machine.
    pub sandbox: Sandbox,
    /// What the program may use.
    pub limits: Limits,
    /// Bytes of the output that are kept; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
}

/// What a program reads from its standard input.
#[derive(Clone, Debug, PartialEq)]
pub enum Stdin {
    /// Nothing.
    Nothing,
    /// All arguments, as a JSON object.
    Arguments,
    /// A JSON value in which a text that is exactly `{name}` becomes the argument itself. Members
    /// and items whose argument is absent are left out.
    Json(Value),
    /// A text, with `{name}` for arguments; an absent one is nothing.
    Text(String),
}

/// Where the value of a variable comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvSource {
    /// The team file.
    Text(String),
    /// A secret, after a fixed text.
    Secret {
        /// What stands before the secret.
        prefix: String,
        /// The secret.
        secret: SecretRef,
    },
}

/// What a program sees of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// The programs and libraries of the machine, a folder to work in, and what is named here.
    Bubblewrap {
        /// Whether it has the network of the machine; none if not.
        network: bool,
        /// Files and folders that it may read.
        read: Vec<PathBuf>,
        /// Files and folders that it may read and write.
        write: Vec<PathBuf>,
    },
    /// All that the daemon sees.
    None,
}

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of each process.
    pub memory_bytes: u64,
    /// Processes and threads at once; without a sandbox there is no such limit.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Bytes of a file, and of all files in the temporary folder.
    pub file_bytes: u64,
}

impl CommandSpec {
    /// Returns what may be repeated where the team file says nothing.
    pub fn effect(&self) -> EffectClass {
        EffectClass::Once
    }

    /// Tells whether the program reaches servers, on the network or on the machine itself.
    pub fn reaches_network(&self) -> bool {
        match self.sandbox {
            Sandbox::Bubblewrap { network, .. } => network,
            Sandbox::None => true,
        }
    }

    /// Returns the faults of the templates, also against the JSON Schema of the parameters.
    pub fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        match self.argv.first() {
            None => faults.push("argv is empty; its first text is the program".to_owned()),
            Some(program) if program.trim().is_empty() => {
                faults.push("argv names no program".to_owned());
            }
            Some(program) if Template::parse(program).names().next().is_some() => {
                faults.push("the program itself cannot be an argument of the call".to_owned());
            }
            Some(_) => {}
        }
        for text in self.argv.iter().filter(|text| text.contains('\0')) {
            faults.push(format!("{text:?} of argv contains a NUL"));
        }
        let fixed: usize = self.argv.iter().map(|text| text.len() + 1).sum();
        if fixed > ARGV_BYTES_MAX {
            faults.push(format!("argv has {fixed} bytes, more than {ARGV_BYTES_MAX}"));
        }
        faults.extend(self.env.iter().filter_map(|(name, source)| env_fault(name, source)));
        let (known, used) = (declared(parameters), self.names());
        for name in used.iter().filter(|name| !known.contains(name.as_str())) {
            faults.push(format!("{{{name}}} stands for a parameter that is not declared"));
        }
        if self.stdin != Stdin::Arguments {
            for name in known.into_iter().filter(|name| !used.contains(*name)) {
                faults.push(format!("parameter {name:?} appears neither in argv nor in stdin"));
            }
        }
        faults
    }

    /// Returns the names of all arguments in the templates.
    fn names(&self) -> BTreeSet<String> {
        let mut texts: Vec<&str> = self.argv.iter().map(String::as_str).collect();
        match &self.stdin {
            Stdin::Nothing | Stdin::Arguments => {}
            Stdin::Json(value) => json_texts(value, &mut texts),
            Stdin::Text(text) => texts.push(text),
        }
        let templates: Vec<Template> = texts.into_iter().map(Template::parse).collect();
        templates.iter().flat_map(Template::names).map(str::to_owned).collect()
    }
}

fn env_fault(name: &str, source: &EnvSource) -> Option<String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(letters) || name.starts_with(|c: char| c.is_numeric()) {
        return Some(format!("{name:?} is no name of an environment variable"));
    }
    if RESERVED.contains(&name) || name.starts_with("LD_") {
        return Some(format!(
            "variable {name} is set by the runtime, or would reach the sandbox itself; leave it out"
        ));
    }
    match source {
        EnvSource::Text(text) if text.contains('\0') => {
            Some(format!("the value of variable {name} contains a NUL"))
        }
        EnvSource::Text(_) | EnvSource::Secret { .. } => None,
    }
}

/// A tool that starts a program.
///
/// Every program is given the call's key and its span in its environment. One that did not end by
/// itself is lost: nobody knows how far it came.
pub struct CommandTool {
    spec: CommandSpec,
    /// How the program is started, or why it cannot be.
    start: Result<Start, String>,
}

impl CommandTool {
    /// Makes the tool; one that cannot be started answers every call with the reason.
    pub fn new(spec: CommandSpec, launcher: &Arc<Launcher>) -> Self {
        let start = launcher.start(&spec);
        Self { spec, start }
    }

    async fn perform(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let unavailable = |why: &str| {
            ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, why.to_owned()))
        };
        let start = match &self.start {
            Ok(start) => start,
            Err(why) => return unavailable(why),
        };
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        let filled = match fill::fill(&self.spec, context, arguments) {
            Ok(filled) => filled,
            Err(outcome) => return ToolReply::settled(outcome),
        };
        let job = match start.job(filled.argv, filled.env, filled.stdin, &self.spec) {
            Ok(job) => job,
            Err(error) => return unavailable(&format!("make the folder of the call: {error}")),
        };
        let stop = CancellationToken::new();
        // The processes have a keeper of their own, which ends them also if this future is dropped.
        let _stops = stop.clone().drop_guard();
        let mut kept = tokio::spawn(process::run(job, stop.clone(), context.hop.clone()));
        let time = context.answer_time();
        let ended = tokio::select! {
            ended = &mut kept => ended,
            () = context.stop.cancelled() => { stop.cancel(); kept.await }
            () = sleep(time) => { stop.cancel(); kept.await }
        };
        match ended {
            Ok(Ok(ended)) => {
                let code = ended.status.and_then(|status| status.code());
                context.hop.note(|report| report.exit_code = code);
                outcome::reply(&self.spec, &ended, time)
            }
            Ok(Err(error)) => unavailable(&format!("start {}: {error}", start.program())),
            Err(error) => {
                let text = format!("the keeper of the processes ended: {error}");
                ToolReply::lost(ErrorCode::Internal, text)
            }
        }
    }
}

impl Tool for CommandTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.perform(context, arguments))
    }

    fn stop_grace(&self) -> Duration {
        STOP_GRACE
    }
}
