//! T27: secrets that come back from tools, models and people in every form are found nowhere.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aho_corasick::AhoCorasick;
use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::http::{Answer, Request, Server};
use tests::results::{Row, record};
use wire::Headers;

use crate::obedient;

/// The longest wait for a reply, on a busy machine.
const REPLY_MAX: Duration = Duration::from_secs(60);

/// The shortest piece of a secret that counts as found.
const PIECE_BYTES: usize = 14;

/// How a secret comes to be read.
const CANARIES: [&str; 20] = [
    "model_error",
    "model_text",
    "model_call",
    "header_raw",
    "header_json",
    "header_base64",
    "header_basic",
    "header_hex",
    "header_percent",
    "header_cut",
    "header_page",
    "error_body",
    "redirect",
    "command_out",
    "command_err",
    "command_base64",
    "file",
    "user",
    "answer",
    "denial",
];

/// A secret that occurs nowhere else, with letters that encodings change.
fn secret(canary: &str) -> String {
    let digest = wire::Digest::of(canary.as_bytes()).to_string();
    let (first, rest) = digest.split_at(14);
    format!("k/{first}+\"ä {}", rest.split_at(10).0)
}

/// What is set for a canary: headers hold no other letters than ASCII.
fn value(canary: &str) -> String {
    secret(canary).replace('ä', "~")
}

/// The forms in which a secret could be found, by the letters of it that do not depend on what
/// stands beside it.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.concat();
    let percent = |upper: bool| -> String {
        let coded = secret.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        });
        coded.collect()
    };
    let mut forms = vec![
        ("raw", secret.to_owned()),
        ("json", json!(secret).to_string().trim_matches('"').to_owned()),
        ("HEX", hex.to_uppercase()),
        ("hex", hex),
        ("PERCENT", percent(true)),
        ("percent", percent(false)),
    ];
    for shift in 0..3 {
        let padded = [&vec![b'x'; shift], secret.as_bytes()].concat();
        let text = base64(&padded);
        let inner = text.split_at(text.len() - 4).0.split_at(4).1;
        forms.push(("base64", inner.to_owned()));
    }
    forms
}

/// Encodes by hand, so that the test does not share the code that it tests.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = usize::try_from(number >> (18 - 6 * place) & 63).unwrap();
            text.push(if place <= three.len() { char::from(LETTERS[letter]) } else { '=' });
        }
    }
    text
}

/// What is looked for: overlapping pieces of all forms of all canaries, each with its name.
struct Search {
    finder: AhoCorasick,
    names: Vec<String>,
}

impl Search {
    fn new() -> Self {
        let mut pieces = Vec::new();
        let mut names = Vec::new();
        for canary in CANARIES {
            for (form, text) in forms(&value(canary)) {
                let windows = text.as_bytes().windows(PIECE_BYTES.min(text.len()));
                for piece in windows.step_by(PIECE_BYTES / 2) {
                    pieces.push(piece.to_owned());
                    names.push(format!("{canary} as {form}"));
                }
            }
        }
        Self { finder: AhoCorasick::new(pieces).unwrap(), names }
    }

    /// Returns what is in some bytes.
    fn found(&self, bytes: &[u8], place: &str) -> BTreeSet<String> {
        let found = self.finder.find_overlapping_iter(bytes);
        found
            .map(|found| format!("{} in {place}", self.names[found.pattern().as_usize()]))
            .collect()
    }
}

/// What came to the servers of the test.
#[derive(Default)]
struct Seen {
    prompts: Vec<u8>,
    spans: Vec<u8>,
}

fn serve(request: &Request, seen: &Mutex<Seen>) -> Answer {
    let header = |name: &str| {
        let mut lines = request.head.lines();
        lines
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))
            .unwrap_or_default()
            .to_owned()
    };
    let path = request.path.trim_start_matches('/');
    let key = header("x-key");
    match path.split('/').next().unwrap_or_default() {
        "traces" => {
            let body = request.body.as_str().unwrap_or_default();
            seen.lock().unwrap().spans.extend(body.as_bytes());
            Answer::new(200, &json!({}))
        }
        "model_error" => Answer::new(
            401,
            &json!({"error": {"message": format!("wrong key: {}", header("authorization"))}}),
        ),
        "model_text" | "model" | "model_call" => {
            let body = request.body.to_string();
            seen.lock().unwrap().prompts.extend(body.as_bytes());
            let mut answer = obedient::reply(request);
            let key = header("authorization").trim_start_matches("Bearer ").to_owned();
            if path.starts_with("model_text") {
                let text =
                    json!(format!("your key is {key}, or {}", base64(key.as_bytes()))).to_string();
                answer.body = answer.body.replace(
                    "\"content\":\"",
                    &format!("\"content\":{}", text.split_at(text.len() - 1).0),
                );
            }
            if path.starts_with("model_call") && !answer.body.contains("noted") {
                let call = json!({"id": key, "type": "function", "function":
                    {"name": "remember", "arguments": json!({"text": format!("noted {key}")}).to_string()}});
                let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                let is_first = !body.contains("\"role\":\"tool\"");
                if is_first {
                    answer = Answer::new(
                        200,
                        &json!({"model": key, "choices": [{"index": 0, "message": message,
                        "finish_reason": "tool_calls"}]}),
                    );
                }
            }
            answer
        }
        "header_raw" => {
            Answer { body: format!("you sent {key}"), ..Answer::new(200, &Value::Null) }
        }
        "header_json" => Answer::new(200, &json!({"you": {"sent": key.clone(), key: 1}})),
        "header_base64" => Answer::new(200, &json!(base64(format!("x{key}").as_bytes()))),
        "header_basic" => Answer::new(200, &json!(header("authorization"))),
        "header_hex" => {
            Answer::new(200, &json!(forms(&key).iter().find(|(form, _)| *form == "hex").unwrap().1))
        }
        "header_percent" => Answer::new(
            200,
            &json!(forms(&key).iter().find(|(form, _)| *form == "PERCENT").unwrap().1),
        ),
        // The limit of the tool cuts it after three quarters.
        "header_cut" => {
            let kept = key.len() * 3 / 4;
            Answer {
                body: format!("{}{key}", "x".repeat(64 - kept)),
                ..Answer::new(200, &Value::Null)
            }
        }
        "header_page" => Answer {
            body: format!("<p title=\"{key}\">{key}{key}</p>"),
            ..Answer::new(200, &Value::Null)
        },
        "error_body" => {
            Answer::new(500, &json!({"error": key, "twice": format!("{key} and {key}")}))
        }
        "echo" => Answer::new(404, &json!(format!("no {path}"))),
        "redirect" => Answer {
            headers: vec![format!("location: /echo/{}", forms(&key)[4].1)],
            ..Answer::new(302, &Value::Null)
        },
        _ => Answer::new(404, &json!("nothing here")),
    }
}

fn team(url: &str, folder: &Path) -> String {
    let mut tables = vec![format!(
        "[team]\nentry = 'a'\notlp_endpoint = '{url}/traces'\n[limits]\napproval_timeout_ms = 20000\n"
    )];
    let mut tools = Vec::new();
    for canary in CANARIES {
        let env = canary.to_uppercase();
        if canary.starts_with("model_") {
            tables.push(format!(
                "[models.{canary}]\nprovider = 'openai'\nbase_url = '{url}/{canary}'\nmodel = 'm'\n\
                 stream = false\nretries_max = 0\napi_key_env = '{env}'\n\
                 [agents.{canary}]\ndescription = 'd'\ninstructions = 'i'\nmodel = '{canary}'\ntools = ['remember']\n"
            ));
        }
        if canary.starts_with("header_") || canary == "error_body" || canary == "redirect" {
            let limit = if canary == "header_cut" { "response_bytes_max = 64\n" } else { "" };
            let header = if canary == "header_basic" {
                format!("Authorization = {{ env = '{env}', prefix = 'Basic ' }}")
            } else {
                format!("X-Key = {{ env = '{env}' }}")
            };
            tables.push(format!(
                "[tools.{canary}]\nkind = 'http'\ndescription = 'd'\nurl = '{url}/{canary}'\n{limit}\
                 headers = {{ {header} }}\n"
            ));
            tools.push(canary.to_owned());
        }
        if canary.starts_with("command_") {
            let script = match canary {
                "command_out" => "import os; print('it is', os.environ['KEY'])",
                "command_err" => "import os, sys; sys.exit('no: ' + os.environ['KEY'])",
                _ => {
                    "import os, base64; print(base64.b64encode(('u:' + os.environ['KEY']).encode()).decode())"
                }
            };
            tables.push(format!(
                "[tools.{canary}]\nkind = 'command'\ndescription = 'd'\nargv = ['python3', '-c', \"{script}\"]\n\
                 sandbox = 'none'\nstdin = 'none'\nenv = {{ KEY = {{ env = '{env}' }} }}\n"
            ));
            tools.push(canary.to_owned());
        }
    }
    let folder = folder.display();
    tables.push(format!(
        "[tools.look]\nkind = 'command'\ndescription = 'd'\nargv = ['cat', '{folder}/key.txt']\nsandbox = 'none'\nstdin = 'none'\n\
         [tools.never]\nkind = 'http'\ndescription = 'd'\nurl = '{url}/never'\n\
         headers = {{ X-Key = {{ file = '{folder}/key.txt' }}, X-A = {{ env = 'USER_CANARY' }}, X-B = {{ env = 'ANSWER' }}, X-C = {{ env = 'DENIAL' }} }}\n\
         [tools.pay]\nkind = 'http'\ndescription = 'd'\nmethod = 'POST'\nurl = '{url}/pay'\n\
         [models.plain]\nprovider = 'openai'\nbase_url = '{url}/model'\nmodel = 'm'\nstream = false\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'plain'\ntools = ['look', 'ask_user', 'pay', 'remember', 'recall', '{}']\n\
         [permissions]\nallow_tainted = ['look', 'command_*']\n",
        tools.join("', '")
    ));
    tables.concat()
}

struct House {
    folder: tempfile::TempDir,
    nats: NatsServer,
    bus: Bus,
    daemon: Daemon,
    seen: Arc<Mutex<Seen>>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl House {
    async fn start() -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = seen.clone();
        let server = Server::start(move |request| serve(&request, &shared)).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key.txt"), value("file") + "\n").unwrap();
        let file = folder.path().join("team.toml");
        std::fs::write(&file, team(&server.url, folder.path())).unwrap();
        let nats = NatsServer::start("").await.unwrap();
        let bus = Bus::connect(NatsOptions::new([nats.url()])).await.unwrap();
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let noted = heard.clone();
        let mut all = bus.subscribe(">", None).await.unwrap();
        tokio::spawn(async move {
            while let Some(message) = all.next().await {
                let mut noted = noted.lock().unwrap();
                noted.extend(format!("{} {:?}\n", message.subject, message.headers).as_bytes());
                noted.extend(&message.payload);
            }
        });
        let variables = CANARIES.iter().map(|canary| {
            let name = match *canary {
                "user" => "USER_CANARY".to_owned(),
                canary => canary.to_uppercase(),
            };
            let value = match *canary {
                "header_basic" => base64(format!("user:{}", value(canary)).as_bytes()),
                canary => value(canary),
            };
            format!("{name}={value}")
        });
        let wrapper: Vec<String> = std::iter::once("env".to_owned()).chain(variables).collect();
        let args: [OsString; 7] = [
            file.into(),
            "--data".into(),
            folder.path().join("data").into(),
            "--nats".into(),
            nats.url().into(),
            "--log".into(),
            "debug,h2=info,hyper=info".into(),
        ];
        let daemon = Daemon::start_under(&wrapper, &args).await;
        Self { folder, nats, bus, daemon, seen, heard }
    }

    async fn request(&self, subject: &str, body: &Value) -> Value {
        let body = body.to_string().into();
        let subject = format!("callboard.v1.team.{subject}");
        let answer = self.bus.request(&subject, Headers::new(), body, REPLY_MAX).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    }

    async fn ask(&self, agent: &str, input: &str) -> Value {
        self.request(&format!("agent.{agent}.run"), &json!({"input": input})).await
    }

    /// Begins a run, and returns its id and the call that waits for a person.
    async fn begin(&self, input: &str) -> (String, String) {
        let headers = Headers::new().with("Callboard-Reply", "accepted");
        let body = json!({"input": input}).to_string().into();
        let subject = "callboard.v1.team.agent.a.run";
        let answer = self.bus.request(subject, headers, body, REPLY_MAX).await.unwrap();
        let accepted: Value = serde_json::from_slice(&answer.payload).unwrap();
        let run = accepted["run"].as_str().unwrap().to_owned();
        loop {
            let view = self.request(&format!("run.{run}.status"), &json!({})).await;
            if let Some(call) = view["call"].as_str() {
                return (run, call.to_owned());
            }
            assert_eq!(view["state"], "running", "{view}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn result(&self, run: &str) -> Value {
        self.request(&format!("run.{run}.result"), &json!({})).await
    }
}

fn files(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn the_search_finds_what_it_looks_for() {
    let search = Search::new();
    for canary in CANARIES {
        for (form, text) in forms(&value(canary)) {
            let hits = search.found(format!("..{text}..").as_bytes(), "a text");
            assert!(hits.iter().any(|hit| hit.starts_with(canary)), "{canary} as {form}: {hits:?}");
        }
    }
    assert_eq!(search.found(b"nothing of it: [secret]", "a text"), BTreeSet::new());
    assert_eq!(base64(b"any carnal pleasure."), "YW55IGNhcm5hbCBwbGVhc3VyZS4=");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t27_no_secret_is_found_outside_of_its_place() {
    let mut house = House::start().await;
    let mut told = Vec::new();
    let mut note = |canary: &str, reply: Value| told.push((canary.to_owned(), reply.to_string()));
    for canary in CANARIES {
        let value = value(canary);
        match canary {
            "user" => note(
                canary,
                house.ask("a", &format!("my key is {value}, {}", base64(value.as_bytes()))).await,
            ),
            "answer" => {
                let (run, call) = house.begin("{{ask_user question=key}}").await;
                let answer = json!({"call": call, "text": format!("it is {value}")});
                house.request(&format!("run.{run}.answer"), &answer).await;
                note(canary, house.result(&run).await);
            }
            "denial" => {
                let (run, call) = house.begin("{{pay}}").await;
                let denial = json!({"reason": format!("not with {value}")});
                house.request(&format!("call.{call}.deny"), &denial).await;
                note(canary, house.result(&run).await);
            }
            "file" => note(canary, house.ask("a", "{{look}}").await),
            canary if canary.starts_with("model_") => {
                note(canary, house.ask(canary, "Hello.").await);
            }
            canary => note(canary, house.ask("a", &format!("{{{{{canary}}}}}")).await),
        }
    }
    for (canary, reply) in &told {
        let is_masked = reply.contains("[secret]") || reply.contains("Bearer ***");
        assert!(is_masked, "{canary} never came back: {reply}");
    }
    // The trace is handed over with the end of the daemon, and all that it holds is on disk then.
    assert_eq!(house.daemon.terminate().await, Some(0), "{}", house.daemon.log());
    let mut places = Vec::new();
    files(&house.folder.path().join("data"), &mut places);
    places.push(("the log".to_owned(), house.daemon.log().into_bytes()));
    places.push(("messages on NATS".to_owned(), house.heard.lock().unwrap().clone()));
    let Seen { prompts, spans } = std::mem::take(&mut *house.seen.lock().unwrap());
    assert!(!prompts.is_empty() && !spans.is_empty(), "nothing was recorded");
    places.extend([("prompts".to_owned(), prompts), ("spans".to_owned(), spans)]);
    drop(house.nats);
    let search = Search::new();
    let bytes: usize = places.iter().map(|(_, bytes)| bytes.len()).sum();
    let hits: Vec<String> = places
        .iter()
        .flat_map(|(place, bytes)| {
            // What a person or a test sends over NATS is not the daemon's to change.
            let sent = ["user", "answer", "denial"];
            let mut hits = search.found(bytes, place);
            hits.retain(|hit| {
                place != "messages on NATS" || !sent.iter().any(|word| hit.starts_with(word))
            });
            hits
        })
        .collect();
    assert_eq!(hits, Vec::<String>::new());
    record(&Row {
        id: "T27",
        what: "secrets that come back raw, encoded, cut, in errors and redirects, from models, tools, programs and people",
        held: &format!(
            "{} secrets, 0 found in {} KiB of journal, store, log, traces, messages and prompts",
            CANARIES.len(),
            bytes / 1024
        ),
        passes: "20 secrets, 0 found",
        command: "cargo test -p tests --test security t27",
    });
}
