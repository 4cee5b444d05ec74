//! The texts themselves: ours are sound, a team's are checked, and one that fails is replaced.

use std::sync::Arc;

use wire::ModelRole;
use wire::plan::{Dialect, Text};

use super::super::fixture;
use super::*;

/// A plan with one text of its own for the actor model.
fn with(text: Text, template: &str) -> Arc<Plan> {
    let mut plan = fixture::plan(Dialect::Json, true);
    plan.prompts.actor.insert(text, template.to_owned());
    Arc::new(plan)
}

#[test]
fn every_text_of_ours_compiles_and_never_fails() {
    assert_eq!(DEFAULTS.len(), Voice::ALL.len() * Text::ALL.len());
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        for thinker in [true, false] {
            let mut plan = fixture::plan(dialect, thinker);
            assert_eq!(faults(&Arc::new(plan.clone())), [], "{dialect:?}");
            plan.tools.clear();
            plan.instructions.clear();
            assert_eq!(faults(&Arc::new(plan)), [], "{dialect:?} without tools");
        }
    }
}

#[test]
fn a_broken_template_is_told_with_its_place() {
    let cases = [
        (Text::System, "{{ instructions", "syntax error", None),
        (Text::System, "a\n{% for x in y %}", "syntax error", None),
        (
            Text::System,
            "Hi {{ instruction }}",
            "the name `instruction` is not known",
            Some("instruction"),
        ),
        (Text::System, "result: {{ result }}", "known are agent, description", Some("result")),
        (Text::Call, "{% if false %}{{ nmae }}{% endif %}", "the name `nmae`", Some("nmae")),
        (Text::System, "{{ tools[0].nme }}", "undefined value", Some("[0].nme")),
        (Text::System, "{{ tools | shout }}", "unknown filter", None),
        (Text::Result, "{{ error.code }}", "undefined value", None),
        (Text::Result, "{{ value + 1 }}", "invalid operation", None),
        (Text::Feedback, "{{ faults | join(1, 2, 3) }}", "invalid operation", None),
        (
            Text::Ask,
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "more than 2000000 instructions",
            None,
        ),
        (
            Text::Ask,
            "{% set x = 'x' * 1000000 %}{% for i in range(9) %}{{ x }}{% endfor %}",
            "more than 4194304 bytes",
            None,
        ),
        (Text::Ask, "{{ debug() }}", "the name `debug` is not known", Some("debug")),
        (Text::Ask, "{% include 'x' %}", "template not found", None),
    ];
    for (text, template, message, place) in cases {
        let found = faults(&with(text, template));
        let [fault] = found.as_slice() else { panic!("{template}: {found:?}") };
        assert_eq!((fault.role, fault.text), (ModelRole::Actor, text), "{template}");
        assert!(fault.message.contains(message), "{template}: {}", fault.message);
        if let Some(place) = place {
            assert_eq!(template.get(fault.span.clone().unwrap()), Some(place), "{template}");
        }
    }
}

#[test]
fn what_is_sound_has_no_faults() {
    for (text, template) in [
        (Text::System, ""),
        (Text::System, "{% for p in tools if p.parameters.nothing %}{{ p }}{% endfor %}"),
        (Text::Result, "{{ error.code if error else result }}"),
        (Text::Result, "{% if error %}{{ error.code }}{% endif %}"),
        (Text::Feedback, "{{ {'c': code, 'm': missing, 'u': unknown} | tojson }}"),
        (Text::Call, "{% if true %}{% set x = 1 %}{% endif %}{{ x }}"),
        (Text::Call, "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(name) }}"),
        (
            Text::Ask,
            "{% set n = namespace(i=0) %}{% for t in tools %}{% set n.i = n.i + 1 %}{% endfor %}{{ n.i }}",
        ),
    ] {
        assert_eq!(faults(&with(text, template)), [], "{template}");
    }
}

#[test]
fn a_text_that_fails_in_a_run_gives_way_to_ours() {
    let broken = ["{{ result.x.y }}", "{{ nothing }}", "{{"];
    let of = |plan: &Arc<Plan>| {
        let wording = Wording::new(plan);
        let mut speaker = wording.of(ModelRole::Actor);
        let feedback = super::super::calls::feedback(wire::entry::FeedbackCode::EmptyReply, "no");
        let scene = Scene { feedback: Some(&feedback), ..Scene::default() };
        let text = speaker.render(Text::Feedback, &scene);
        (text, speaker.faults.len())
    };
    let ours = of(&Arc::new(fixture::plan(Dialect::Json, true)));
    assert_eq!(ours.1, 0);
    for template in broken {
        assert_eq!(of(&with(Text::Feedback, template)), (ours.0.clone(), 1), "{template}");
    }
    let system = |plan: &Arc<Plan>| Wording::new(plan).before(ModelRole::Actor);
    let ours = system(&Arc::new(fixture::plan(Dialect::Json, true)));
    assert_eq!(system(&with(Text::System, "{{ tools.x.y }}")), ours);
}
