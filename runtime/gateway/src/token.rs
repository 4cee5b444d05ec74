//! The token by which clients of the doors show that they may come in.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// The fewest characters of a token: 24 random ones of base64 have 144 bits, and a word that
/// somebody thought up is rarely as long.
pub const TOKEN_CHARS_MIN: usize = 24;

/// The most characters of a token; what is longer fits ill into a header.
pub const TOKEN_CHARS_MAX: usize = 512;

/// A token, of which only a hash is kept.
#[derive(Clone)]
pub struct Token(blake3::Hash);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} printable ASCII characters without \
     spaces; `head -c 32 /dev/urandom | base64` makes one"
)]
pub struct TokenError;

impl Token {
    /// Takes a token that can stand in a header and is long enough not to be guessed.
    pub fn new(secret: &SecretString) -> Result<Self, TokenError> {
        let text = secret.expose_secret();
        let fits = (TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError);
        }
        Ok(Self(blake3::hash(text.as_bytes())))
    }

    /// Tells whether a text is the token, in a time that does not depend on where they differ.
    pub(crate) fn fits(&self, given: &str) -> bool {
        // Hashes of this type are compared in constant time.
        self.0 == blake3::hash(given.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_fits_into_a_header() {
        let long = "x".repeat(TOKEN_CHARS_MAX);
        let cases = [
            ("", false),
            ("secret", false),
            ("abcdefghijklmnopqrstuvwx", true),
            ("abcdefghijklmnopqrstuvw", false),
            ("abcdefghijkl nopqrstuvwxyz", false),
            ("abcdefghijklmnopqrstuvwxyé", false),
            ("abcdefghijklmnopqrstuvwx\n", false),
            (long.as_str(), true),
            (&format!("{long}x"), false),
        ];
        for (text, expected) in cases {
            let token = Token::new(&SecretString::from(text.to_owned()));
            assert_eq!(token.is_ok(), expected, "{text:?}");
            if let Ok(token) = token {
                assert!(token.fits(text) && !token.fits(&text.to_uppercase()));
                assert!(!format!("{token:?}").contains(text));
            }
        }
    }
}
