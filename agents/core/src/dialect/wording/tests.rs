//! The texts themselves: ours are sound, a team's are checked, and one that fails is replaced.

use std::sync::Arc;

use wire::entry::Reason;
use wire::plan::{Audience, Dialect, Text};
use wire::{FinishReason, ModelRole, Planned};

use super::super::{Act, RESPOND_TO_USER, Step, Transcript, fixture, prompt, read};
use super::*;
use crate::validate::Catalogue;

/// A plan with one text of its own for the actor model.
fn with(text: Text, template: &str) -> Arc<Plan> {
    let mut plan = fixture::plan(Dialect::Json, true);
    plan.prompts.actor.insert(text, template.to_owned());
    Arc::new(plan)
}

#[test]
fn every_text_of_ours_compiles_and_never_fails() {
    for voice in Voice::ALL {
        let unsound = Text::ALL.into_iter().filter(|text| ours(voice, *text).is_none());
        assert_eq!(unsound.collect::<Vec<_>>(), [], "{voice:?}");
    }
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
        assert_eq!((fault.audience, fault.text), (Audience::Actor, text), "{template}");
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
        let mut speaker = wording.of(Audience::Actor);
        let feedback = fixture::feedback(Reason::Empty, "no");
        let scene = Scene { feedback: Some(&feedback), ..Scene::default() };
        let text = speaker.render(Text::Feedback, &scene);
        (text, speaker.faults.len())
    };
    let ours = of(&Arc::new(fixture::plan(Dialect::Json, true)));
    assert_eq!(ours.1, 0);
    for template in broken {
        assert_eq!(of(&with(Text::Feedback, template)), (ours.0.clone(), 1), "{template}");
    }
    let system = |plan: &Arc<Plan>| Wording::new(plan).before(Audience::Actor, &Scene::default());
    let ours = system(&Arc::new(fixture::plan(Dialect::Json, true)));
    assert_eq!(system(&with(Text::System, "{{ tools.x.y }}")), ours);
}

/// Reads a reply of a role, and returns what is said of it.
fn said(plan: &Arc<Plan>, role: ModelRole, planned: Option<&str>, content: &str) -> Reading {
    let planned = planned.map(|tool| Planned {
        tool: tool.to_owned(),
        task: "x".to_owned(),
        thoughts: String::new(),
        summary: String::new(),
    });
    let is_cut = role == ModelRole::Thinker && plan.planner.is_none() || content.is_empty();
    let finish = if is_cut { FinishReason::Length } else { FinishReason::Stop };
    let reply = fixture::reply(finish, content);
    let read = read(role, &Catalogue::new(plan.clone()), planned.as_ref(), &reply);
    assert_eq!(read.faults, [], "{content}");
    read.reading
}

#[test]
fn readers_give_reasons_and_texts_the_words() {
    let thinking = || fixture::plan(Dialect::React, true);
    let planning = || fixture::planning(Dialect::Json);
    let tool = || Some("search");
    let [thinks, acts] = [ModelRole::Thinker, ModelRole::Actor];
    let over = || Some(RESPOND_TO_USER);
    let fenced = "{\"tool\": \"now\", \"arguments\": {}} and then";
    let unknown = format!(
        "{{\"action\": {{\"function\": \"{}\", \"arguments\": {{}}}}}} so",
        "f".repeat(999)
    );
    for (audience, plan, role, planned, content, reason, ours) in [
        (Audience::Thinker, thinking(), thinks, None, "", "cut", "think less and say more"),
        (Audience::Actor, thinking(), acts, None, "", "cut", "make it shorter"),
        (
            Audience::Planner,
            planning(),
            thinks,
            None,
            "{\"a\": 1} so",
            "not_of_form",
            "the tool for it",
        ),
        (Audience::Task, planning(), acts, tool(), "", "cut", "make it shorter"),
        (
            Audience::Task,
            planning(),
            acts,
            tool(),
            "{\"a\": 1} so",
            "not_of_form",
            "a thought and an action",
        ),
        (
            Audience::Task,
            planning(),
            acts,
            tool(),
            &unknown,
            "other_tool",
            "the task is for search",
        ),
        (Audience::Answer, planning(), acts, over(), fenced, "no_more_calls", "as plain text"),
    ] {
        let mut plan = plan;
        let message = |plan: &Plan| match said(&Arc::new(plan.clone()), role, planned, content) {
            Reading::Fault { feedback, .. } => feedback.message,
            Reading::Calls { calls, .. } => calls[0].fault.clone().unwrap().message,
            other => panic!("{content}: {other:?}"),
        };
        let found = message(&plan);
        assert!(found.contains(ours), "{audience:?} {content}: {found}");
        let template = "{{ reader }} {{ reason }}: {{ message }}!".to_owned();
        plan.prompts.of_mut(audience).insert(Text::Fault, template);
        assert_eq!(message(&plan), format!("{} {reason}: {found}!", audience.as_str()));
    }
}

#[test]
fn a_cut_thought_and_the_word_to_go_on_are_texts_too() {
    let mut plan = fixture::plan(Dialect::Json, true);
    let thought =
        |plan: &Plan| match said(&Arc::new(plan.clone()), ModelRole::Thinker, None, "search fi") {
            Reading::Thought { text } => text,
            other => panic!("{other:?}"),
        };
    let ours = "search fi\n(The thought ends here because it reached the token limit.)";
    assert_eq!(thought(&plan), ours);
    plan.prompts.thinker.insert(Text::Cut, "{{ thought }} [..]".to_owned());
    assert_eq!(thought(&plan), "search fi [..]");

    let acts = vec![Act::Continued { text: "CONTINUE I look.".to_owned() }];
    let steps = [Step { acts, ..Step::default() }, Step::default()];
    let last = |plan: &Plan| {
        let catalogue = Catalogue::new(Arc::new(plan.clone()));
        let transcript = Transcript { plan, history: &[], request: "Q", steps: &steps };
        let messages = prompt(ModelRole::Actor, &catalogue, &transcript).messages;
        messages.last().unwrap().content().to_owned()
    };
    assert_eq!(last(&plan), "Go on.");
    plan.prompts.actor.insert(Text::GoOn, "{{ request }}: {{ text }} And?".to_owned());
    assert_eq!(last(&plan), "Q: CONTINUE I look. And?");
}

#[test]
fn a_planner_and_those_who_work_for_it_are_told_by_the_team() {
    let mut plan = fixture::planning(Dialect::Native);
    let scene =
        "{{ reader }}|{{ selected.name if selected else '-' }}|{{ task }}|{{ steps | length }}";
    for audience in [Audience::Planner, Audience::Task, Audience::Answer] {
        plan.prompts.of_mut(audience).insert(Text::Request, scene.to_owned());
        plan.prompts.of_mut(audience).insert(Text::Ask, "Now.".to_owned());
    }
    assert_eq!(faults(&Arc::new(plan.clone())), []);
    let planned = |tool: &str| Planned {
        tool: tool.to_owned(),
        task: "do it".to_owned(),
        thoughts: String::new(),
        summary: String::new(),
    };
    let step = |tool: &str| Step { planned: Some(planned(tool)), ..Step::default() };
    let done = || {
        let text = "done".to_owned();
        Step { acts: vec![Act::Answered { text: text.into() }], ..step("now") }
    };
    let catalogue = Catalogue::new(Arc::new(plan.clone()));
    for (role, steps, expected) in [
        (ModelRole::Thinker, vec![], "planner|-||0"),
        (ModelRole::Thinker, vec![done(), Step::default()], "planner|-||1"),
        (ModelRole::Actor, vec![step("now")], "task|now|do it|0"),
        (ModelRole::Actor, vec![done(), step(RESPOND_TO_USER)], "answer|respond_to_user|do it|1"),
    ] {
        let transcript = Transcript { plan: &plan, history: &[], request: "Q", steps: &steps };
        let messages = prompt(role, &catalogue, &transcript).messages;
        let told: Vec<&str> = messages.iter().map(|message| message.content()).collect();
        assert_eq!(told[told.len() - 2..], [expected, "Now."]);
    }
}
