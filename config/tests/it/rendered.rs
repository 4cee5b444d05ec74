//! Reports as a terminal shows them.

use std::path::Path;

use super::broken::files;

fn drawn(text: &str) -> String {
    config::parse(Path::new("teams/t.toml"), text, &files).unwrap_err().render(false)
}

#[test]
fn a_slip_of_the_hand() {
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"m.jsonl\"\n\n[agents.lead]\ninstructions = \"Lead.\"\nthinkr = \"m\"\nactor = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/slip.txt"));
}

#[test]
fn a_fault_in_a_script() {
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"bad.jsonl\"\n\n[agents.lead]\ninstructions = \"Lead.\"\nmodel = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/script.txt"));
}

#[test]
fn several_faults() {
    let text = "[team]\nentry = \"leed\"\n\n[models.m]\nprovider = \"openai\"\nbase_url = \"localhost\"\nmodel = \"x\"\nconcurrency = 0\n\n[agents.lead]\ninstructions_file = \"lead.md\"\nmodel = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/several.txt"));
}

#[test]
fn color_only_where_it_is_asked_for() {
    let report = config::parse(Path::new("t.toml"), "x = 1\n[agents.a]\n", &files).unwrap_err();
    assert!(report.render(true).contains('\u{1b}'));
    assert!(!report.render(false).contains('\u{1b}'));
}

#[test]
fn a_secret_in_the_file_is_not_drawn() {
    const MODEL: &str = "[models.n]\nprovider = 'openai'\nbase_url = 'http://h'\nmodel = 'x'\n";
    for (added, shown) in [
        // In a field that names a variable, of any provider.
        (format!("{MODEL}api_key_env = 'sk-hidden'"), "api_key_env"),
        (
            "[models.n]\nprovider = 'scripted'\nscript = 'm.jsonl'\napi_key_env = 'sk-hidden'"
                .to_owned(),
            "api_key_env",
        ),
        (format!("{MODEL}api_key_env = ['hidden']"), "api_key_env"),
        // In a field that there is not.
        (format!("{MODEL}api_key = 'hidden'"), "unknown key `api_key`"),
        (format!("{MODEL}ApiToken = {{ value = 'hidden' }}"), "unknown key `ApiToken`"),
        (format!("{MODEL}password = 123454321"), "unknown key `password`"),
        (format!("{MODEL}[models.n.secrets]\nall = ['hidden']"), "unknown key `secrets`"),
        // Beside the line that is at fault.
        (format!("{MODEL}modl = 'y'\napi_key = 'hidden'"), "unknown key `modl`"),
        (
            "[mcp.s]\ncommand = ['x']\nenv = { GH_TOKEN = 'hidden' }\ntool = []".to_owned(),
            "unknown key `tool`",
        ),
        (
            format!("{MODEL}extra_body = {{ user_token = 'hidden', messages = [] }}"),
            "`messages` of the request",
        ),
        // In place of a table that names it.
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\npassword = 'hidden'"
                .to_owned(),
            "`databases.d.password` must be a table",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = { X = { value = 'hidden' } }".to_owned(),
            "unknown key `value`",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = { X = { env = 'a hidden' } }".to_owned(),
            "`env` is not the name",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = ['X: hidden']".to_owned(),
            "`mcp.s.headers` must be a table",
        ),
        // In an address.
        ("[mcp.s]\nurl = 'http://me:hidden@h'".to_owned(), "this is no address of an HTTP server"),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'https://me:hidden@h/'".to_owned(),
            "the url contains credentials",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescriptio = 'd'\nurl = 'https://me:hidden@h/'".to_owned(),
            "unknown key `descriptio`",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nulr = 'https://me:hidden@h/'".to_owned(),
            "unknown key `ulr`",
        ),
        (
            "[tools.t]\nkind = 'htp'\nurl = 'https://me:hidden@h/'\ndescription = 'd'".to_owned(),
            "htp",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\nhost = 'me:hidden@h'"
                .to_owned(),
            "this is no name of a machine",
        ),
        // In a text that is no TOML.
        (format!("{MODEL}api_key_env = hidden"), "api_key_env ="),
        (format!("{MODEL}api_key = 'hidden"), "api_key ="),
    ] {
        let text = format!("{}{added}\n", super::broken::FINE);
        let report = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap_err();
        for drawn in [report.render(false), report.to_string(), report.to_json().to_string()] {
            assert!(!drawn.contains("hidden") && !drawn.contains("123454321"), "{text}\n{drawn}");
        }
        let drawn = report.render(false);
        assert!(drawn.contains(shown) && drawn.contains(" │ "), "{text}\n{drawn}");
    }
}

#[test]
fn a_secret_is_drawn_as_stars() {
    let text = "[models.m]\nprovider = \"anthropic\"\nmodel = \"x\"\napi_key = \"sk-1\"\n\n[agents.lead]\ninstructions = \"Lead.\"\nmodel = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/secret.txt"));
}
