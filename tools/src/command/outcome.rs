//! Says what the end of a program means for the call.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::Value;
use wire::{CallOutcome, ErrorCode, ToolReply};

use super::process::Ended;
use super::{CommandSpec, Sandbox};
use crate::output::{Body, cut_mark, excerpt, text, value};
use crate::secret::clean;

/// A sandbox, and every shell, tells of a signal by adding its number to this.
const SIGNAL_BASE: i32 = 128;

/// The signals by which programs end that meet a fault or a limit, or are stopped by the kernel. A
/// program may end by itself with a code of 128 and more, as git does with 129 for an option that it
/// does not know, and nobody sends one the signals that are left out.
const FATAL_SIGNALS: [i32; 13] = [3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 24, 25, 31];

/// Makes the reply of a call whose program has ended, by itself or not.
pub(super) fn reply(spec: &CommandSpec, ended: &Ended, time: Duration) -> ToolReply {
    let program = spec.argv.first().map_or("the program", String::as_str);
    let said = said(ended);
    if ended.was_stopped {
        let ms = time.as_millis();
        let lost = format!("{program} did not end within {ms} ms and was stopped{said}");
        return ToolReply::lost(ErrorCode::ToolTimeout, lost);
    }
    let Some(status) = ended.status else {
        let lost = format!("it is not known how {program} ended{said}");
        return ToolReply::lost(ErrorCode::ToolFailed, lost);
    };
    let code = status.code();
    let by_sandbox = code
        .filter(|_| spec.sandbox != Sandbox::None)
        .map(|code| code - SIGNAL_BASE)
        .filter(|signal| FATAL_SIGNALS.contains(signal));
    if let Some(signal) = status.signal().or(by_sandbox) {
        let lost = format!("{program} was ended by signal {signal}{said}");
        return ToolReply::lost(ErrorCode::ToolFailed, lost);
    }
    ToolReply::settled(match code {
        Some(0) => CallOutcome::Ok { output: output(ended) },
        code => {
            let code = code.map_or_else(
                || "without an exit code".to_owned(),
                |code| format!("with exit code {code}"),
            );
            let message = format!("{program} ended {code}{said}");
            CallOutcome::error(ErrorCode::ToolFailed, message)
        }
    })
}

fn output(ended: &Ended) -> Value {
    let stdout = &ended.stdout;
    let text = match Body::read(stdout.bytes.as_slice(), None, stdout.cut) {
        Body::Text(text) => text,
        Body::NotShown(told) => return Value::String(told),
    };
    if stdout.cut {
        return Value::String(text + &cut_mark(stdout.bytes.len()));
    }
    if text.trim().is_empty() {
        return Value::String("the program ended well and wrote nothing".to_owned());
    }
    value(&text)
}

/// Returns what a program said before it failed, in a sentence that goes on.
fn said(ended: &Ended) -> String {
    let (before, errors) = ended.stderr.text();
    let errors = clean(errors);
    if !errors.trim().is_empty() {
        return format!(": {before}{}", errors.trim());
    }
    let stdout = clean(text(ended.stdout.bytes.as_slice(), ended.stdout.cut));
    match excerpt(stdout.trim()) {
        "" => String::new(),
        start => format!(", after it wrote: {start}"),
    }
}
