//! The page, its files, the headers of all answers, and what browsers may ask for.

use std::collections::BTreeSet;
use std::io::Read as _;

use flate2::read::GzDecoder;
use gateway::view::UsageList;
use reqwest::Method;
use serde_json::json;

use crate::events::Events;
use crate::house::{House, read};

/// Returns the addresses that the page names.
fn named(page: &str) -> BTreeSet<String> {
    let parts = page.split('"').filter(|part| part.starts_with("/console/"));
    parts.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_its_files_are_served() {
    let house = House::open().await;
    let page = house.request(Method::GET, "/").send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers()["cache-control"], "no-cache");
    let tag = page.headers()["etag"].clone();
    let page = page.text().await.unwrap();
    let files = named(&page);
    assert!(files.len() > 20, "{files:?}");
    let mut bytes = page.len();
    for file in &files {
        let response = house.request(Method::GET, file).send().await.unwrap();
        assert_eq!(response.status(), 200, "{file}");
        let cached = &response.headers()["cache-control"];
        assert_eq!(cached, "public, max-age=31536000, immutable", "{file}");
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let expected = match file.rsplit_once('.').unwrap().1 {
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "js" => "text/javascript; charset=utf-8",
            other => panic!("{other}"),
        };
        assert_eq!(kind, expected, "{file}");
        let content = response.bytes().await.unwrap();
        bytes += content.len();

        let request = house.request(Method::GET, file).header("accept-encoding", "gzip, br");
        let response = request.send().await.unwrap();
        for (name, value) in [("content-encoding", "gzip"), ("vary", "accept-encoding")] {
            assert_eq!(response.headers()[name], value, "{file}");
        }
        let packed = response.bytes().await.unwrap();
        let mut unpacked = Vec::new();
        GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, content, "{file}");
    }
    assert!(bytes < 160 * 1024, "the console has {bytes} bytes");
    let version = tag.to_str().unwrap().trim_matches('"');
    assert!(files.iter().all(|file| file.starts_with(&format!("/console/{version}/"))));

    let weak = format!("\"other\", W/{}", tag.to_str().unwrap());
    for (given, status) in [(tag.to_str().unwrap(), 304), (&weak, 304), ("\"other\"", 200)] {
        let request = house.request(Method::GET, "/").header("if-none-match", given);
        assert_eq!(request.send().await.unwrap().status(), status, "{given}");
    }
    for path in [
        "/console/0000000000000000/app.js".to_owned(),
        format!("/console/{version}/none.js"),
        format!("/console/{version}/..%2f..%2fCargo.toml"),
        format!("/console/{version}/"),
    ] {
        assert_eq!(house.get(&path).await.0, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_kept_apart_from_other_pages() {
    let house = House::open().await;
    let paths = ["/", "/health", "/v1/teams", "/v1/teams/none/runs", "/nothing", "/v1/sign-in"];
    for path in paths {
        let response = house.request(Method::GET, path).send().await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|found| found == part), "{path}: {policy} lacks {part}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("data:"), "{policy}");
        for (name, expected) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-embedder-policy", "require-corp"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", if path == "/" { "no-cache" } else { "no-store" }),
        ] {
            assert_eq!(header(name), expected, "{path} {name}");
        }
    }
}

/// Method, path and headers of a request, and the status of its answer.
type Case<'a> = (Method, &'a str, &'a [(&'a str, &'a str)], u16);

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_cannot_make_a_browser_ask() {
    let house = House::open().await;
    let here = format!("http://{}", house.gateway.addr());
    let json = ("content-type", "application/json");
    let site = |site: &'static str| ("sec-fetch-site", site);
    let origin = ("origin", here.as_str());
    let cookie = ("cookie", "callboard_1=x");
    let cases: [Case<'_>; 19] = [
        // Programs say nothing of where they are.
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[], 404),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[("content-type", "text/plain")], 404),
        // The console.
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[origin, site("same-origin"), json], 404),
        (Method::GET, "/v1/teams", &[site("same-origin")], 200),
        (Method::GET, "/v1/teams", &[site("none")], 200),
        // Forms of other sites, and of neighbours on the same host.
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[site("cross-site")], 403),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[site("cross-site"), json], 403),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[site("same-site"), json], 403),
        (Method::POST, "/v1/sign-out", &[site("cross-site"), json], 403),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[("origin", "null"), json], 403),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[("origin", "http://e.example")], 403),
        // What a page can send without asking is no JSON.
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[origin], 415),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[cookie], 415),
        (
            Method::POST,
            "/v1/teams/crew/runs/r-9/cancel",
            &[cookie, ("content-type", "text/plain")],
            415,
        ),
        (Method::POST, "/v1/teams/crew/runs/r-9/cancel", &[cookie, json], 404),
        // Pictures and frames of other sites; links to the page are fine.
        (Method::GET, "/v1/teams", &[site("cross-site")], 403),
        (Method::GET, "/v1/events", &[site("same-site")], 403),
        (Method::GET, "/", &[site("cross-site")], 200),
        (Method::POST, "/", &[site("cross-site"), json], 403),
    ];
    for (method, path, headers, status) in cases {
        let request =
            headers.iter().fold(house.request(method.clone(), path), |request, (name, value)| {
                request.header(*name, *value)
            });
        let (found, body) = read(request).await;
        assert_eq!(found.as_u16(), status, "{method} {path} {headers:?}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_any_run_is_noticed() {
    let house = House::open().await;
    let mut notices = Events::open(house.request(Method::GET, "/v1/events")).await;
    house.ask("r-1", "delegate this").await;
    let mut found = Vec::new();
    loop {
        let notice = notices.next().await.unwrap();
        let is_last = notice.kind == "run_ended" && notice.data["run"] == "r-1";
        assert_eq!((&notice.id, &notice.data["team"]), (&None, &json!("crew")));
        assert!(notice.data.get("input").is_none(), "{:?}", notice.data);
        found.push((notice.kind, notice.data["depth"].as_u64().unwrap()));
        if is_last {
            break;
        }
    }
    let expected = [
        ("run_accepted", 0),
        ("run_started", 0),
        ("run_accepted", 1),
        ("run_started", 1),
        ("run_ended", 1),
        ("call_ended", 0),
        ("run_ended", 0),
    ];
    assert_eq!(found, expected.map(|(kind, depth)| (kind.to_owned(), depth)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_models_used_is_told_by_agent() {
    let house = House::open().await;
    let reply = house.ask("r-1", "delegate this").await;
    let (status, body) = house.get("/v1/teams/crew/usage?days=2").await;
    assert_eq!(status, 200, "{body}");
    let list: UsageList = serde_json::from_value(body).unwrap();
    let turns = |agent: &str| {
        let rows = list.usage.iter().filter(|row| row.agent.as_str() == agent);
        rows.map(|row| row.turns).sum::<u64>()
    };
    assert_eq!((turns("lead"), turns("helper")), (2, 1), "{list:?}");
    let tokens: u64 = list.usage.iter().map(|row| row.usage.total()).sum();
    let usage = &reply["usage"];
    let told = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    assert_eq!(tokens, told);
    let (_, runs) = house.get("/v1/teams/crew/runs").await;
    assert_eq!(runs["runs"][1]["usage"], *usage, "{runs}");
    assert_eq!(house.get("/v1/teams/crew/usage?day=2").await.0, 400);
}
