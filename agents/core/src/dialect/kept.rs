//! What a prompt keeps begins every later prompt of its role, whatever texts a team sets.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use wire::entry::{Feedback, ReadCall, Reason};
use wire::plan::{Dialect, Text};
use wire::{CallKey, ModelRole, Plan, Planned};

use super::wording::turns;
use super::{Act, Called, Exchange, Kept, Step, Transcript, fixture, prompt, prompt_after};
use crate::validate::Catalogue;

fn text() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![
        None,
        Some(""),
        Some("fixed"),
        Some("{{ agent }}\n"),
        Some("{% if last is defined and last %}last{% endif %}"),
        Some("{{ last is defined and last }}"),
        Some("{% if first is defined and not first %}{{ number }}{% endif %}"),
        Some("{{ result.x.y }}"),
        Some("{{ last.x.y }}"),
        Some("{{ steps | length }}"),
    ])
}

fn plan() -> impl Strategy<Value = Plan> {
    let dialect =
        prop::sample::select(vec![Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React]);
    let texts = || prop::collection::vec(text(), Text::ALL.len());
    (dialect, any::<bool>(), texts(), texts()).prop_map(|(dialect, thinker, thinks, acts)| {
        let mut plan = fixture::plan(dialect, thinker);
        for (role, texts) in [(&mut plan.prompts.thinker, thinks), (&mut plan.prompts.actor, acts)]
        {
            for (text, template) in Text::ALL.into_iter().zip(texts) {
                // A name that a text does not know makes the whole template fall away.
                role.extend(template.map(|template| (text, template.to_owned())));
            }
        }
        plan
    })
}

fn feedback() -> Feedback {
    let faults = vec!["a fault".to_owned()];
    Feedback { faults, ..fixture::feedback(Reason::InvalidArguments, "no") }
}

fn act() -> impl Strategy<Value = Act> {
    let ids = (
        prop::sample::select(vec!["", "a", "a_"]),
        prop::sample::select(vec![None, Some("k"), Some("a")]),
    );
    let called = (any::<(bool, bool)>(), ids).prop_map(|((is_faulty, is_json), (id, key))| {
        let fault = is_faulty.then(feedback);
        let result = fault.as_ref().map_or_else(
            || if is_json { "{\"x\": 1}" } else { "found" }.to_owned(),
            Feedback::to_text,
        );
        let arguments = if is_json { json!({"query": "x"}) } else { serde_json::Value::Null };
        let read = ReadCall {
            id: id.to_owned(),
            name: "search".to_owned(),
            raw: arguments.to_string(),
            arguments: arguments.into(),
            written: String::new(),
            fault,
        };
        let key = key.map(|key| CallKey::new(key).unwrap());
        Called { read, key, result: Some(result) }
    });
    let text = prop::sample::select(vec!["", "said"]);
    let said = || prop::sample::select(vec!["", "so"]).prop_map(str::to_owned);
    prop_oneof![
        1 => said().prop_map(|text| Act::Answered { text: text.into() }),
        1 => said().prop_map(|text| Act::Continued { text }),
        1 => said().prop_map(|text| Act::Steered { text }),
        1 => prop::sample::select(vec!["", "hm"])
            .prop_map(|raw| Act::Feedback { raw: raw.to_owned(), feedback: feedback() }),
        3 => (text, prop::collection::vec(called, 1..4), any::<bool>())
            .prop_map(|(text, calls, reasons)| {
                let reasoning = reasons.then(|| fixture::reasoning(vec![json!({"s": 1})]));
                Act::Calls { text: text.to_owned(), calls, reasoning }
            }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), prop::collection::vec(act(), 0..4)).prop_map(|(thinks, acts)| {
        Step { thought: thinks.then(|| "a thought".to_owned()), planned: None, acts }
    });
    prop::collection::vec(step, 1..5)
}

proptest! {
    #[test]
    fn what_is_kept_begins_every_later_prompt(plan in plan(), steps in steps(), told in 0..3_usize) {
        let exchange = Exchange { user: "Hey".to_owned(), answer: "Hello!".into(), tainted: false };
        let history = vec![exchange; told];
        let catalogue = Catalogue::new(Arc::new(plan));
        for role in [ModelRole::Thinker, ModelRole::Actor] {
            let prompts: Vec<_> = turns(role, &steps)
                .iter()
                .map(|steps| {
                    let plan = catalogue.plan();
                    prompt(role, &catalogue, &Transcript { plan, history: &history, request: "Q", steps })
                })
                .collect();
            let transcripts = turns(role, &steps);
            let (mut all, mut first) = (Kept::default(), Kept::default());
            all.add(&prompts[0]);
            first.add(&prompts[0]);
            for (steps, (earlier, later)) in
                transcripts.iter().skip(1).zip(prompts.iter().zip(prompts.iter().skip(1)))
            {
                // What was told before is told again without being rendered, and one may have been
                // told something longer ago.
                let plan = catalogue.plan();
                let transcript = Transcript { plan, history: &history, request: "Q", steps };
                for before in [&all, &first] {
                    let after = prompt_after(role, &catalogue, &transcript, before);
                    prop_assert_eq!(&after.head, &later.head);
                    prop_assert_eq!((after.all(before), after.keep), (later.messages.clone(), later.keep));
                    prop_assert_eq!(after.whole, later.whole);
                }
                all.add(later);
                prop_assert_eq!(&all.messages()[..], &later.messages[..later.keep]);
                prop_assert_eq!(&earlier.head, &later.head);
                prop_assert!(earlier.keep <= later.keep && later.keep <= later.messages.len());
                prop_assert_eq!(&earlier.messages[..earlier.keep], &later.messages[..earlier.keep]);
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_planner_begins_every_later_prompt(
        texts in prop::collection::vec(text(), Text::ALL.len()),
        steps in steps(),
        told in 0..3_usize,
    ) {
        let mut plan = fixture::planning(Dialect::Native);
        for (text, template) in Text::ALL.into_iter().zip(texts) {
            plan.prompts.planner.extend(template.map(|template| (text, template.to_owned())));
        }
        let exchange = Exchange { user: "Hey".to_owned(), answer: "Hello!".into(), tainted: false };
        let history = vec![exchange; told];
        let planned = Planned {
            tool: "search".to_owned(),
            task: "Look.".to_owned(),
            thoughts: String::new(),
            summary: String::new(),
        };
        let planned = |step| Step { planned: Some(planned.clone()), ..step };
        let steps: Vec<Step> = steps.into_iter().map(planned).collect();
        let catalogue = Catalogue::new(Arc::new(plan));
        let prompts: Vec<_> = turns(ModelRole::Thinker, &steps)
            .iter()
            .map(|steps| {
                let plan = catalogue.plan();
                let transcript = Transcript { plan, history: &history, request: "Q", steps };
                prompt(ModelRole::Thinker, &catalogue, &transcript)
            })
            .collect();
        for (earlier, later) in prompts.iter().zip(prompts.iter().skip(1)) {
            prop_assert_eq!(earlier.keep, later.keep);
            prop_assert_eq!(&earlier.messages[..earlier.keep], &later.messages[..earlier.keep]);
        }
    }

    /// Whatever a session says was sent before, the beginning is what the plan and the history say.
    #[test]
    fn the_beginning_is_taken_from_before_only_where_it_is_the_same(
        plan in plan(),
        other in plan(),
        steps in steps(),
        (told, told_before) in (0..3_usize, 0..3_usize),
    ) {
        let exchange = |number: usize| Exchange {
            user: format!("Hey {number}"),
            answer: "Hello!".into(),
            tainted: false,
        };
        let history: Vec<Exchange> = (0..3).map(exchange).collect();
        let render = |plan: &Plan, told: usize, before: &Kept| {
            let plan = Plan { dialect: Dialect::Native, ..plan.clone() };
            let catalogue = Catalogue::new(Arc::new(plan));
            let history = &history[..told];
            let plan = catalogue.plan();
            let transcript = Transcript { plan, history, request: "Q", steps: &steps[..0] };
            prompt_after(ModelRole::Actor, &catalogue, &transcript, before)
        };
        let none = Kept::default();
        let messages = render(&other, told_before, &none).messages;
        let before = Kept { messages: Arc::new(messages), ..Kept::default() };
        prop_assert_eq!(render(&plan, told, &before).messages, render(&plan, told, &none).messages);
    }

    /// What was told before is not only the same, it is not made again.
    #[test]
    fn with_our_own_texts_a_prompt_shares_what_was_told_before(steps in steps()) {
        let catalogue = Catalogue::new(Arc::new(fixture::plan(Dialect::Native, false)));
        let exchange = Exchange { user: "Hey".to_owned(), answer: "Hello!".into(), tainted: false };
        let history = vec![exchange; 2];
        let transcript =
            |steps| Transcript { plan: catalogue.plan(), history: &history, request: "Q", steps };
        let earlier = prompt(ModelRole::Actor, &catalogue, &transcript(&steps[..steps.len() - 1]));
        let mut before = Kept::default();
        before.add(&earlier);
        let after = prompt_after(ModelRole::Actor, &catalogue, &transcript(&steps), &before);
        let told = steps[..steps.len() - 1].iter().rposition(|step| !step.acts.is_empty());
        let acts = told.map_or((0, 0), |step| (step, steps[step].acts.len()));
        prop_assert_eq!(before.whole.acts, acts);
        prop_assert_eq!(after.known, before.whole.messages);
        for (at, (earlier, later)) in before.messages.iter().zip(&after.all(&before)).enumerate() {
            // The request is made again as long as no reply follows it.
            let is_again = told.is_none() && earlier.content() == "Q";
            prop_assert!(Arc::ptr_eq(earlier, later) || is_again, "{}: {:?}", at, earlier);
        }
    }

    /// With our own texts nothing is held back: all that stands before the question is kept.
    #[test]
    fn our_own_texts_keep_all_that_is_over(steps in steps(), thinker in any::<bool>()) {
        for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
            let catalogue = Catalogue::new(Arc::new(fixture::plan(dialect, thinker)));
            let transcript =
                Transcript { plan: catalogue.plan(), history: &[], request: "Q", steps: &steps };
            let prompt = prompt(ModelRole::Actor, &catalogue, &transcript);
            let held_back = prompt.messages.len() - prompt.keep;
            let current = steps.last().map_or(0, |step| step.acts.len());
            let most = match dialect {
                Dialect::Schema => 2 + 2 * current,
                Dialect::Native | Dialect::Json | Dialect::React => 1,
            };
            prop_assert!(held_back <= most, "{:?}: {} held back", dialect, held_back);
        }
    }
}
