//! Statements of Cypher as far as they are understood without a server.

use super::super::database::{Columns, Described, Parameter};
use super::super::scan::{Language, Token, pieces};

/// What a statement may begin with. The rest is for those who look after a server.
const BEGINNINGS: [&str; 11] = [
    "match", "optional", "unwind", "with", "call", "return", "show", "create", "merge", "foreach",
    "drop",
];

/// Words that write, unless they are names of properties, labels or parts of maps.
const WRITES: [&str; 8] =
    ["create", "merge", "set", "delete", "detach", "remove", "foreach", "drop"];

/// Reads a statement.
pub(super) fn parsed(text: &str) -> Result<Described, String> {
    let pieces = pieces(Language::Cypher, text)?;
    let tokens: Vec<Token<'_>> = pieces.into_iter().map(|(token, _)| token).collect();
    let mut rest = tokens.iter().skip_while(|token| **token != Token::Sign(';'));
    if rest.any(|token| *token != Token::Sign(';')) {
        return Err(
            "there is more than one statement; write them as `statements = [..]`".to_owned()
        );
    }
    match tokens.first() {
        None | Some(Token::Sign(';')) => return Err("there is no statement".to_owned()),
        Some(Token::Word(word)) if BEGINNINGS.iter().any(|one| one.eq_ignore_ascii_case(word)) => {}
        Some(Token::Word(word)) => {
            let begins = BEGINNINGS.join(", ");
            return Err(format!("`{word}` is not for statements; they begin with one of {begins}"));
        }
        Some(_) => return Err("a statement begins with a word such as `MATCH`".to_owned()),
    }
    if has_word(&tokens, &["load"]) {
        return Err("`LOAD` reaches beyond the database, and is not for statements".to_owned());
    }
    let parameters = tokens.iter().filter_map(|token| match token {
        Token::Parameter(name) => Some(Parameter::Named((*name).to_owned())),
        Token::Strange(written) => Some(Parameter::Strange((*written).to_owned())),
        Token::Word(_) | Token::Quoted | Token::Sign(_) => None,
    });
    let returns = has_word(&tokens, &["return", "show", "yield"]);
    Ok(Described {
        parameters: parameters.collect(),
        columns: if returns { Columns::Open } else { Columns::Known(Vec::new()) },
        is_read: !has_word(&tokens, &WRITES),
    })
}

/// Tells whether a keyword stands somewhere; what follows a dot or a colon, or is followed by a
/// colon, is a name.
fn has_word(tokens: &[Token<'_>], words: &[&str]) -> bool {
    (0..tokens.len()).any(|at| {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let is_name = matches!(before, Some(Token::Sign('.' | ':')))
            || matches!(tokens.get(at + 1), Some(Token::Sign(':')));
        let is_one_of = |word: &str| words.iter().any(|one| one.eq_ignore_ascii_case(word));
        matches!(tokens.get(at), Some(Token::Word(word)) if !is_name && is_one_of(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart() {
        for (text, names, is_read, returns) in [
            ("MATCH (n {a: $x}) RETURN n.set, n.`delete`, 'CREATE'", vec!["x"], true, true),
            ("match (n:Set {create: 1}) return n // DELETE", vec![], true, true),
            ("MATCH (n) SET n.a = $y", vec!["y"], false, false),
            ("MERGE (n:A {k: $k}) RETURN n;", vec!["k"], false, true),
            ("MATCH (n) DETACH DELETE n", vec![], false, false),
            ("UNWIND [1] AS x FOREACH (y IN [x] | CREATE (:A))", vec![], false, false),
        ] {
            let found = parsed(text).unwrap();
            let parameters = names.iter().map(|&name| Parameter::Named(name.to_owned()));
            assert_eq!(found.parameters, parameters.collect::<Vec<_>>(), "{text}");
            assert_eq!((found.is_read, found.columns.has_some()), (is_read, returns), "{text}");
        }
        for (text, part) in [
            ("", "there is no statement"),
            ("RETURN 1; RETURN 2", "more than one statement"),
            ("GRANT ROLE a TO b", "`GRANT` is not for statements"),
            ("USE other MATCH (n) RETURN n", "`USE` is not for statements"),
            ("MATCH (n) WITH n LOAD CSV FROM 'file:///x' AS l RETURN l", "`LOAD` reaches beyond"),
            ("RETURN 'x", "not closed (line 1)"),
            ("(n)", "begins with a word"),
        ] {
            let fault = parsed(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }
}
