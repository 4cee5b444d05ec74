//! MCP servers and their tools: what they mean, and what is said about broken ones.

use std::path::Path;
use std::time::Duration;

use config::{Catalogs, Report, Team};
use serde_json::json;
use tools::mcp::{Catalog, Hints, Listed, McpSpec, ServerSpec, Setting, Transport};
use tools::{SecretRef, ToolKind};
use wire::{EffectClass, Name};

use super::broken::{FINE, check, files};

const FILES: &str = "[mcp.files]\ncommand = ['serve', '.']\n";

fn listed(name: &str, hints: Hints) -> Listed {
    Listed {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"path": {"type": "string"}}}),
        hints,
        ..Listed::default()
    }
}

/// What the server `files` lists.
fn catalogs() -> Catalogs {
    let none = Hints::default();
    let reads = Hints { read_only: Some(true), ..none };
    let writes = Hints { read_only: Some(false), idempotent: Some(true), ..none };
    let wipes = Hints { destructive: Some(true), ..none };
    let mut odd = listed("odd", none);
    odd.parameters = json!({"type": "object", "properties": {"a": {"type": "text"}}});
    let tools = vec![
        listed("read", reads),
        listed("write", writes),
        listed("wipe.all", wipes),
        listed("plain", none),
        odd,
    ];
    Catalogs::from([(Name::new("files").unwrap(), Catalog { tools })])
}

fn parse(text: &str, catalogs: &Catalogs) -> Result<Team, Report> {
    config::parse_with(Path::new("teams/t.toml"), text, &files, &catalogs.clone().into())
}

fn loaded(text: &str, catalogs: &Catalogs) -> Team {
    parse(text, catalogs).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// A tool in the team, its name on the server, and its effect.
type Named = (&'static str, &'static str, EffectClass);

/// Returns the tools of servers that a team has, each with its name there and its effect.
fn tools(team: &Team) -> Vec<(String, String, EffectClass)> {
    let of_server = |(name, tool): (&Name, &config::team::TeamTool)| match &tool.kind {
        ToolKind::Mcp(spec) => {
            assert_eq!(spec.effect, tool.offer.effect, "{name}");
            Some((name.to_string(), spec.listed.name.clone(), spec.effect))
        }
        _ => None,
    };
    team.tools.iter().filter_map(of_server).collect()
}

#[test]
fn servers_have_defaults() {
    let text = format!(
        "{FINE}{FILES}env = {{ A = 'a', B = {{ file = 'b.key' }} }}
         [mcp.web]
         url = 'https://h.org/mcp'
         headers = {{ Authorization = {{ env = 'TOKEN', prefix = 'Bearer ' }} }}
         start_timeout_ms = 5"
    );
    let team = loaded(&text, &catalogs());
    let unlisted: Vec<&str> = team.unlisted().map(Name::as_str).collect();
    assert_eq!(unlisted, ["web"]);
    let secret = |prefix: &str, secret| Setting::Secret { prefix: prefix.to_owned(), secret };
    let command = ["serve", "."].map(str::to_owned).to_vec();
    let env = vec![
        ("A".to_owned(), Setting::Text("a".to_owned())),
        ("B".to_owned(), secret("", SecretRef::File("teams/b.key".into()))),
    ];
    let transport = Transport::Process { command, directory: "teams/".into(), env };
    let spec = ServerSpec { transport, start_timeout: Duration::from_secs(60), elicitation: false };
    assert_eq!(team.servers["files"].spec, spec);
    let token = secret("Bearer ", SecretRef::Env("TOKEN".to_owned()));
    let headers = vec![("Authorization".to_owned(), token)];
    let transport = Transport::Http { url: "https://h.org/mcp".to_owned(), headers };
    let spec =
        ServerSpec { transport, start_timeout: Duration::from_millis(5), elicitation: false };
    assert_eq!(team.servers["web"].spec, spec);
    assert_eq!(tools(&team), [], "nothing is taken that nobody asked for");
}

#[test]
fn tools_of_a_server_have_names_and_effects() {
    use EffectClass::{Idempotent, Once, Read};
    let named = |tools: &'static str| format!("{FINE}{FILES}{tools}");
    let cases: [(String, &[Named]); 5] = [
        (
            named("tools = ['read', 'write', 'wipe.all', 'plain']"),
            &[
                ("files_plain", "plain", Once),
                ("files_read", "read", Once),
                ("files_wipe_all", "wipe.all", Once),
                ("files_write", "write", Once),
            ],
        ),
        (
            named("tools = ['read', 'write', 'wipe.all', 'plain']\ntrusted = true\nprefix = ''"),
            &[
                ("plain", "plain", Once),
                ("read", "read", Read),
                ("wipe_all", "wipe.all", Once),
                ("write", "write", Idempotent),
            ],
        ),
        (
            named(
                "tools = ['read', 'write', 'wipe.all', 'plain']\ntrusted = true\neffect = 'read'",
            ),
            &[
                ("files_plain", "plain", Read),
                ("files_read", "read", Read),
                ("files_wipe_all", "wipe.all", Once),
                ("files_write", "write", Idempotent),
            ],
        ),
        (
            // A table of its own stands in place of the server's own name.
            named(
                "tools = ['read']\n[tools.look]\nkind = 'mcp'\nserver = 'files'\ntool = 'read'\neffect = 'read'",
            ),
            &[("look", "read", Read)],
        ),
        (
            named(
                "tools = ['read']\nprefix = 'a'\n[tools.aread]\nkind = 'builtin'\nbuiltin = 'now'",
            ),
            &[("aread_a9cc9a63", "read", Once)],
        ),
    ];
    for (text, expected) in cases {
        let found = tools(&loaded(&text, &catalogs()));
        let found: Vec<_> =
            found.iter().map(|(name, tool, effect)| (&**name, &**tool, *effect)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_table_says_otherwise_than_the_server() {
    let text = format!(
        "{FINE}tools = ['calculate', 'files_*', 'look']
         {FILES}tools = ['read', 'plain']\ntimeout_ms = 7
         [tools.look]\nkind = 'mcp'\nserver = 'files'\ntool = 'write'\ndescription = 'Looks.'
         timeout_ms = 9\nconcurrency = 2\nresponse_bytes_max = 10"
    );
    let team = loaded(&text, &catalogs());
    let look = &team.tools["look"];
    assert_eq!(look.offer.spec.description, "Looks.");
    assert_eq!((look.offer.timeout_ms, look.concurrency), (9, 2));
    let ToolKind::Mcp(McpSpec { response_bytes_max: 10, server, .. }) = &look.kind else {
        panic!()
    };
    assert_eq!(server.as_str(), "files");
    let offers: Vec<(&str, &str, u64)> = team.agents["a"]
        .tools
        .iter()
        .map(|offer| (offer.spec.name.as_str(), &*offer.spec.description, offer.timeout_ms))
        .filter(|(name, ..)| *name != "calculate")
        .collect();
    let expected =
        [("files_plain", "Does plain.", 7), ("files_read", "Does read.", 7), ("look", "Looks.", 9)];
    assert_eq!(offers, expected);
    // Models are told in the current draft.
    let parameters = json!({"properties": {"path": {"type": "string"}}, "type": "object"});
    assert_eq!(look.offer.spec.parameters, parameters);
}

#[test]
fn a_server_asks_people_where_the_team_lets_it() {
    let cases = [
        ("", None),
        ("elicitation = false\n", None),
        ("elicitation = true\n", Some(300_000)),
        ("elicitation = true\nquestion_timeout_ms = 5\n", Some(5)),
    ];
    for (written, expected) in cases {
        let text = format!("{FINE}tools = ['files_*']\n{FILES}tools = ['read']\n{written}");
        let team = loaded(&text, &catalogs());
        let tool = &team.tools["files_read"];
        assert_eq!(tool.offer.question_timeout_ms, expected, "{written}");
        let ToolKind::Mcp(spec) = &tool.kind else { panic!() };
        let server = team.servers.values().next().unwrap();
        assert_eq!(
            (spec.elicitation, server.spec.elicitation),
            (expected.is_some(), expected.is_some())
        );
    }
    let text =
        format!("{FINE}tools = ['files_*']\n{FILES}tools = ['read']\nquestion_timeout_ms = 5\n");
    let report = parse(&text, &catalogs()).unwrap_err();
    assert!(report.faults()[0].message.contains("question_timeout_ms"), "{:?}", report.faults());
}

#[test]
fn a_team_whose_servers_are_not_known_is_checked_as_far_as_it_goes() {
    let text = format!(
        "{FINE}tools = ['files_read', 'files_w*', 'look']
         [permissions]\nallow = ['files_anything']
         {FILES}tools = ['*']
         [tools.look]\nkind = 'mcp'\nserver = 'files'\nprobe = 'files_probe'
         [tools.files_probe]\nkind = 'mcp'\nserver = 'files'"
    );
    let team = loaded(&text, &Catalogs::new());
    let names: Vec<&str> = team.tools.keys().map(Name::as_str).collect();
    assert_eq!(names, ["files_probe", "files_read", "look"]);
    assert_eq!(team.unlisted().count(), 1);
    let report = parse(&text, &catalogs()).unwrap_err();
    let messages: Vec<&str> = report.faults().iter().map(|fault| &*fault.message).collect();
    assert!(messages.iter().any(|text| text.contains("has no tool `look`")), "{messages:?}");
}

#[test]
fn only_what_an_unknown_server_may_have_goes_unchecked() {
    const ALL: &str = "tools = ['*']\n";
    let read = "tools = ['read', 'wipe.all']\n";
    for (server, agent, permission, fault) in [
        (ALL, "files_x", "deny = ['files_x(a=1)', 'files_*', 'f*', '*_x', 'files\\_y']", None),
        (ALL, "now", "deny = ['mail_send']", Some("pattern \"mail_send\" fits no tool")),
        (ALL, "now", "deny = ['file']", Some("pattern \"file\" fits no tool")),
        (ALL, "now", "deny = ['f(a=*)']", Some("pattern \"f(a=*)\" fits no tool")),
        (ALL, "now", "deny = ['mail_*']", Some("pattern \"mail_*\" fits no tool")),
        (ALL, "mail_*", "", Some("no tool of a server, service or interface begins with")),
        (ALL, "mail_x", "", Some("there is no tool `mail_x`")),
        (ALL, "files_a b", "", Some("there is no tool `files_a b`")),
        (read, "files_read", "deny = ['files_wipe_all', 'files_w*', 'files_read_1a2b3c4d']", None),
        (read, "files_*", "", None),
        (read, "files_write", "", Some("there is no tool `files_write`")),
        (read, "now", "deny = ['files_plain*']", Some("pattern \"files_plain*\" fits no tool")),
        // A tool of its own table is all that the team has of this one.
        ("", "look", "deny = ['look']", None),
        ("", "files_read", "", Some("there is no tool `files_read`")),
        ("", "files_*", "", Some("no tool of a server, service or interface begins with")),
        ("", "now", "deny = ['files_*']", Some("pattern \"files_*\" fits no tool")),
    ] {
        let text = format!(
            "{FINE}tools = ['{agent}']\npermissions = {{ {permission} }}\n{FILES}{server}
             [tools.look]\nkind = 'mcp'\nserver = 'files'\ntool = 'read'\n"
        );
        match (parse(&text, &Catalogs::new()), fault) {
            (Ok(_), None) => {}
            (Err(report), Some(fault)) => {
                let [found] = report.faults() else { panic!("{text}\n{report}") };
                assert!(found.message.contains(fault), "{text}\n{found}");
            }
            (Ok(_), Some(fault)) => panic!("accepted, but {fault}:\n{text}"),
            (Err(report), None) => panic!("{text}\n{report}"),
        }
    }
}

#[test]
fn a_name_that_only_its_beginning_speaks_for_is_noted() {
    const TYPES: &str = "[eventtypes.e]\npath = 'none.yaml'\nsink = 'http://h'\n";
    for (source, agent, permission, note) in [
        ("tools = ['*']", "files_*", "ask = ['files_*', 'f*', '*']", None),
        ("tools = ['read']", "files_read", "ask = ['files_read']", None),
        (
            "tools = ['*']",
            "files_raed",
            "",
            Some("`files_raed` is no tool at present; it may come from MCP server `files`"),
        ),
        (
            "tools = ['*']",
            "files_w*",
            "",
            Some(
                "no tool of a server, service or interface begins with \"files_w\" at present; it may come from MCP server `files`",
            ),
        ),
        (
            "tools = ['*']",
            "now",
            "deny = ['files_wipe(a=1)']",
            Some(
                "pattern \"files_wipe(a=1)\" fits no tool at present; it may come from MCP server `files`",
            ),
        ),
        (
            "prefix = ''\ntools = ['*']",
            "humna",
            "",
            Some("`humna` is no tool at present; it may come from MCP server `files`"),
        ),
        (
            "[discover.d]\nservice = 'shop'\nprefix = ''",
            "humna",
            "",
            Some("`humna` is no tool at present; it may come from services `d`"),
        ),
        (
            &format!("{TYPES}prefix = ''"),
            "humna",
            "",
            Some("`humna` is no tool at present; it may come from event types `e`"),
        ),
        (&format!("{TYPES}prefix = ''\ntypes = ['human']"), "human", "", None),
    ] {
        let text = format!(
            "{FINE}tools = ['{agent}']\npermissions = {{ {permission} }}\n{FILES}{source}\n"
        );
        let events = |path: &Path| {
            if path.ends_with("none.yaml") { Ok(String::new()) } else { files(path) }
        };
        let team = config::parse(Path::new("teams/t.toml"), &text, &events)
            .unwrap_or_else(|report| panic!("{}", report.render(false)));
        let notes = team.left_out.iter().filter(|note| note.contains("may come from"));
        assert_eq!(notes.map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(note), "{text}");
    }
}

#[test]
fn one_fault_in_a_server() {
    for (added, line, message, help) in [
        ("[mcp.s]\ntools = ['*']", 7, "server `s` does not say how it is reached", "`command ="),
        ("[mcp.s]\ncommand = ['x']\nurl = 'http://h'", 9, "both `command` and `url`", "remove"),
        ("[mcp.s]\nurl = 'h'", 8, "\"h\" is no address", "http://"),
        ("[mcp.s]\nurl = 'http://h'\nenv = {}", 9, "`env` goes with `command` only", "remove"),
        ("[mcp.s]\ncommand = ['x']\nheaders = {}", 9, "`headers` goes with `url` only", "remove"),
        (
            "[mcp.s]\ncommand = ['x']\nprefix = 'a.'",
            9,
            "`prefix` \"a.\" is no beginning",
            "letters",
        ),
        (
            "[mcp.s]\ncommand = ['x']\nenv = { 'a=' = 'x' }",
            9,
            "\"a=\" in `env` is no name",
            "alone",
        ),
        (
            "[mcp.s]\ncommand = ['x']\nenv = { A = \"a\\u0000\" }",
            9,
            "`A` of `env` has a value with a NUL in it",
            "leave it out",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = { 'X(T)' = 'a' }",
            9,
            "`X(T)` of `headers` is no name of a header",
            "names have letters",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = { X = \"a\\nb\" }",
            9,
            "`X` of `headers` has a value that cannot be sent",
            "no line breaks",
        ),
        (
            "[mcp.s]\nurl = 'http://h'\nheaders = { X = { env = 'K', prefix = \"a\\n\" } }",
            9,
            "`X` of `headers` has a value that cannot be sent",
            "no line breaks",
        ),
        (
            "[mcp.s]\ncommand = ['x']\nenv = { A = {} }",
            9,
            "`A` of `env` does not say where its secret is",
            "add `env",
        ),
        ("[tools.t]\nkind = 'mcp'", 7, "`tools.t` lacks `server`", "the MCP server"),
        (
            "[mcp.files]\ncommand = ['x']\n[tools.t]\nkind = 'mcp'\nserver = 'file'",
            11,
            "there is no MCP server `file`",
            "did you mean `files`?",
        ),
        (
            "[tools.t]\nkind = 'builtin'\nbuiltin = 'now'\nserver = 's'",
            10,
            "`server` goes with",
            "",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}

#[test]
fn one_fault_against_what_a_server_lists() {
    for (agent, added, line, message, help) in [
        ("", "tools = ['rea']", 9, "MCP server `files` has no tool `rea`", "did you mean `read`?"),
        (
            "",
            "tools = ['odd']",
            7,
            "tool `odd` of MCP server `files` cannot be offered: ",
            "`tools`",
        ),
        (
            "",
            "[tools.t]\nkind = 'mcp'\nserver = 'files'\ntool = 'wrte'",
            12,
            "has no tool `wrte`",
            "did you mean `write`?",
        ),
        (
            "tools = ['files_raed']\n",
            "tools = ['read']",
            7,
            "there is no tool `files_raed`",
            "did you mean `files_read`?",
        ),
        (
            "tools = ['file*', 'web_*']\n",
            "tools = ['read']",
            7,
            "no tool of a server, service or interface begins with \"web_\"",
            "`tools = [\"*\"]`",
        ),
    ] {
        let text = format!("{FINE}{agent}{FILES}{added}\n");
        let report = parse(&text, &catalogs()).unwrap_err();
        let [fault] = report.faults() else { panic!("{text}\n{report}") };
        assert!(fault.message.contains(message), "{text}\n{fault}");
        assert!(fault.help.contains(help), "{text}\n{fault}");
        assert_eq!(fault.line, Some(line), "{text}\n{fault}");
    }
}
