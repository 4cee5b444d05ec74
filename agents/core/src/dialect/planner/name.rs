//! Finds the tool that a planner means, where it does not write the name as it is offered.

use wire::Plan;

use super::super::RESPOND_TO_USER;

/// The name under which some planners were taught to answer.
const FINAL_ANSWER: &str = "final_answer";

/// Returns the offered name, or [`RESPOND_TO_USER`], for what a planner wrote.
///
/// A name as it is offered always stands for itself. Else `-` stands for `_`, a list for its first
/// name, an alias for its tool, `final_answer` and no name at all for the answer. Nothing is
/// matched by likeness.
pub(super) fn meant<'p>(plan: &'p Plan, written: &str) -> Option<&'p str> {
    if let Some(name) = offered(plan, written) {
        return Some(name);
    }
    let whole = written.trim();
    let first = whole.split(',').next().unwrap_or_default().trim();
    if first.is_empty() {
        return Some(RESPOND_TO_USER);
    }
    let [whole_joined, first_joined] = [whole, first].map(|text| text.replace('-', "_"));
    [whole, first, &whole_joined, &first_joined].into_iter().find_map(|name| {
        let by_alias = || {
            let offer = plan.tools.iter().find(|offer| offer.aliases.iter().any(|it| it == name));
            offer.map(|offer| offer.spec.name.as_str())
        };
        let by_habit = || (name == FINAL_ANSWER).then_some(RESPOND_TO_USER);
        offered(plan, name).or_else(by_alias).or_else(by_habit)
    })
}

fn offered<'p>(plan: &'p Plan, name: &str) -> Option<&'p str> {
    let answer = (name == RESPOND_TO_USER).then_some(RESPOND_TO_USER);
    answer.or_else(|| plan.offer(name).map(|offer| offer.spec.name.as_str()))
}

#[cfg(test)]
mod tests {
    use wire::Name;
    use wire::plan::Dialect;

    use super::super::super::fixture;
    use super::*;

    #[test]
    fn a_name_as_it_is_offered_wins_over_every_repair() {
        let mut plan = fixture::plan(Dialect::Native, false);
        let names = ["search_internet", "calculate", "ask-user", "ask_user", "final_answer"];
        plan.tools = names
            .iter()
            .map(|name| {
                let mut offer = plan.tools[0].clone();
                offer.spec.name = Name::new(name).unwrap();
                offer
            })
            .collect();
        plan.tools[1].aliases = vec!["calculate_number".to_owned(), "a, b".to_owned()];
        let answer = Some(RESPOND_TO_USER);
        let cases = [
            ("search_internet", Some("search_internet")),
            (" search_internet\n", Some("search_internet")),
            ("search-internet", Some("search_internet")),
            ("search-internet, calculate", Some("search_internet")),
            ("calculate, search_internet", Some("calculate")),
            ("calculate,", Some("calculate")),
            ("calculate_number", Some("calculate")),
            ("calculate-number", Some("calculate")),
            ("calculate-number, x", Some("calculate")),
            ("a, b", Some("calculate")),
            ("ask-user", Some("ask-user")),
            ("ask_user", Some("ask_user")),
            ("final_answer", Some("final_answer")),
            ("respond_to_user", answer),
            ("respond-to-user", answer),
            ("", answer),
            (" \t", answer),
            (", calculate", answer),
            ("Calculate", None),
            ("calculat", None),
            ("search internet", None),
            ("`calculate`", None),
            ("-", None),
        ];
        for (written, expected) in cases {
            assert_eq!(meant(&plan, written), expected, "{written:?}");
        }
        plan.tools.pop();
        for written in ["final_answer", "final-answer", "final_answer, calculate"] {
            assert_eq!(meant(&plan, written), answer, "{written:?}");
        }
    }
}
