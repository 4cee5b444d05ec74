//! Answers that go on, and answers that have to be of a form.

use std::io::Write as _;

use serde_json::{Value, json};
use wire::{CallOutcome, ErrorCode};

use crate::site::{Answer, Seen, Site, Trap, answer, ok};
use crate::world::{call, client, error, tool};

/// The last page of the site.
const LAST: u32 = 5;

fn page_of(seen: &Seen) -> u32 {
    let (_, query) = seen.target.split_once('?').unwrap_or_default();
    let number = query.split('&').find_map(|pair| pair.strip_prefix("page="));
    number.map_or(1, |number| number.parse().unwrap())
}

fn page(headers: &str, body: &Value) -> Answer {
    answer("200 OK", &format!("content-type: application/json\r\n{headers}"), &body.to_string())
}

/// Answers `/links` with pages that are linked, and `/fields` with pages that name the next one.
fn pages(seen: &Seen) -> Answer {
    let number = page_of(seen);
    let next = (number < LAST).then_some(number + 1);
    if seen.target.starts_with("/links") {
        let link = next.map(|next| format!("link: </links?q=1&page={next}>; rel=\"next\"\r\n"));
        return page(&link.unwrap_or_default(), &json!([number]));
    }
    page("", &json!({"total": LAST, "items": [number], "tags": [], "meta": {"next": next}}))
}

#[tokio::test]
async fn pages_are_put_together() {
    let site = Site::start(pages).await;
    let client = client(site.address);
    let mut key = tempfile::NamedTempFile::new().unwrap();
    write!(key, "hunter2-hunter2").unwrap();
    let fields =
        "next = '/meta/next'\nnext_parameter = 'page'\nitems = '/items'\nquery = { q = '1' }";
    let secret = format!("query = {{ key = {{ file = '{}' }} }}", key.path().display());
    let all = |items: &[u32], next: Option<u32>| json!({"total": 5, "items": items, "tags": [], "meta": {"next": next}});
    let more = |value: Value, pages: u32| {
        json!(format!("{value}\n[cut after {pages} pages; there are more]"))
    };
    for (path, more_fields, expected, asked) in [
        ("links", "pages_max = 10", json!([1, 2, 3, 4, 5]), 5),
        ("links", "pages_max = 5", json!([1, 2, 3, 4, 5]), 5),
        ("links", "pages_max = 3", more(json!([1, 2, 3]), 3), 3),
        ("links", "pages_max = 1", json!([1]), 1),
        ("links", "", json!([1]), 1),
        ("links", "pages_max = 9\nresponse_bytes_max = 8", more(json!([1, 2]), 2), 3),
        ("links", &format!("pages_max = 2\n{secret}"), more(json!([1, 2]), 2), 2),
        ("fields", &format!("pages_max = 10\n{fields}"), all(&[1, 2, 3, 4, 5], None), 5),
        ("fields", &format!("pages_max = 2\n{fields}"), more(all(&[1, 2], Some(3)), 2), 2),
        (
            "fields",
            "pages_max = 9\nnext = '/meta/next'\nnext_parameter = 'page'",
            json!(format!("{}\n[cut after 1 page; there are more]", all(&[1], Some(2)))),
            1,
        ),
    ] {
        let tool = tool(&format!("url = '{}/{path}'\n{more_fields}", site.base()), &client);
        let outcome = call(&tool, &json!({})).await;
        assert_eq!(outcome, CallOutcome::Ok { output: expected }, "{path} {more_fields}");
        let seen = site.take();
        assert_eq!(seen.len(), asked, "{path} {more_fields}");
        let has_key = |seen: &Seen| seen.target.contains("key=hunter2-hunter2");
        assert!(seen.iter().all(|seen| has_key(seen) == more_fields.contains("key")));
        let with_key = |seen: &&Seen| seen.headers.contains_key("idempotency-key");
        assert_eq!(seen.iter().filter(with_key).count(), 1);
    }
}

#[tokio::test]
async fn a_page_is_reached_no_further_than_a_redirect() {
    let trap = Trap::start().await;
    let port = trap.port;
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/away" => page("link: <http://other.test/end>; rel=next\r\n", &json!([1])),
        "/circle" => page("link: </circle>; rel=next\r\n", &json!([1])),
        "/nowhere" => page("link: <http://[>; rel=next\r\n", &json!([1])),
        "/broken" => page("link: </none>; rel=next\r\n", &json!([1])),
        "/end" => page("", &json!([2])),
        "/none" => answer("503 Away", "retry-after: 7\r\n", "later"),
        _ => page(&format!("link: <http://127.0.0.1:{port}/>; rel=next\r\n"), &json!([1])),
    })
    .await;
    let client = client(site.address);
    let mut key = tempfile::NamedTempFile::new().unwrap();
    write!(key, "hunter2-hunter2").unwrap();
    let header = format!("headers = {{ X-Key = {{ file = '{}' }} }}", key.path().display());
    let of = |path: &str| {
        tool(&format!("url = '{}{path}'\npages_max = 3\n{header}", site.base()), &client)
    };
    let refused = error(call(&of("/trap"), &json!({})).await);
    assert_eq!((refused.code, trap.caught()), (ErrorCode::AddressForbidden, 0), "{refused}");
    assert!(refused.message.starts_with("page 2: "), "{refused}");
    site.take();

    let outcome = call(&of("/away"), &json!({})).await;
    assert_eq!(outcome, CallOutcome::Ok { output: json!([1, 2]) });
    let keys: Vec<bool> =
        site.take().iter().map(|seen| seen.headers.contains_key("x-key")).collect();
    assert_eq!(keys, [true, false]);

    let outcome = call(&of("/circle"), &json!({})).await;
    assert_eq!(outcome, CallOutcome::text("[1]\n[cut after 1 page; there are more]"));
    let failed = error(call(&of("/nowhere"), &json!({})).await);
    assert_eq!(failed.code, ErrorCode::ToolFailed, "{failed}");
    assert!(failed.message.starts_with("page 2: the next page is at no address"), "{failed}");
    let failed = error(call(&of("/broken"), &json!({})).await);
    assert_eq!((failed.code, failed.retry_after_ms), (ErrorCode::ToolFailed, Some(7000)));
    assert!(failed.message.starts_with("page 2: the server answered 503"), "{failed}");
}

#[tokio::test]
async fn an_answer_obeys_the_schema_of_its_tool() {
    let site = Site::start(|seen| match seen.target.as_str() {
        "/text" => ok("{\"a\": 1}"),
        "/bad" => page("", &json!({"a": "x", "c": 1})),
        "/large" => {
            let head = "content-type: application/json\r\n";
            answer("200 OK", head, "{\"a\": 1000000000000000000001}")
        }
        "/digits" => page("", &json!({"a": "1000000000000000000001"})),
        "/failed" => answer("404 Not Found", "", "nothing"),
        _ => page("", &json!({"a": 1})),
    })
    .await;
    let client = client(site.address);
    for (path, schema, expected) in [
        ("/", "{ a = 'integer' }", Ok(json!({"a": 1}))),
        ("/", "{ type = 'object', required = ['a'] }", Ok(json!({"a": 1}))),
        ("/large", "{ a = 'integer' }", Ok(json!({"a": "1000000000000000000001"}))),
        ("/digits", "{ a = 'string' }", Ok(json!({"a": "1000000000000000000001"}))),
        ("/", "{ type = 'array', items = {} }", Err("does not obey `output_schema`: ")),
        ("/bad", "{ a = 'integer' }", Err("/a: \"x\" is not of type \"integer\"")),
        ("/text", "{ a = 'integer' }", Err("the answer is no whole JSON")),
        ("/failed", "{ a = 'integer' }", Err("404 Not Found: nothing")),
    ] {
        let fields = format!("url = '{}{path}'\noutput_schema = {schema}", site.base());
        match (call(&tool(&fields, &client), &json!({})).await, expected) {
            (CallOutcome::Ok { output }, Ok(expected)) => assert_eq!(output, expected),
            (CallOutcome::Error { error }, Err(part)) => {
                assert_eq!(error.code, ErrorCode::ToolFailed);
                assert!(error.message.contains(part), "{schema}: {error}");
            }
            (outcome, _) => panic!("{path} {schema}: {outcome:?}"),
        }
    }
}
