//! Makes the arguments, the input and the environment of one call.

use std::ffi::OsString;

use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use wire::{CallOutcome, ErrorCode};

use super::{CommandSpec, EnvSource, IDEMPOTENCY_KEY, Stdin, TRACEPARENT};
use crate::argument::invalid;
use crate::template::{Template, fill_json, present};
use crate::tool::ToolContext;

/// Bytes of all arguments of a program together. Linux takes as many in one argument; larger texts
/// go by standard input.
pub const ARGV_BYTES_MAX: usize = 128 * 1024 - 1;

/// The argument after which no other is an option, by convention of most programs.
const END_OF_OPTIONS: &str = "--";

/// What one call is started with.
#[derive(Debug)]
pub(super) struct Filled {
    /// The arguments without the program.
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) stdin: Vec<u8>,
}

/// Fills in the arguments of a call, or says how the call ends because they cannot be.
pub(super) fn fill(
    spec: &CommandSpec,
    context: &ToolContext,
    arguments: &Map<String, Value>,
) -> Result<Filled, CallOutcome> {
    let env = env(spec, context)?;
    Ok(Filled { argv: argv(spec, arguments)?, env, stdin: stdin(&spec.stdin, arguments) })
}

fn argv(spec: &CommandSpec, arguments: &Map<String, Value>) -> Result<Vec<String>, CallOutcome> {
    let mut argv = Vec::new();
    let mut options = true;
    let mut bytes = 0;
    for text in spec.argv.iter().skip(1) {
        let template = Template::parse(text);
        let Ok(filled) = template.fill_plain(arguments) else { continue };
        let written_first = template.literal_start();
        if options && !written_first && filled.starts_with('-') && is_text(&template, arguments) {
            let name = template.names().next().unwrap_or_default();
            return Err(invalid(format!(
                "argument {name:?} begins with \"-\", so the program would take it for an option"
            )));
        }
        if filled.contains('\0') {
            return Err(invalid(format!("the argument made of {text:?} would contain a NUL")));
        }
        options &= filled != END_OF_OPTIONS;
        bytes += filled.len() + 1;
        argv.push(filled);
    }
    if bytes > ARGV_BYTES_MAX {
        let message = format!("the arguments have {bytes} bytes, more than {ARGV_BYTES_MAX}");
        return Err(invalid(message));
    }
    Ok(argv)
}

/// Tells whether the first place of a template is filled by a text; a number is no option.
fn is_text(template: &Template, arguments: &Map<String, Value>) -> bool {
    let first = template.names().next().and_then(|name| present(arguments, name));
    first.is_some_and(Value::is_string)
}

fn stdin(stdin: &Stdin, arguments: &Map<String, Value>) -> Vec<u8> {
    match stdin {
        Stdin::Nothing => Vec::new(),
        Stdin::Arguments => Value::Object(arguments.clone()).to_string().into_bytes(),
        Stdin::Json(template) => {
            fill_json(template, arguments).unwrap_or_default().to_string().into_bytes()
        }
        Stdin::Text(text) => Template::parse(text).fill_lenient(arguments).into_bytes(),
    }
}

fn env(
    spec: &CommandSpec,
    context: &ToolContext,
) -> Result<Vec<(OsString, OsString)>, CallOutcome> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    for (name, source) in &spec.env {
        let value = match source {
            EnvSource::Text(text) => text.clone(),
            EnvSource::Secret { prefix, secret } => {
                let secret = secret.resolve().map_err(|error| CallOutcome::Error { error })?;
                let text = format!("{prefix}{}", secret.expose_secret());
                text
            }
        };
        if value.contains('\0') {
            let message = format!("the secret of variable {name} contains a NUL");
            return Err(CallOutcome::error(ErrorCode::SecretMissing, message));
        }
        env.push((name.into(), value.into()));
    }
    env.push((IDEMPOTENCY_KEY.into(), context.call.to_string().into()));
    env.push((TRACEPARENT.into(), context.trace.to_string().into()));
    Ok(env)
}
