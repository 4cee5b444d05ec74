//! Broken tools over HTTP, each with what is said about it, where, and what to do.

use super::broken::{FINE, check};

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
    ];
    for (fields, line, message, help) in cases {
        check(&format!("{FINE}{TOOL}{fields}\n"), line, message, help);
    }
    let fine = "url = 'https://{a}.example.com/'\nparameters = { a = 'string' }\n\
                headers = { K = { env = 'K' } }\nallow_hosts = ['h', 'h:1', '10.0.0.0/8', '::1']";
    let text = format!("{FINE}{TOOL}{fine}\n");
    let loaded = config::parse(std::path::Path::new("teams/t.toml"), &text, &super::broken::files);
    loaded.unwrap_or_else(|report| panic!("{}", report.render(false)));
}
