//! No text makes the crate panic, and nothing that passes the shape is refused by the reader.

use std::io;
use std::path::Path;

use proptest::prelude::*;

fn try_out(text: &str) {
    let files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    if let Err(report) = config::parse(Path::new("t.toml"), text, &files) {
        assert!(!report.faults().is_empty());
        for fault in report.faults() {
            assert!(!fault.help.contains("report this as a bug"), "{fault}");
        }
        assert_eq!(report.to_json()["faults"].as_array().unwrap().len(), report.faults().len());
        assert!(report.render(true).len() > report.render(false).len());
        assert!(report.to_string().lines().count() > report.faults().len());
    }
}

/// Lines that look like those of a team file, with keys and values that may not fit each other.
fn line() -> impl Strategy<Value = String> {
    let table = prop::sample::select(vec![
        "team",
        "models.m",
        "agents.a",
        "agents.b",
        "tools.t",
        "limits",
        "agents.a.limits",
        "agents.a.prompts.actor",
        "agents.a.form",
        "prompts.thinker",
        "tools.t.headers",
        "tools.t.parameters",
        "tools.t.schema",
        "models.m.extra_body",
        "x",
        "\"\"",
        "tools.respond_to_user",
    ]);
    let key = prop::sample::select(vec![
        "name",
        "entry",
        "provider",
        "script",
        "dialect",
        "concurrency",
        "fallback",
        "requests_per_minute",
        "base_url",
        "model",
        "temperature",
        "tools",
        "agents",
        "instructions",
        "kind",
        "builtin",
        "rows",
        "url",
        "body",
        "headers",
        "parameters",
        "effect",
        "steps_max",
        "actor",
        "thinker",
        "recursion",
        "X",
        "a.b",
        "\"é\"",
        "description",
        "extra_body",
        "query",
        "prompt",
        "output",
        "schema",
        "system",
        "result",
        "action",
        "flat",
        "prompts",
    ]);
    let value = prop::sample::select(vec![
        "1",
        "-1",
        "1e400",
        "nan",
        "0xff",
        "99999999999999999999",
        "true",
        "'a'",
        "'m'",
        "'http'",
        "'builtin'",
        "'model'",
        "'json'",
        "'{a}'",
        "'lookup'",
        "'scripted'",
        "'openai'",
        "'schema'",
        "'string?: x'",
        "['a']",
        "['a','a','b']",
        "[1, [2]]",
        "{}",
        "{ env = 'A' }",
        "{ json = 1979-05-27 }",
        "{ text = 'x' }",
        "[{ words = ['a'], answer = 'b' }]",
        "07:32:00",
        "\"\\u0000\"",
        "'http://x/{a}'",
        "{ type = 'object', properties = { a = { type = 'string' } } }",
    ]);
    prop_oneof![
        2 => table.prop_map(|table| format!("[{table}]")),
        6 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        try_out(&text);
    }

    #[test]
    fn any_lines_of_a_team_file_are_read_or_refused(lines in prop::collection::vec(line(), 0..24)) {
        try_out(&lines.join("\n"));
    }

    #[test]
    fn any_script_is_read_or_refused(text in any::<String>(), line in "\\{\"[a-z]{4,7}\":.{0,9}\\}") {
        for text in [&text, &line] {
            if let Err(faults) = config::script::Script::parse(text) {
                for fault in faults {
                    prop_assert!(text.get(fault.span).is_some());
                }
            }
        }
    }
}

/// Writes numbered lines.
pub(crate) fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn hostile_files_are_refused_in_little_time() {
    let many = |line: &str, count: usize| line.repeat(count);
    let long_list = format!("[agents.a]\ntools = [{}]\n", many("'calculate',", 80_000));
    let tables = lines(20_000, |n| format!("[agents.a{n}]\n"));
    let unknown = lines(50_000, |n| format!("k{n} = 1\n"));
    let circle = lines(256, |n| {
        format!("[agents.a{n}]\nmodel = 'm'\nagents = ['a{}', 'a{}']\n", (n + 1) % 256, n / 2)
    });
    for text in [
        many("[", 100_000),
        format!("a = {}", many("[", 100_000)),
        many("a.", 100_000),
        long_list,
        tables,
        unknown,
        circle,
        many("é", 600_000),
    ] {
        try_out(&text);
    }
}
