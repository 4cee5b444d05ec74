//! `callboard explain`: the help page of an error code.

use wire::ErrorCode;

use crate::args::Explain;
use crate::failure::{Exit, Failure};
use crate::screen;

/// Prints the page of a code, or all codes.
pub(crate) fn explain(args: &Explain) -> Result<Exit, Failure> {
    let Some(code) = &args.code else {
        let line = |code: &ErrorCode| format!("{code}  {}\n", code.title());
        screen::answer(&ErrorCode::ALL.iter().map(line).collect::<String>())?;
        return Ok(Exit::Done);
    };
    let code: ErrorCode = code.trim().parse().map_err(|error| {
        let near = nearest(code).map_or_else(String::new, |near| format!("did you mean {near}? "));
        let text = format!("{error}; {near}`callboard explain` lists all");
        Failure::new(ErrorCode::BadRequest, text)
    })?;
    screen::answer(code.page())?;
    Ok(Exit::Done)
}

/// Finds the code whose number is nearest, or whose title has the word.
fn nearest(text: &str) -> Option<ErrorCode> {
    let digits: String = text.chars().filter(char::is_ascii_digit).take(6).collect();
    let number = |code: &str| code.chars().skip(1).collect::<String>().parse::<u32>().ok();
    let Ok(asked) = digits.parse::<u32>() else {
        let word = text.to_lowercase();
        let has_word = |code: &ErrorCode| code.title().to_lowercase().contains(&word);
        return ErrorCode::ALL.iter().copied().find(has_word);
    };
    let distance = |code: &ErrorCode| number(code.as_str()).map(|known| known.abs_diff(asked));
    ErrorCode::ALL.iter().copied().min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_code_is_found() {
        let cases = [
            ("E1033", Some(ErrorCode::NotSignedIn)),
            ("1003", Some(ErrorCode::UnknownAgent)),
            ("E9999", Some(ErrorCode::SandboxUnavailable)),
            ("overloaded", Some(ErrorCode::Overloaded)),
            ("nonsense", None),
        ];
        for (text, expected) in cases {
            assert_eq!(nearest(text), expected, "{text}");
        }
    }
}
