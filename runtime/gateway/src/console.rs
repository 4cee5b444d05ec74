//! The console: a page and its files, which are part of the binary.
//!
//! Its files lie below a path that has their digest in it, so a browser keeps them for good and
//! never mixes those of two versions.

use std::io::{self, Read as _};
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;
use wire::{Digest, ErrorCode};

use crate::refusal::Refusal;
use crate::state::{Segments, listed, shown};

/// A file of the console.
struct File {
    name: &'static str,
    /// Its content in the format gzip.
    packed: &'static [u8],
}

impl File {
    /// Returns the content, for a client that takes it in no other way.
    fn content(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        GzDecoder::new(self.packed).read_to_end(&mut content)?;
        Ok(content)
    }
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(File {
            name: $name,
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")),
        },)*]
    };
}

/// The files that the page loads.
const FILES: &[File] = files![
    "app.js",
    "approvals.js",
    "calls.js",
    "chart.js",
    "conversation.js",
    "console.css",
    "dom.js",
    "format.js",
    "graph.js",
    "icon.svg",
    "json.js",
    "keys.js",
    "live.js",
    "memory.js",
    "net.js",
    "run.js",
    "runs.js",
    "sessions.js",
    "sign_in.js",
    "story.js",
    "teams.js",
    "theme.css",
    "usage.js",
    "views.css",
    "waterfall.js",
];

/// The page, in which this stands where the version belongs.
const PAGE: &str = include_str!("../console/index.html");
const VERSION_MARK: &str = "VERSION";

/// How many hex digits of the digest name a version.
const VERSION_DIGITS: usize = 16;

struct Console {
    version: String,
    page: String,
    tag: HeaderValue,
}

static CONSOLE: LazyLock<Console> = LazyLock::new(|| {
    let of_files = FILES.iter().fold(Digest::of(PAGE.as_bytes()), |digest, file| {
        digest.then(file.name.as_bytes()).then(file.packed)
    });
    let version: String = of_files.to_string().chars().take(VERSION_DIGITS).collect();
    let page = PAGE.replace(VERSION_MARK, &version);
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    Console { page, tag: tag.unwrap_or(HeaderValue::from_static("\"\"")), version }
});

/// Serves the page.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    let console = &*CONSOLE;
    let has_it = listed(&headers, header::IF_NONE_MATCH)
        .any(|tag| tag.trim_start_matches("W/").as_bytes() == console.tag.as_bytes());
    let kept = [
        (header::ETAG, console.tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if has_it {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (kept, kind, Body::from(console.page.clone())).into_response()
}

/// Serves a file of the page, packed if the client takes it so, as browsers do.
pub(crate) async fn file(
    Segments((version, name)): Segments<(String, String)>,
    asked: HeaderMap,
) -> Result<Response, Refusal> {
    let file = FILES.iter().find(|file| file.name == name);
    let Some(file) = file.filter(|_| version == CONSOLE.version) else {
        let text = format!("the console has no file {} of this version", shown(&name));
        return Err(Refusal::with_status(StatusCode::NOT_FOUND, text));
    };
    let headers = [
        (header::CONTENT_TYPE, kind_of(file.name)),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
    ];
    if takes_gzip(&asked) {
        let packed = [(header::CONTENT_ENCODING, "gzip")];
        return Ok((headers, packed, Bytes::from_static(file.packed)).into_response());
    }
    let content = file.content().map_err(|error| {
        Refusal::new(ErrorCode::Internal, format!("the file cannot be unpacked: {error}"))
    })?;
    Ok((headers, content).into_response())
}

/// Tells whether a client says that it takes the format gzip.
fn takes_gzip(asked: &HeaderMap) -> bool {
    listed(asked, header::ACCEPT_ENCODING).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        // A weight of nothing is a refusal.
        let weight = parts.find_map(|part| part.strip_prefix("q=")).unwrap_or("1");
        is_gzip && weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)
    })
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_loaded_by_the_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
        let mut lying: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "index.html")
            .collect();
        lying.sort();
        let mut served: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(served, lying);
        for name in served {
            // Those that are not named are found late, one after the other.
            let path = format!("/console/{VERSION_MARK}/{name}");
            assert!(PAGE.contains(&path), "index.html does not name {path}");
        }
    }

    #[test]
    fn no_file_writes_markup_or_asks_another_server() {
        let words = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "setTimeout(\"",
            "http://",
            "https://",
            " style=",
            " onclick=",
            "javascript:",
            "localStorage",
            "document.cookie",
        ];
        // The name of a namespace is no address.
        let allowed = "http://www.w3.org/2000/svg";
        let of_files = FILES
            .iter()
            .map(|file| (file.name, String::from_utf8(file.content().unwrap()).unwrap()));
        for (name, content) in of_files.chain([("index.html", PAGE.to_owned())]) {
            let content = content.replace(allowed, "");
            for word in words {
                assert!(!content.contains(word), "{name} has {word}");
            }
            let lines = content.lines().count();
            assert!(lines <= 600, "{name} has {lines} lines; split it by meaning");
        }
    }

    #[test]
    fn files_go_packed_to_who_says_that_it_takes_them_so() {
        let rows: [(&[&'static str], bool); 11] = [
            (&[], false),
            (&[""], false),
            (&["identity"], false),
            (&["gzip, deflate, br, zstd"], true),
            (&["br, GZIP"], true),
            (&["br", "gzip"], true),
            (&["gzip;q=0.5"], true),
            (&["gzip; q=0"], false),
            (&["gzip;q=0.000, br"], false),
            (&["gzip;q=x"], false),
            (&["xgzip"], false),
        ];
        for (said, packed) in rows {
            let mut asked = HeaderMap::new();
            for list in said {
                asked.append(header::ACCEPT_ENCODING, HeaderValue::from_static(list));
            }
            assert_eq!(takes_gzip(&asked), packed, "{said:?}");
        }
    }
}
