//! The address of a request: a URL whose path and query have places for arguments.

use reqwest::Url;
use serde_json::{Map, Value};

use crate::template::{Template, encode};

/// The longest address, in bytes. Common servers refuse longer ones.
pub const ADDRESS_BYTES_MAX: usize = 8 * 1024;

/// A URL that arguments can fill but not redirect: scheme and host are fixed unless it says
/// otherwise, and no argument adds a path segment, a query parameter or a fragment.
#[derive(Clone, Debug)]
pub(super) struct Address {
    front: Front,
    segments: Vec<Template>,
    query: Vec<Template>,
}

/// What stands before the path.
#[derive(Clone, Debug)]
enum Front {
    /// Scheme, host and port, as written, and the URL with `x` in every place, for its origin.
    Fixed { text: String, sample: Box<Url> },
    /// A scheme, and a host in which arguments stand.
    Host { scheme: &'static str, host: Template },
    /// One argument that is all of the URL.
    Whole(Template),
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let whole = Template::parse(text);
        if whole.whole().is_some() {
            return Ok(Self {
                front: Front::Whole(whole),
                segments: Vec::new(),
                query: Vec::new(),
            });
        }
        let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme));
        let scheme = scheme.ok_or("the url has to begin with http:// or https://")?;
        if let Some(bad) = text.chars().find(|c| matches!(c, '\\' | '#') || c.is_whitespace()) {
            return Err(format!("the url contains {bad:?}; percent-encode it or leave it out"));
        }
        let rest = text.strip_prefix(scheme).unwrap_or_default();
        let host_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, rest) = rest.split_at_checked(host_end).unwrap_or((rest, ""));
        if host.is_empty() {
            return Err("the url has no host".to_owned());
        }
        if host.contains('@') {
            return Err("the url contains credentials; put them into a secret header".to_owned());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let template = Template::parse(host);
        let front = if template.has_places() {
            Front::Host { scheme, host: template }
        } else {
            let sample = Box::new(parse_sample(text)?);
            Front::Fixed { text: format!("{scheme}{host}"), sample }
        };
        Ok(Self {
            front,
            segments: path.split('/').skip(1).map(Template::parse).collect(),
            query: query.split('&').filter(|part| !part.is_empty()).map(Template::parse).collect(),
        })
    }

    /// Returns a URL of the origin to which all requests go, if that is one.
    pub(super) fn fixed(&self) -> Option<&Url> {
        match &self.front {
            Front::Fixed { sample, .. } => Some(sample),
            Front::Host { .. } | Front::Whole(_) => None,
        }
    }

    /// Tells whether arguments have a part in to whom a request goes.
    pub(super) fn host_varies(&self) -> bool {
        self.fixed().is_none()
    }

    /// Tells whether arguments may lead a request to somebody other than the owner of the domain
    /// that the text of its host ends with.
    pub(super) fn goes_anywhere(&self) -> bool {
        match &self.front {
            Front::Fixed { .. } => false,
            Front::Host { host, .. } => !host.literal_end().is_some_and(is_domain_end),
            Front::Whole(_) => true,
        }
    }

    /// Fills in the arguments; a query parameter of the URL whose argument is absent is left out.
    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<Url, String> {
        let needed = |name: &str| format!("argument {name:?} is needed for the address");
        let unreadable = |error: url::ParseError| format!("make the address: {error}");
        let mut text = match &self.front {
            Front::Fixed { text, .. } => text.clone(),
            Front::Host { scheme, host } => {
                let host = host.fill_plain(arguments).map_err(needed)?;
                let fits = |c: char| c.is_alphanumeric() || ".-_:[]".contains(c);
                if let Some(bad) = host.chars().find(|c| !fits(*c)) {
                    return Err(format!("the arguments put {bad:?} into the host of the address"));
                }
                format!("{scheme}{host}")
            }
            Front::Whole(place) => {
                let text = place.fill_plain(arguments).map_err(needed)?;
                let mut url = Url::parse(text.trim()).map_err(unreadable)?;
                url.set_fragment(None);
                return Ok(url);
            }
        };
        for segment in &self.segments {
            text.push('/');
            let filled = segment.fill(arguments, encode).map_err(needed)?;
            if let Some(name) = segment.names().next() {
                refuse_step(&filled, name)?;
            }
            text.push_str(&filled);
        }
        for (index, part) in
            self.query.iter().filter_map(|part| part.fill(arguments, encode).ok()).enumerate()
        {
            text.push(if index == 0 { '?' } else { '&' });
            text.push_str(&part);
        }
        let url = Url::parse(&text).map_err(unreadable)?;
        if self.fixed().is_some_and(|sample| url.origin() != sample.origin()) {
            return Err("the arguments change the host of the address".to_owned());
        }
        Ok(url)
    }
}

/// Returns host and port, for messages.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Tells whether the end of a host with its port is a dot and a domain that somebody may own.
///
/// One label is a registry such as `com`, below which everybody has a name, and a host whose last
/// label begins with a digit is the address of a machine. Longer suffixes below which names are
/// given away are not known here.
fn is_domain_end(end: &str) -> bool {
    let Some(domain) = end.strip_prefix('.') else { return false };
    let domain = domain.split_once(':').map_or(domain, |(domain, _)| domain).trim_matches('.');
    let labels: Vec<&str> = domain.split('.').collect();
    let is_name = labels.last().is_some_and(|last| last.starts_with(char::is_alphabetic));
    is_name && labels.len() > 1 && labels.iter().all(|label| !label.is_empty())
}

/// Refuses a segment that is nothing or a step up or nowhere. Encoding does not help here: URL
/// parsers take `%2e%2e` for `..`.
fn refuse_step(segment: &str, name: &str) -> Result<(), String> {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    if matches!(plain.as_str(), "" | "." | "..") {
        return Err(format!("argument {name:?} makes the path segment {plain:?}"));
    }
    Ok(())
}

fn parse_sample(text: &str) -> Result<Url, String> {
    let mut places = Map::new();
    let template = Template::parse(text);
    for name in template.names() {
        places.insert(name.to_owned(), Value::from("x"));
    }
    let sample = template.fill_plain(&places).unwrap_or_default();
    Url::parse(&sample).map_err(|error| format!("the url cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fill(url: &str, arguments: &Value) -> Result<String, String> {
        Address::parse(url)?.fill(arguments.as_object().unwrap()).map(String::from)
    }

    #[test]
    fn arguments_stay_in_their_segment() {
        let cases = [
            ("http://h/a/{x}/b", json!({"x": "c d"}), Ok("http://h/a/c%20d/b")),
            ("http://h/{x}", json!({"x": "a/b?c#d&e=f%"}), Ok("http://h/a%2Fb%3Fc%23d%26e%3Df%25")),
            ("http://h/{x}", json!({"x": "\\..\\@evil:80"}), Ok("http://h/%5C..%5C%40evil%3A80")),
            ("http://h/{x}", json!({"x": "Graz ä"}), Ok("http://h/Graz%20%C3%A4")),
            ("http://h/{x},{y}", json!({"x": 1.5, "y": true}), Ok("http://h/1.5,true")),
            ("http://h/v{x}", json!({"x": ""}), Ok("http://h/v")),
            ("http://h:81?a={x}&b={y}", json!({"x": "1&b=2"}), Ok("http://h:81/?a=1%26b%3D2")),
            ("http://h/p?a={x}&k=v", json!({"x": null}), Ok("http://h/p?k=v")),
            ("http://h/{x}", json!({"x": ".."}), Err("makes the path segment \"..\"")),
            ("http://h/.{x}", json!({"x": "."}), Err("makes the path segment \"..\"")),
            ("http://h/%2E{x}", json!({"x": "."}), Err("makes the path segment \"..\"")),
            ("http://h/{x}", json!({"x": ""}), Err("makes the path segment \"\"")),
            ("http://h/{x}", json!({}), Err("argument \"x\" is needed")),
            ("http://h/{x}", json!({"x": null}), Err("argument \"x\" is needed")),
            ("http://{x}/a", json!({"x": "h"}), Ok("http://h/a")),
            ("http://{x}:8{y}/a", json!({"x": "[::1]", "y": 1}), Ok("http://[::1]:81/a")),
            ("https://{x}.test/{y}", json!({"x": "a.b", "y": "c/d"}), Ok("https://a.b.test/c%2Fd")),
            ("https://{x}.test/", json!({"x": "evil.test/"}), Err("put '/' into the host")),
            ("https://{x}.test/", json!({"x": "evil.test#"}), Err("put '#' into the host")),
            ("https://{x}.test/", json!({"x": "u@evil"}), Err("put '@' into the host")),
            ("https://{x}.test/", json!({"x": "a\\b"}), Err("put '\\\\' into the host")),
            ("https://{x}.test/", json!({"x": "h:80"}), Err("make the address")),
            ("https://{x}.test/", json!({}), Err("argument \"x\" is needed")),
            ("{x}", json!({"x": " https://h/a?b=c#d"}), Ok("https://h/a?b=c")),
            ("{x}", json!({"x": "h/a"}), Err("make the address")),
            ("{x}", json!({}), Err("argument \"x\" is needed")),
        ];
        for (url, arguments, expected) in cases {
            match (fill(url, &arguments), expected) {
                (Ok(filled), Ok(expected)) => assert_eq!(filled, expected, "{url} {arguments}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{url}: {error}"),
                (result, _) => panic!("{url} {arguments}: {result:?}"),
            }
        }
    }

    #[test]
    fn addresses_that_could_lead_elsewhere_are_refused() {
        for (url, fault) in [
            ("", "begin with http:// or https://"),
            ("ftp://h/", "begin with http:// or https://"),
            ("{base}/x", "begin with http:// or https://"),
            ("http://u:p@h/", "credentials"),
            ("http://h\\{x}", "contains '\\\\'"),
            ("http://h/#{x}", "contains '#'"),
            ("http://h/a b", "contains ' '"),
            ("http:///x", "no host"),
            ("http:///{x}/", "no host"),
            ("http://h:99999/", "cannot be read"),
            ("http://", "no host"),
            ("http://?{x}", "no host"),
        ] {
            let error = Address::parse(url).map(|_| ()).expect_err(url);
            assert!(error.contains(fault), "{url}: {error}");
        }
    }

    #[test]
    fn who_decides_on_the_host_is_known() {
        for (url, led, anywhere) in [
            ("http://h/{x}", false, false),
            ("https://{x}.example.test/{y}", true, false),
            ("https://{x}.example.test:8443/{y}", true, false),
            ("https://{x}.example.test./", true, false),
            ("https://{x}.a.{y}.example.test/", true, false),
            ("https://api.{zone}", true, true),
            ("https://{x}example.test", true, true),
            ("https://{x}.com/", true, true),
            ("https://{x}.com:8443/", true, true),
            ("https://{x}.com./", true, true),
            ("https://{x}..com./", true, true),
            ("https://{x}.a..com/", true, true),
            ("https://{x}./", true, true),
            ("https://{x}.:443/", true, true),
            ("https://{x}.example.com:{y}/", true, true),
            ("https://{x}.example.{y}.com/", true, true),
            ("https://{x}.8.8.8/", true, true),
            ("http://{x}/", true, true),
            ("http://h:{x}/", true, true),
            ("{x}", true, true),
        ] {
            let address = Address::parse(url).unwrap();
            let found = (address.host_varies(), address.goes_anywhere());
            assert_eq!(found, (led, anywhere), "{url}");
        }
    }

    proptest! {
        #[test]
        fn no_argument_moves_the_request(first in "\\PC{0,12}", second in "[./%\\\\2eE?#]{0,6}") {
            let arguments = json!({"x": first, "y": second});
            if let Ok(filled) = fill("http://h:8/a/{x}/b/{y}?q={y}", &arguments) {
                let url = Url::parse(&filled).unwrap();
                let segments: Vec<&str> = url.path_segments().unwrap().collect();
                prop_assert_eq!((segments.len(), segments[0], segments[2]), (4, "a", "b"));
                prop_assert_eq!((url.host_str(), url.port()), (Some("h"), Some(8)));
                prop_assert_eq!(url.query_pairs().count(), 1);
                prop_assert_eq!(url.fragment(), None);
            }
        }
    }
}
