//! Broken tools over HTTP, each with what is said about it, where, and what to do.

use super::broken::{FINE, check};

/// An interface of which one operation cannot be a tool.
pub(crate) const API: &str = "
openapi: 3.0.0
servers: [{url: 'https://api.test'}]
paths:
  /a/{id}: {get: {operationId: getA, parameters: [{name: id, in: path, schema: {type: string}}]}}
  /b: {post: {operationId: sendB, requestBody: {content: {image/png: {}}}}}
";

/// The beginning of a tool; the cases add its address and go on.
const TOOL: &str = "[tools.t]\nkind = 'http'\ndescription = 'd'\n";

#[test]
fn what_may_be_reached_is_said_in_a_known_form() {
    let cases = [
        ("url = 'http://h'\nallow_hosts = ['a b']", 11, "\"a b\" is no host", "`10.0.0.0/8`"),
        ("url = 'http://h'\nallow_hosts = ['a', '10.0.0.0/99']", 11, "no host", "`name:8080`"),
        (
            "url = '{a}'\nparameters = { a = 'string' }\nheaders = { K = { env = 'K' } }",
            7,
            "arguments decide to which host it goes, so it must not have secrets",
            "template",
        ),
        (
            "url = 'https://{a}/'\nparameters = { a = 'string' }\nheaders = { K = { env = 'K' } }",
            7,
            "must not have secrets",
            "template",
        ),
        (
            "url = 'https://{a}.com/'\nparameters = { a = 'string' }\nheaders = { K = { env = 'K' } }",
            7,
            "must not have secrets; end the host with a domain of two labels or more",
            "template",
        ),
    ];
    for (fields, line, message, help) in cases {
        check(&format!("{FINE}{TOOL}{fields}\n"), line, message, help);
    }
    let two = format!("{FINE}{TOOL}url = 'http://h'\nallow_hosts = [\n  5,\n  'a',\n  'a b',\n]\n");
    let report = super::broken::report(&two);
    let lines: Vec<_> = report.faults().iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [Some(12), Some(14)], "{report}");
    let fine = "url = 'https://{a}.example.com/'\nparameters = { a = 'string' }\n\
                headers = { K = { env = 'K' } }\nallow_hosts = ['h', 'h:1', '10.0.0.0/8', '::1']";
    let text = format!("{FINE}{TOOL}{fine}\n");
    let loaded = config::parse(std::path::Path::new("teams/t.toml"), &text, &super::broken::files);
    loaded.unwrap_or_else(|report| panic!("{}", report.render(false)));
}

#[test]
fn an_interface_is_used_as_its_file_is_written() {
    let sound = "file = 'api.yaml'\noperations = ['getA']\n";
    let cases = [
        ("", 7, "`openapi.api` lacks `file`", "the OpenAPI file"),
        ("file = 'none.yaml'", 8, "file `none.yaml` cannot be read", "relative to the team file"),
        ("file = 'bad.jinja'", 8, "file `bad.jinja` cannot be used", "spec.openapis.org"),
        (
            "file = 'api.yaml'",
            7,
            "operation `sendB` (POST /b) of `api.yaml` cannot be a tool: its body is image/png",
            "add \"!sendB\" to `operations`",
        ),
        ("file = 'api.yaml'\noperations = ['getB']", 9, "no operation of the file fits", "`getA`"),
        ("file = 'api.yaml'\noperations = ['get*', '!x*']", 9, "fits \"!x*\"", "`operationId`"),
        (&format!("{sound}effects = {{ getB = 'read' }}"), 10, "no operation `getB`", "`getA`"),
        (&format!("{sound}base_url = 'api.test'"), 10, "no address of an HTTP server", "http://"),
        (&format!("{sound}headers = {{ A = '{{id}}' }}"), 10, "has places for arguments", "fixed"),
        (
            &format!("{sound}query = {{ a = {{ prefix = 'x' }} }}"),
            10,
            "query parameter `a` does",
            "",
        ),
        (&format!("{sound}allow_hosts = ['a b']"), 10, "is no host", "`10.0.0.0/8`"),
        (&format!("{sound}prefix = 'a b'"), 10, "no beginning of a name", "letters"),
    ];
    for (fields, line, message, help) in cases {
        check(&format!("{FINE}[openapi.api]\n{fields}\n"), line, message, help);
    }
    let text = format!("{FINE}tools = ['api_*', 'api_getA']\n[openapi.api]\n{sound}");
    let team = config::parse(std::path::Path::new("teams/t.toml"), &text, &super::broken::files);
    let team = team.unwrap_or_else(|report| panic!("{}", report.render(false)));
    assert_eq!(team.agents["a"].tools.len(), 1);
}

#[test]
fn pages_and_answers_are_said_in_a_known_form() {
    let url = "url = 'http://h'\n";
    let cases = [
        ("pages_max = 0", 11, "from 1 to 100", ""),
        ("next = '/a'", 11, "`next` is for more than one page", "add `pages_max`"),
        ("pages_max = 1\nitems = '/a'", 12, "`items` is for more than one page", "or remove it"),
        ("pages_max = 2\nnext = 'a'", 12, "\"a\" is no JSON pointer", "\"/meta/next\""),
        ("pages_max = 2\nitems = 'a'", 12, "\"a\" is no JSON pointer", "\"/meta/next\""),
        ("pages_max = 2\nnext_parameter = 'p'", 12, "what `next` points to", "add `next`"),
        ("pages_max = 2\nmethod = 'POST'", 7, "pages are asked for by GET", "template"),
        ("output_schema = { type = 'text' }", 11, "`output_schema` has no type", "`type: desc"),
        ("output_schema = { type = ['text'] }", 11, "`output_schema` of `t` is no JSON Schema", ""),
    ];
    for (fields, line, message, help) in cases {
        check(&format!("{FINE}{TOOL}{url}{fields}\n"), line, message, help);
    }
}
