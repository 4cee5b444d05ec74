//! The headers that the environment names for receivers of OTLP, such as a key. The exporters of
//! OpenTelemetry read them by themselves, so what is secret in them is made known here.

use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_METRICS_HEADERS,
    OTEL_EXPORTER_OTLP_TRACES_HEADERS,
};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;

/// The variables with headers in them.
const VARIABLES: [&str; 3] = [
    OTEL_EXPORTER_OTLP_HEADERS,
    OTEL_EXPORTER_OTLP_TRACES_HEADERS,
    OTEL_EXPORTER_OTLP_METRICS_HEADERS,
];

/// The schemes behind which a header says who we are.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Letters up to which a word is no key, but the name of an organisation or of a data set: taken out
/// of texts, `default` would be missing everywhere.
const WORD_BYTES_MAX: usize = 20;

/// Makes the secrets in the headers known to the process, so that nobody else is told them.
pub(crate) fn learn() {
    for variable in VARIABLES {
        #[expect(clippy::disallowed_methods, reason = "the exporters read it from there as well")]
        let headers = std::env::var(variable).unwrap_or_default();
        for secret in secrets(&headers) {
            tools::secret::learn(&SecretString::from(secret));
        }
    }
}

/// Returns what may be secret in a list of headers, each as it is written and as it is sent.
fn secrets(headers: &str) -> Vec<String> {
    let values = headers.split(',').filter_map(|header| header.split_once('='));
    let written = values.map(|(_, value)| value.trim().to_owned());
    let mut found: Vec<String> = written
        .flat_map(|written| {
            let sent = percent_decode_str(&written).decode_utf8().ok().map(String::from);
            sent.into_iter().chain([written])
        })
        .flat_map(|value| {
            let key = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme));
            let key = key.map(|(_, key)| key.trim().to_owned());
            key.into_iter().chain([value])
        })
        .filter(|value| !value.is_empty() && !is_word(value))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn is_scheme(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.eq_ignore_ascii_case(scheme))
}

fn is_word(text: &str) -> bool {
    text.len() <= WORD_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_headers_is_found() {
        let cases: [(&str, &[&str]); 10] = [
            ("", &[]),
            ("no header", &[]),
            ("api-key=", &[]),
            ("api-key=k3y-of-ours", &["k3y-of-ours"]),
            (" api-key = k3y-of-ours , x-team=t0ken ", &["k3y-of-ours", "t0ken"]),
            ("authorization=Bearer abc.d3f", &["Bearer abc.d3f", "abc.d3f"]),
            (
                "Authorization=basic%20dXNlcjpwYXNz%3D",
                &["basic dXNlcjpwYXNz=", "basic%20dXNlcjpwYXNz%3D", "dXNlcjpwYXNz="],
            ),
            ("authorization=Bearer a=b=1,", &["Bearer a=b=1", "a=b=1"]),
            ("api-key=100%ff1", &["100%ff1"]),
            ("organization=default,stream-name=our-traces,x-key=Default", &["Default"]),
        ];
        for (headers, expected) in cases {
            assert_eq!(secrets(headers), expected, "{headers:?}");
        }
    }
}
