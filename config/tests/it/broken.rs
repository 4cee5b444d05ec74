//! Broken team files, each with what is said about it, where, and what to do.

use std::io;
use std::path::Path;

use config::{FAULTS_MAX, Report};
use wire::ErrorCode;

use super::arbitrary::lines;

/// Nothing is wrong here; the cases below are added at line 7, inside of the agent's table.
pub(crate) const FINE: &str = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n[agents.a]\ninstructions = 'Answer.'\nmodel = 'm'\n";

pub(crate) fn files(path: &Path) -> io::Result<String> {
    match path.to_str().unwrap() {
        "teams/m.jsonl" => Ok("{\"content\": \"Hello.\"}\n".to_owned()),
        "teams/bad.jsonl" => {
            Ok("{\"content\": \"Hello.\"}\n{\"contents\": 1}\n\n{\"when\": \"(\"}\n".to_owned())
        }
        "teams/films.sql" => Ok("create table film (title text);".to_owned()),
        "teams/syntax.sql" => Ok("create table a (b);\ncrate table c (d);".to_owned()),
        "teams/twice.sql" => Ok("create table a (b unique);\ninsert into a values (1);\n\
                                 insert into a values (1);"
            .to_owned()),
        "teams/commit.sql" => Ok("commit;".to_owned()),
        "teams/bad.jinja" => Ok("one\n{{ nme }}\n".to_owned()),
        "teams/api.yaml" => Ok(super::broken_http::API.to_owned()),
        "teams/empty.md" => Ok("\n".to_owned()),
        "teams/long.md" => Ok("x".repeat(config::bound::INSTRUCTIONS_BYTES_MAX + 1)),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "not there")),
    }
}

pub(crate) fn report(text: &str) -> Report {
    match config::parse(Path::new("teams/t.toml"), text, &files) {
        Err(report) => report,
        Ok(team) => panic!("accepted:\n{text}\n{team:?}"),
    }
}

/// Expects one fault: its line, and parts of its message and of its help.
pub(crate) fn check(text: &str, line: usize, message: &str, help: &str) {
    let report = report(text);
    let [fault] = report.faults() else { panic!("{text}\n{report}") };
    assert!(fault.message.contains(message), "{text}\n{fault}\nexpected: {message}");
    assert!(fault.help.contains(help), "{text}\n{fault}\nexpected help: {help}");
    assert_eq!(fault.line, Some(line), "{text}\n{fault}");
    let start = fault.message.chars().next().unwrap();
    assert!(!start.is_uppercase() && !fault.message.ends_with('.'), "style of: {}", fault.message);
    let drawn = report.render(false);
    assert!(drawn.contains("teams/t.toml:") && drawn.contains(&format!("{line} │")), "{drawn}");
}

#[test]
fn the_ground_of_the_cases_is_fine() {
    let team = config::parse(Path::new("teams/t.toml"), FINE, &files).unwrap();
    assert_eq!((team.name.as_str(), team.entry.as_str()), ("t", "a"));
}

#[test]
fn one_fault_added_to_a_fine_file() {
    for (added, line, message, help) in [
        ("tool = []", 7, "unknown key `tool` in `agents.a`", "did you mean `tools`?"),
        (
            "colour = 'red'",
            7,
            "unknown key `colour` in `agents.a`",
            "known keys: description, instructions",
        ),
        (
            "tools = 'calculate'",
            7,
            "`agents.a.tools` must be a list, this is a text",
            "tools that the agent may call",
        ),
        (
            "tools = [1]",
            7,
            "`agents.a.tools[0]` must be a text in quotes, this is a whole number",
            "",
        ),
        ("tools = ['calculat']", 7, "there is no tool `calculat`", "did you mean `calculate`?"),
        ("tools = ['weather']", 7, "there is no tool `weather`", "known tools: calculate, now"),
        ("tools = ['lookup']", 7, "there is no tool `lookup`", "known tools"),
        ("tools = ['now', 'now']", 7, "`now` is twice in `tools` of `agents.a`", "remove one"),
        ("tools = ['a']", 7, "there is no tool `a`", "put it into `agents`"),
        ("agents = ['b']", 7, "there is no agent `b`", "known agents: a"),
        ("agents = ['a']\ndescription = 'd'", 7, "in a circle: a -> a", "recursion = true"),
        ("thinker = 'm'", 6, "has both `model` and `thinker`", "remove"),
        (
            "instructions_file = 'a.md'",
            7,
            "both `instructions` and `instructions_file`",
            "remove one",
        ),
        ("parameters = { s = 'string' }", 4, "`agents.a` lacks `task`", "`{parameter}`"),
        ("parameters = {}\ntask = ' '", 8, "`task` is empty", "what the agent is told"),
        (
            "parameters = { s = 'text' }\ntask = '{s}'",
            7,
            "`s` of `parameters` has no type",
            "string",
        ),
        ("parameters = { type = 'object', required = 1 }\ntask = 't'", 7, "no JSON Schema", ""),
        ("parameters = {}\ntask = '{s}'", 8, "agent `a`: {s} stands for a parameter", "`task`"),
        ("task = 'Help.'", 7, "agent `a`: parameter \"task\" appears nowhere in the task", ""),
        ("continue_word = ''", 7, "`agents.a.continue_word` has 0 bytes, at least 1 needed", ""),
        ("continue_word = 'GO ON'", 7, "\"GO ON\" of agent `a` is not one word", "without spaces"),
        ("continue_word = '...'", 7, "\"...\" of agent `a` is not one word", "such as `CONTINUE`"),
        ("when_busy = 'join'", 7, "join", ""),
        (
            "when_busy = 'steer'\nlimits.queue_max = 0",
            8,
            "messages join the runs of agent `a` (`when_busy`), but `queue_max` is 0",
            "allow at least one",
        ),
        (
            "when_busy = 'steer'\n[limits]\nqueue_max = 0",
            9,
            "messages join the runs of agent `a` (`when_busy`), but `queue_max` is 0",
            "`when_busy = \"reject\"`",
        ),
        ("recursion = 'yes'", 7, "`agents.a.recursion` must be true or false, this is a text", ""),
        (
            "limits.steps_max = 0",
            7,
            "`agents.a.limits.steps_max` must be from 1 to 1000, this is 0",
            "Model steps",
        ),
        (
            "limits.deadline_ms = 1.5",
            7,
            "must be a whole number, this is a number with a point",
            "Milliseconds",
        ),
        (
            "limits.steps = 4",
            7,
            "unknown key `steps` in `agents.a.limits`",
            "known keys: steps_max",
        ),
        (
            "limits.tokens_max = 99999999999999999999",
            7,
            "`agents.a.limits.tokens_max` must be from 1 to",
            "",
        ),
        (
            "limits.history_tokens_max = 1000000001",
            7,
            "`agents.a.limits.history_tokens_max` must be from 0 to 1000000000, this is 1000000001",
            "Tokens",
        ),
        (
            "limits.repeats_max = 1",
            7,
            "`agents.a.limits.repeats_max` must be from 2 to 1000000, this is 1",
            "same tool",
        ),
        (
            "limits.cost_max = -0.5",
            7,
            "`agents.a.limits.cost_max` must be from 0 to 1000000, this is -0.5",
            "US dollars",
        ),
        (
            "agents = ['b']\nlimits.cost_max = 1\n[team]\nentry = 'a'\n[agents.b]\ndescription = 'd'\ninstructions = 'i'\nmodel = 'n'\n[models.n]\nprovider = 'ollama'\nmodel = 'x'",
            15,
            "model n has no `price`, so the `cost_max` of agent a cannot be kept",
            "`price = { input = .., output = .. }`",
        ),
        (
            "[limits]\nqueue_max = 5000",
            8,
            "`limits.queue_max` must be from 0 to 1024, this is 5000",
            "Runs",
        ),
        (
            "[retention]\nruns = '1 week'",
            8,
            "\"1 week\" is no time for which something can be kept",
            "such as `30d`",
        ),
        (
            "[retention]\nsessions = '7d'",
            8,
            "sessions are kept for a shorter time than their runs",
            "as long as `runs`",
        ),
        // What cannot be read is held against nothing.
        ("[retention]\ntraces = '7w'", 8, "\"7w\" is no time for which something can be kept", ""),
        ("[retention]\nsessions = '7w'", 8, "\"7w\" is no time for which something", ""),
        ("[retention]\nruns = '30x'\nsessions = '90d'", 8, "\"30x\" is no time", ""),
        (
            "[retention]\ntraces = '31d'",
            8,
            "traces are kept for a longer time than their runs",
            "as long as `runs`",
        ),
        (
            "[retention]\ntrace_bytes_max = 1000",
            8,
            "`retention.trace_bytes_max` must be from 67108864 to 1099511627776, this is 1000",
            "",
        ),
        (
            "[retention]\nruns_max = 0",
            8,
            "`retention.runs_max` must be from 1 to 1000000000, this is 0",
            "",
        ),
        ("[agent.b]", 7, "unknown key `agent`", "did you mean `agents`?"),
        ("[team]\nname = 'my team'", 8, "team \"my team\": a name consists of", "change the name"),
        ("[team]\nentry = 'lead'", 8, "there is no agent `lead`", "known agents: a"),
        (
            "[team]\nruns_max = 0",
            8,
            "`team.runs_max` must be from 1 to 10000, this is 0",
            "further ones are told `overloaded`",
        ),
        (
            "[team]\notlp_endpoint = '127.0.0.1:4318'",
            8,
            "is no address of an HTTP server",
            "http://",
        ),
        (
            "[trace]\nexport = 'full'",
            8,
            "`export` goes with `otlp_endpoint` of `[team]` only",
            "add `otlp_endpoint`",
        ),
        (
            "[team]\nname = 2026-01-01",
            8,
            "`team.name` must be a text in quotes, this is a date",
            "",
        ),
        (
            "[tools.t]\ndescription = 'd'",
            7,
            "`tools.t` lacks `kind`",
            "\"builtin\" or \"cloudevent\" or \"command\" or \"http\"",
        ),
        ("[tools.t]\nkind = 'builtin'", 7, "there is no builtin tool \"t\"", "add `builtin`"),
        (
            "[tools.nwo]\nkind = 'builtin'\nbuiltin = 'recal'",
            9,
            "builtin tool \"recal\"",
            "did you mean \"recall\"?",
        ),
        (
            "[tools.t]\nkind = 'builtin'\nbuiltin = 'lookup'",
            7,
            "look-up tool `t` has no rows",
            "add `rows",
        ),
        (
            "[tools.t]\nkind = 'builtin'\nbuiltin = 'lookup'\nrows = []",
            10,
            "`tools.t.rows` has 0 elements",
            "add to it",
        ),
        (
            "[tools.now]\nkind = 'builtin'\nrows = [{ words = ['a'], answer = 'b' }]",
            9,
            "`rows` is not for",
            "remove",
        ),
        (
            "[tools.ask_user]\nkind = 'builtin'\ntimeout_ms = 1000",
            9,
            "`timeout_ms` is not for \"ask_user\", whose run waits for the answer",
            "remove `timeout_ms`",
        ),
        (
            "[tools.human]\nkind = 'builtin'\nbuiltin = 'ask_user'\nconcurrency = 1",
            10,
            "`concurrency` is not for \"ask_user\"",
            "remove `concurrency`",
        ),
        (
            "[tools.now]\nkind = 'builtin'\nurl = 'http://h'",
            9,
            "`url` goes with `kind = \"http\"` only",
            "remove `url`",
        ),
        (
            "[tools.respond_to_user]\nkind = 'builtin'\nbuiltin = 'now'",
            7,
            "the name `respond_to_user` is taken",
            "another",
        ),
        (
            "[tools.a]\nkind = 'builtin'\nbuiltin = 'now'",
            7,
            "`a` is the name of a tool and of an agent",
            "rename",
        ),
        (
            "[tools.t]\nkind = 'http'\nurl = 'http://h'",
            7,
            "`tools.t` lacks `description`",
            "for models",
        ),
        ("[tools.t]\nkind = 'http'\ndescription = 'd'", 7, "`tools.t` lacks `url`", "the address"),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'ftp://h'",
            7,
            "tool `t`: ",
            "change the request template",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h/{x}'",
            7,
            "tool `t`: ",
            "template",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\neffect = 'twice'",
            11,
            "\"read\" or \"idempotent\" or \"once\", this is \"twice\"",
            "",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h/{c}'\n[tools.t.parameters]\nc = 'text'",
            12,
            "`c` of `parameters` has no type: \"text\"",
            "one of string, integer",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nparameters = { type = 5 }",
            11,
            "`parameters` of `t` is no JSON Schema",
            "short form",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nheaders = { A = { prefix = 'x' } }",
            11,
            "header `A` does not say where its secret is",
            "env",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nheaders = { A = 5 }",
            11,
            "`tools.t.headers.A` must be a text in quotes or a table, this is a whole number",
            "",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nbody = { json = 1, text = 'x' }",
            11,
            "a body is either `json` or `text`",
            "\"arguments\"",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\nbody = 'argument'",
            11,
            "must be \"arguments\", this is \"argument\"",
            "did you mean \"arguments\"?",
        ),
        ("model = 'm'", 7, "duplicate key", "toml.io"),
        ("tools = ['now'", 7, "", "toml.io"),
        ("description = \"open", 7, "invalid basic string", "toml.io"),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}

#[test]
fn one_fault_in_a_whole_file() {
    let model = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n";
    for (text, line, message, help) in [
        (
            "[agents.a]\ninstructions = 'x'\n",
            1,
            "does not say which model makes its calls",
            "add `model`",
        ),
        (
            "[agents.a]\ninstructions = 'x'\nthinker = 'm'\n",
            1,
            "does not say which model",
            "add `model`",
        ),
        ("[agents.a]\nmodel = 'm'\n", 1, "agent `a` lacks `instructions`", "instructions_file"),
        (
            "[agents.a]\nmodel = 'n'\ninstructions = 'x'\n",
            2,
            "there is no model `n`",
            "known models: m",
        ),
        (
            "[agents.a]\nmodel = 'm'\ninstructions = ' '\n",
            1,
            "instructions of agent `a` are empty",
            "write",
        ),
        ("[agents.a]\nmodel = 'm'\ninstructions_file = 'empty.md'\n", 1, "are empty", "write"),
        (
            "[agents.a]\nmodel = 'm'\ninstructions_file = 'no.md'\n",
            3,
            "`no.md` cannot be read: not there",
            "tried teams/no.md",
        ),
        (
            "[agents.a]\nmodel = 'm'\ninstructions_file = 'long.md'\n",
            3,
            "more than 262144 bytes",
            "shorter",
        ),
        (
            "[agents.a]\nmodel = 'm'\ninstructions = 5\n",
            3,
            "must be a text in quotes, this is a whole number",
            "",
        ),
        (
            "[agents.now]\nmodel = 'm'\ninstructions = 'x'\ntools = ['now']\n",
            1,
            "that comes with the runtime",
            "rename",
        ),
        (
            "[agents.a]\nmodel = 'm'\ninstructions = 'x'\n[agents.b]\nmodel = 'm'\ninstructions = 'x'\n[team]\n",
            7,
            "has 2 agents and does not say which is asked",
            "add `entry`",
        ),
        (
            "[agents.a]\nmodel = 'm'\ninstructions = 'x'\nagents = ['b']\n[agents.b]\nmodel = 'm'\ninstructions = 'x'\n[team]\nentry = 'a'\n",
            5,
            "agent `b` lacks `description`, and agent `a` calls it",
            "add `description`",
        ),
    ] {
        check(&format!("{text}{model}"), line, message, help);
    }
}

#[test]
fn a_file_that_says_nothing_has_no_agent() {
    for text in ["", "# nothing\n", "[team]\nname = 'x'\n"] {
        let report = report(text);
        assert_eq!(report.faults().len(), 1, "{report}");
        assert!(report.faults()[0].message.contains("no agent"), "{report}");
    }
}

#[test]
fn faults_of_a_script_point_into_the_script() {
    let report = report(&FINE.replace("m.jsonl", "bad.jsonl"));
    let places: Vec<String> = report.faults().iter().map(config::Fault::place).collect();
    assert_eq!(places, ["teams/bad.jsonl:2:1", "teams/bad.jsonl:4:1"], "{report}");
    assert!(report.render(false).contains("teams/bad.jsonl:2:1"));
}

#[test]
fn a_broken_entry_is_not_reported_again_where_it_is_used() {
    let text = FINE.replace("'scripted'", "'scriptd'") + "tools = ['t']\n[tools.t]\nkind = 'htp'\n";
    let report = report(&text);
    let lines: Vec<_> = report.faults().iter().map(|fault| fault.line.unwrap()).collect();
    assert_eq!(lines, [2, 9], "{report}");
}

#[test]
fn all_faults_are_told_in_the_order_of_the_lines() {
    let text = format!(
        "{FINE}x = 1\ntools = ['y']\nlimits.depth_max = 99\n[tools.t]\nkind = 'http'\nz = 1\n[m]\n"
    );
    let report = report(&text);
    let lines: Vec<_> = report.faults().iter().map(|fault| fault.line.unwrap()).collect();
    assert_eq!(lines, [7, 8, 9, 10, 10, 12, 13], "{report}");
    assert!(report.faults().iter().all(|fault| fault.code == ErrorCode::ConfigInvalid));
    let json = report.to_json();
    assert_eq!(json["faults"][0]["line"], 7);
    assert_eq!(json["faults"][0]["code"], "E6001");
}

#[test]
fn a_flood_of_faults_is_counted() {
    let unknown = lines(200, |number| format!("k{number} = 1\n"));
    let report = report(&format!("{FINE}{unknown}"));
    assert_eq!((report.faults().len(), report.omitted()), (FAULTS_MAX, 200 - FAULTS_MAX));
}

#[test]
fn files_have_a_largest_size() {
    let report = report(&"#".repeat(config::bound::FILE_BYTES_MAX + 1));
    assert!(report.faults()[0].message.contains("at most 1048576"), "{report}");
}

#[test]
fn a_file_that_cannot_be_read_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("latin.toml");
    std::fs::write(&text, b"[team]\nname = '\xe9'\n").unwrap();
    for path in [folder.path().join("absent.toml"), folder.path().to_owned(), text] {
        let report = config::load(&path).unwrap_err();
        assert_eq!(report.faults()[0].code, ErrorCode::FileUnreadable, "{report}");
        assert!(report.render(false).contains(&path.display().to_string()), "{report}");
    }
}
