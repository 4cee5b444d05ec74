//! Texts with places for other texts.

/// A text with places for other texts: `*` for any, `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<Piece>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Any,
}

impl Glob {
    /// Reads a glob; every text is one, and `\\` takes its meaning from the character after it.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let piece = match c {
                '\\' => Piece::Char(chars.next().unwrap_or('\\')),
                '*' => Piece::Any,
                '?' => Piece::One,
                c => Piece::Char(c),
            };
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        Self(pieces)
    }

    pub(crate) fn lowered(&self) -> Self {
        let lower = |piece: &Piece| match piece {
            Piece::Char(c) => c.to_lowercase().map(Piece::Char).collect(),
            Piece::One | Piece::Any => vec![*piece],
        };
        Self(self.0.iter().flat_map(lower).collect())
    }

    /// Tells whether it stands for the whole of a text.
    pub fn matches(&self, text: &str) -> bool {
        // The shortest text is tried for the last `*` first, and a longer one wherever that fails.
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut piece) = (0, 0);
        let mut last_any: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.0.get(piece) {
                Some(Piece::Any) => {
                    last_any = Some((piece, at));
                    piece += 1;
                }
                Some(Piece::One) => (at, piece) = (at + 1, piece + 1),
                Some(Piece::Char(c)) if text.get(at) == Some(c) => {
                    (at, piece) = (at + 1, piece + 1);
                }
                Some(Piece::Char(_)) | None => match last_any {
                    Some((any, from)) => {
                        last_any = Some((any, from + 1));
                        (at, piece) = (from + 1, any + 1);
                    }
                    None => return false,
                },
            }
        }
        self.0.get(piece..).unwrap_or_default().iter().all(|rest| *rest == Piece::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_stand_for_whole_texts() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a*", "a\nb", true),
            ("*@example.com", "x@example.com", true),
            ("*@example.com", "x@example.com.evil.org", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "abab", true),
            ("*a*b", "aba", false),
            (r"\*", "*", true),
            (r"\*", "x", false),
            (r"a\", "a\\", true),
        ];
        for (glob, text, expected) in cases {
            assert_eq!(Glob::parse(glob).matches(text), expected, "{glob} and {text}");
        }
        let hard = "a*".repeat(100) + "b";
        assert!(!Glob::parse(&hard).matches(&"a".repeat(10_000)));
    }
}
