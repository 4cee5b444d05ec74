use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wire::{CallOutcome, EffectClass, ErrorCode, ToolReply};

use super::fill::fill;
use super::{
    ARGV_BYTES_MAX, CommandSpec, CommandTool, EnvSource, Launcher, Limits, Sandbox, Stdin,
};
use crate::secret::SecretRef;
use crate::tool::{Tool, ToolContext};

fn spec(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(|text| (*text).to_owned()).collect(),
        program: None,
        stdin: Stdin::Arguments,
        env: Vec::new(),
        workdir: None,
        sandbox: Sandbox::None,
        limits: Limits {
            memory_bytes: 1 << 30,
            processes: 64,
            open_files: 256,
            file_bytes: 1 << 20,
        },
        response_bytes_max: 1000,
    }
}

fn context() -> ToolContext {
    crate::testing::context(Duration::from_secs(60))
}

async fn call(spec: CommandSpec, arguments: Value) -> ToolReply {
    let launcher = Arc::new(Launcher::find(None, Path::new("/nonexistent")));
    CommandTool::new(spec, &launcher).call(&context(), &arguments).await
}

fn ok(output: impl Into<Value>) -> ToolReply {
    ToolReply::settled(CallOutcome::Ok { output: output.into() })
}

/// `argv` with its program, the arguments of the call, and what the program gets or why nothing.
type Case<'a> = (&'a [&'a str], Value, Result<&'a [&'a str], &'a str>);

#[test]
fn each_argument_stays_one_argument() {
    let refused = Err::<&[&str], &str>;
    let cases: [Case; 12] = [
        (&["p", "a b", "{x}"], json!({"x": "c d; $(id) \"'"}), Ok(&["a b", "c d; $(id) \"'"])),
        (&["p", "--x={x}", "--y={y}"], json!({"y": 7}), Ok(&["--y=7"])),
        (&["p", "{x}"], json!({"x": null}), Ok(&[])),
        (&["p", "{x}", "{y}"], json!({"x": ["a", "b"], "y": true}), Ok(&[r#"["a","b"]"#, "true"])),
        (&["p", "{x}"], json!({"x": "--help"}), refused("\"x\" begins with \"-\"")),
        (&["p", "{x}{y}"], json!({"x": "-", "y": "o"}), refused("\"x\" begins with \"-\"")),
        (&["p", "{x}"], json!({"x": -5}), Ok(&["-5"])),
        (&["p", "--", "{x}"], json!({"x": "--help"}), Ok(&["--", "--help"])),
        (&["p", "--x={x}"], json!({"x": "--help"}), Ok(&["--x=--help"])),
        (&["p", "{x}"], json!({"x": ""}), Ok(&[""])),
        (&["p", "{x}"], json!({"x": "a\0b"}), refused("would contain a NUL")),
        (&["p", "{x}"], json!({"x": "y".repeat(ARGV_BYTES_MAX)}), refused("more than 131071")),
    ];
    for (argv, arguments, expected) in cases {
        let filled = fill(&spec(argv), &context(), arguments.as_object().unwrap());
        match (filled, expected) {
            (Ok(filled), Ok(expected)) => assert_eq!(filled.argv, expected, "{argv:?}"),
            (Err(CallOutcome::Error { error }), Err(part)) => {
                assert_eq!(error.code, ErrorCode::InvalidArguments);
                assert!(error.message.contains(part), "{argv:?}: {error}");
            }
            (filled, _) => panic!("{argv:?}: {filled:?}"),
        }
    }
}

#[test]
fn input_is_what_the_template_says() {
    let arguments = json!({"x": "a", "n": 1});
    let cases = [
        (Stdin::Nothing, ""),
        (Stdin::Arguments, r#"{"x":"a","n":1}"#),
        (Stdin::Json(json!({"y": "{n}", "z": "{gone}", "t": "<{x}>"})), r#"{"y":1,"t":"<a>"}"#),
        (Stdin::Text("{x} and {n}{gone}".to_owned()), "a and 1"),
    ];
    for (stdin, expected) in cases {
        let spec = CommandSpec { stdin, ..spec(&["p"]) };
        let filled = fill(&spec, &context(), arguments.as_object().unwrap()).unwrap();
        assert_eq!(String::from_utf8(filled.stdin).unwrap(), expected);
    }
}

#[test]
fn nothing_is_repeated_unless_the_team_file_says_so() {
    assert_eq!(spec(&["p"]).effect(), EffectClass::Once);
}

#[tokio::test]
async fn the_environment_is_that_of_the_call_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "hunter2hunter2\n").unwrap();
    let secret = SecretRef::File(file);
    let env = vec![
        ("GIVEN".to_owned(), EnvSource::Text("a b".to_owned())),
        ("TOKEN".to_owned(), EnvSource::Secret { prefix: "is ".to_owned(), secret }),
    ];
    let script = "env | cut -d= -f1 | sort | tr '\\n' ' '; echo $GIVEN $TOKEN \
                  $CALLBOARD_IDEMPOTENCY_KEY; echo $TRACEPARENT";
    let spec = CommandSpec { env, ..spec(&["sh", "-c", script]) };
    // A shell sets these by itself.
    let expected = format!(
        "CALLBOARD_IDEMPOTENCY_KEY GIVEN HOME LANG PATH PWD TMPDIR TOKEN TRACEPARENT a b is \
         [secret] 0123abcd\n{}",
        context().trace
    );
    assert_eq!(call(spec, json!({})).await, ok(expected));

    let secret = SecretRef::File(folder.path().join("gone"));
    let env = vec![("TOKEN".to_owned(), EnvSource::Secret { prefix: String::new(), secret })];
    let reply = call(CommandSpec { env, ..self::spec(&["true"]) }, json!({})).await;
    let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(error.code, ErrorCode::SecretMissing);
}

#[tokio::test]
async fn what_a_program_writes_is_the_result() {
    let cases = [
        ("cat", ok(json!({"x": [1, null]}))),
        ("echo '{\"a\": 1}'", ok(json!({"a": 1}))),
        ("echo 3.1", ok(json!(3.1))),
        ("echo 3.10", ok(json!("3.10"))),
        ("echo 1267650600228229401496703205376", ok(json!("1267650600228229401496703205376"))),
        ("echo 42", ok(42)),
        ("echo ' two  words'; echo", ok(" two  words")),
        ("printf '\\303'", ok("\u{FFFD}")),
        (":", ok("the program ended well and wrote nothing")),
        (
            "printf 'x%.0s' $(seq 999); printf '\\303\\244'",
            ok(format!("{}\n[cut after 1000 bytes]", "x".repeat(999))),
        ),
    ];
    for (script, expected) in cases {
        let reply = call(spec(&["sh", "-c", script]), json!({"x": [1, null]})).await;
        assert_eq!(reply, expected, "{script}");
    }
}

#[tokio::test]
async fn a_tool_that_cannot_be_started_says_so() {
    let sandboxed = CommandSpec {
        sandbox: Sandbox::Bubblewrap { network: false, read: Vec::new(), write: Vec::new() },
        ..spec(&["true"])
    };
    let nothing = Arc::new(Launcher::default());
    for (spec, part) in [(sandboxed, "not there; install"), (spec(&["true"]), "prlimit")] {
        let reply = CommandTool::new(spec, &nothing).call(&context(), &json!({})).await;
        let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(error.code, ErrorCode::ToolUnavailable);
        assert!(error.message.contains(part), "{error}");
    }
}
