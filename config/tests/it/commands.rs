//! Tools of the kind `command`: what a table means, and what is said about broken ones.

use std::path::{Path, PathBuf};

use serde_json::json;
use tools::command::{CommandSpec, EnvSource, Limits, Sandbox, Stdin};
use tools::{SecretRef, ToolKind};
use wire::EffectClass;

use super::broken::{FINE, check, files};

const PLAIN: &str = "[tools.t]\nkind = 'command'\ndescription = 'd'\n";

#[test]
fn commands_as_they_are_written() {
    let limits =
        Limits { memory_bytes: 1 << 30, processes: 64, open_files: 256, file_bytes: 64 << 20 };
    let plain = CommandSpec {
        argv: vec!["wc".to_owned()],
        program: None,
        stdin: Stdin::Arguments,
        env: Vec::new(),
        workdir: None,
        sandbox: Sandbox::Bubblewrap { network: false, read: Vec::new(), write: Vec::new() },
        limits,
        response_bytes_max: 65_536,
    };
    let text = |text: &str| text.to_owned();
    let path = |path: &str| PathBuf::from(path);
    let cases = [
        ("argv = ['wc']", plain.clone()),
        (
            "argv = ['./bin/wc', '-w']\nstdin = 'none'\nworkdir = '.'",
            CommandSpec {
                argv: vec![text("./bin/wc"), text("-w")],
                program: Some(path("teams/./bin/wc")),
                stdin: Stdin::Nothing,
                workdir: Some(path("teams/.")),
                ..plain.clone()
            },
        ),
        (
            "argv = ['wc', '{x}']\nparameters = { x = 'string' }\nstdin = { json = { y = '{x}' } }",
            CommandSpec {
                argv: vec![text("wc"), text("{x}")],
                stdin: Stdin::Json(json!({"y": "{x}"})),
                ..plain.clone()
            },
        ),
        (
            "argv = ['wc']\nstdin = { text = 'a' }\nnetwork = true\nread = ['a', '/b']\nwrite = ['c']",
            CommandSpec {
                stdin: Stdin::Text(text("a")),
                sandbox: Sandbox::Bubblewrap {
                    network: true,
                    read: vec![path("teams/a"), path("/b")],
                    write: vec![path("teams/c")],
                },
                ..plain.clone()
            },
        ),
        (
            "argv = ['wc']\nsandbox = 'none'\nresponse_bytes_max = 9\nmemory_bytes_max = 16777216\nopen_files_max = 16\nfile_bytes_max = 4096",
            CommandSpec {
                sandbox: Sandbox::None,
                response_bytes_max: 9,
                limits: Limits {
                    memory_bytes: 16 << 20,
                    open_files: 16,
                    file_bytes: 4096,
                    ..limits
                },
                ..plain.clone()
            },
        ),
        (
            "argv = ['wc']\nenv = { A = 'a', B = { env = 'C', prefix = 'p ' }, D = { file = 'd' } }",
            CommandSpec {
                env: vec![
                    (text("A"), EnvSource::Text(text("a"))),
                    (
                        text("B"),
                        EnvSource::Secret { prefix: text("p "), secret: SecretRef::Env(text("C")) },
                    ),
                    (
                        text("D"),
                        EnvSource::Secret {
                            prefix: String::new(),
                            secret: SecretRef::File(path("teams/d")),
                        },
                    ),
                ],
                ..plain.clone()
            },
        ),
    ];
    for (fields, expected) in cases {
        let file = format!("{FINE}{PLAIN}{fields}");
        let team = config::parse(Path::new("teams/t.toml"), &file, &files);
        let team = team.unwrap_or_else(|report| panic!("{}", report.render(false)));
        assert_eq!(team.tools["t"].kind, ToolKind::Command(expected), "{fields}");
        assert_eq!(team.tools["t"].offer.effect, EffectClass::Once);
        assert_eq!(team.tools["t"].offer.timeout_ms, 30_000);
    }
}

#[test]
fn one_fault_in_a_command() {
    let loads = "change the command";
    for (fields, line, message, help) in [
        ("", 7, "`tools.t` lacks `argv`", "no shell reads it"),
        ("argv = 'wc -w'", 10, "`tools.t.argv` must be a list", "no shell reads them"),
        ("argv = []", 10, "`tools.t.argv` has 0 elements, at least 1", "add to it"),
        ("argv = ['']", 7, "tool `t`: argv names no program", loads),
        ("argv = ['{x}']\nparameters = { x = 'string' }", 7, "the program itself cannot be", loads),
        ("argv = ['wc', '{y}']", 7, "{y} stands for a parameter that is not declared", loads),
        ("argv = ['wc', \"a\\u0000\"]", 7, "of argv contains a NUL", loads),
        (
            "argv = ['wc']\nstdin = 'none'\nparameters = { x = 'string' }",
            7,
            "parameter \"x\" appears neither in argv nor in stdin",
            loads,
        ),
        ("argv = ['wc']\nstdin = 'argument'", 11, "this is \"argument\"", "\"arguments\""),
        (
            "argv = ['wc']\nstdin = { json = 1, text = 'a' }",
            11,
            "either `json` or `text`",
            "`\"none\"`",
        ),
        ("argv = ['wc']\nenv = { '1A' = 'x' }", 7, "\"1A\" is no name of an environment", loads),
        ("argv = ['wc']\nenv = { LD_PRELOAD = 'x' }", 7, "variable LD_PRELOAD is set by", loads),
        ("argv = ['wc']\nenv = { TRACEPARENT = 'x' }", 7, "variable TRACEPARENT is set by", loads),
        (
            "argv = ['wc']\nenv = { A = { prefix = 'x' } }",
            11,
            "variable `A` does not say",
            "`env =",
        ),
        (
            "argv = ['wc']\nenv = { A = { env = 'x y' } }",
            11,
            "not the name of an environment variable",
            "never the secret itself",
        ),
        (
            "argv = ['wc']\nsandbox = 'docker'",
            11,
            "this is \"docker\"",
            "\"bubblewrap\" or \"none\"",
        ),
        (
            "argv = ['wc']\nsandbox = 'none'\nnetwork = true",
            12,
            "`network` goes with `sandbox = \"bubblewrap\"` only",
            "remove `network`",
        ),
        (
            "argv = ['wc']\nsandbox = 'none'\nprocesses_max = 9",
            12,
            "`processes_max` goes with `sandbox = \"bubblewrap\"` only",
            "remove `processes_max`",
        ),
        ("argv = ['wc']\nread = ['']", 11, "`tools.t.read[0]` has 0 bytes", "add to it"),
        ("argv = ['wc']\nprocesses_max = 1", 11, "must be from 4 to 4096", "processes and threads"),
        ("argv = ['wc']\nmemory_bytes_max = 1", 11, "must be from 16777216", "bytes of memory"),
        (
            "argv = ['wc']\nurl = 'http://x'",
            11,
            "`url` goes with `kind = \"http\"` only",
            "remove `url`",
        ),
    ] {
        check(&format!("{FINE}{PLAIN}{fields}"), line, message, help);
    }
    let other = "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://x'\nargv = ['wc']";
    let message = "`argv` goes with `kind = \"command\"` only";
    check(&format!("{FINE}{other}"), 11, message, "remove `argv`");
}
