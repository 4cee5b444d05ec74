//! Broken texts, each with what is said about it, where, and what to do.

use std::path::Path;

use super::broken::{FINE, check, files};

#[test]
fn one_fault_in_a_text() {
    for (added, line, message, help) in [
        (
            "prompts.actor.systm = 'x'",
            7,
            "unknown key `systm` in `agents.a.prompts.actor`",
            "did you mean `system`?",
        ),
        ("prompts.actor.system = 1", 7, "must be a text in quotes or a table", "system message"),
        (
            "prompts.actor.system = '{{ instruction }}'",
            7,
            "text `agents.a.prompts.actor.system`: the name `instruction` is not known here",
            "config/README.md",
        ),
        ("prompts.actor.result = 'x {% if y'", 7, "syntax error", "config/README.md"),
        ("prompts.actor.result = '{{ value + 1 }}'", 7, "invalid operation", ""),
        ("[prompts.actor]\nsystem = '''\nHi\n{{ nme }}\n'''", 10, "the name `nme`", ""),
        ("prompts.actor.ask = \"a\\n{{ nme }}\\t\"", 7, ", in line 2 of the text", ""),
        ("prompts.actor.ask = { file = 'no.md' }", 7, "file `no.md` cannot be read", "relative"),
        ("prompts.thinker.ask = 'x'", 7, "agent `a` has no thinker", "set it for `actor`"),
        (
            "[prompts.thinker]\nthought = 'x'",
            8,
            "`thought` is never told to `thinker`",
            "remove it",
        ),
        ("[prompts.actor]\ncut = 'x'", 8, "`cut` is never told to `actor`", "remove it"),
        ("[prompts.planner]\nresult = 'x'", 8, "`result` is never told to `planner`", "remove it"),
        ("[prompts.task]\ngo_on = 'x'", 8, "`go_on` is never told to `task`", "remove it"),
        ("prompts.planner.ask = 'x'", 7, "agent `a` has no planner", "set it for `thinker` or"),
        ("prompts.actor.fault = '{{ resaon }}'", 7, "the name `resaon` is not known", "README"),
        ("prompts.actor.fault = '{{ result }}'", 7, "the name `result` is not known", "README"),
        ("prompts.actor.go_on = '{{ text.x.y }}'", 7, "undefined value", "README"),
        ("prompts.actor.call = 'x'", 7, "dialect native shows calls", "another dialect"),
        ("form.flat = true", 7, "`form` is for dialect json", "dialect = \"json\""),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}

#[test]
fn one_fault_in_a_text_beside_a_planner() {
    let planned = FINE.replace("\nmodel = 'm'", "\nplanner = 'm'\nactor = 'm'\ntools = ['now']");
    for (added, message, help) in [
        ("prompts.actor.ask = 'x'", "agent `a` has a planner", "set it for `task` or `answer`"),
        ("prompts.thinker.ask = 'x'", "has a planner and no thinker", "set it for `planner`"),
        ("prompts.planner.request = '{{ steps[0].tsk }}'", "undefined value", "README"),
        ("prompts.planner.fault = '{{ reason.x.y }}'", "undefined value", "README"),
        ("prompts.task.request = '{{ selected.nme }}'", "undefined value", "README"),
        ("prompts.task.feedback = '{{ valid_names.x.y }}'", "undefined value", "README"),
        ("prompts.answer.request = '{{ tsk }}'", "the name `tsk` is not known", "README"),
        ("prompts.answer.call = '{{ arguments.x.y.z }}'", "undefined value", "README"),
    ] {
        check(&format!("{planned}{added}\n"), 9, message, help);
    }
}

#[test]
fn one_fault_in_the_words_of_a_form() {
    let json = FINE.replace("'scripted'", "'scripted'\ndialect = 'json'");
    for (added, line, message, help) in [
        ("form.function = 'thought'", 8, "`thought` is the key of two things", "another word"),
        ("form.thought = 'type'", 8, "`type` is a key of the runtime's own", "another word"),
        ("form.arguments = 'result'", 8, "`result` is a key of the runtime's own", "another word"),
        ("form = { flat = true, action = 'do' }", 8, "no place in a flat form", "remove it"),
        ("form.error = 'feedback_success'", 8, "tells results and faults alike", "another word"),
        ("form.ending = 'now'\ntools = ['now']", 8, "`now` is a tool or an agent", "another word"),
        ("form.answer = ''", 8, "`agents.a.form.answer` has 0 bytes, at least 1 needed", "add"),
    ] {
        check(&format!("{json}{added}\n"), line, message, help);
    }
    let flat = "form = { flat = true, ending = 'finish', thought = 'why' }\ntools = ['now']\n";
    config::parse(Path::new("teams/t.toml"), &(json + flat), &files).unwrap();
}

#[test]
fn a_text_of_many_agents_is_reported_once_and_in_its_file() {
    let more = "[agents.b]\ninstructions = 'x'\nmodel = 'm'\n[team]\nentry = 'a'\n";
    let texts = "[prompts.actor]\nask = { file = 'bad.jinja' }\n";
    let text = format!("{FINE}{more}{texts}");
    let report = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap_err();
    let [fault] = report.faults() else { panic!("{report}") };
    assert_eq!(fault.place(), "teams/bad.jinja:2:4");
    assert!(report.render(false).contains("{{ nme }}"), "{report}");
}
