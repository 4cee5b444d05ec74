//! Programs that try to get out of their sandbox.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use serde_json::{Value, json};
use wire::{CallOutcome, ToolReply};

use tests::results::{self, Row};

use crate::house::{Call, House, folder, open_to_all};

/// A variable that cargo gives to all tests, as a daemon has its own.
const VARIABLE: &str = "CARGO_MANIFEST_DIR";

/// Ways out that are tried.
const TRIES: usize = 44;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_way_out_of_the_sandbox_is_open() {
    let folder = folder();
    let home = folder.path().canonicalize().unwrap();
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    for name in ["open", "open/data", "work"] {
        std::fs::create_dir(at(name)).unwrap();
        open_to_all(at(name).as_ref());
    }
    for name in ["key.txt", "open/data/journal", "open/file"] {
        std::fs::write(at(name), "secret").unwrap();
        open_to_all(at(name).as_ref());
    }
    std::os::unix::fs::symlink(at("key.txt"), at("open/absolute")).unwrap();
    std::os::unix::fs::symlink("../key.txt", at("open/relative")).unwrap();
    std::fs::write(at("escapes.py"), include_str!("escapes.py")).unwrap();
    open_to_all(at("escapes.py").as_ref());

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let named = UnixListener::bind(at("open/named")).unwrap();
    open_to_all(at("named").replace("/named", "/open/named").as_ref());
    let name = format!("callboard-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let nameless = UnixListener::bind_addr(&address).unwrap();
    assert!(std::env::vars().any(|(name, _)| name == VARIABLE));

    let fields = format!(
        "argv = ['python3', '{script}', '{{outside}}']\nread = ['open', 'escapes.py']\n\
         write = ['work']\nparameters = {{ outside = 'string' }}\nstdin = 'none'\n\
         response_bytes_max = 100000",
        script = at("escapes.py"),
    );
    let house = House::new(&home, &fields, &home.join("open/data")).await;
    let outside = json!({
        "key": at("key.txt"), "read": at("open"), "work": at("work"), "variable": VARIABLE,
        "pid": std::process::id(), "port": port.local_addr().unwrap().port(),
        "named": at("named"), "nameless": name,
    });
    let arguments = json!({"outside": outside.to_string()});
    let reply = house.call(&Call::new(Duration::from_secs(60)), &arguments).await;
    let ToolReply::Settled { outcome: CallOutcome::Ok { output }, .. } = &reply else {
        panic!("{reply:?}")
    };
    let tries = output.as_object().unwrap_or_else(|| panic!("{output}"));
    let open: Vec<_> = tries.iter().filter(|(_, got)| **got != Value::Null).collect();
    assert!(open.is_empty(), "{open:#?}");
    assert_eq!(tries.len(), TRIES);

    for name in ["key.txt", "open/data/journal", "open/file"] {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "secret", "{name}");
    }
    port.set_nonblocking(true).unwrap();
    assert!(port.accept().is_err(), "the port was reached");
    for listener in [named, nameless] {
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a socket was reached");
    }
    results::record(&Row {
        id: "T25",
        what: "ways out of the sandbox of a command",
        held: &format!("{TRIES} tries: 0 open"),
        passes: "40 of 40 refused",
        command: "cargo test -p tests --test command no_way_out -- --nocapture",
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_opened_is_open() {
    let folder = folder();
    let home = folder.path();
    for name in ["read", "write", "work"] {
        std::fs::create_dir(home.join(name)).unwrap();
        open_to_all(&home.join(name));
    }
    std::fs::write(home.join("read/file"), "text").unwrap();
    std::fs::write(home.join("tool.sh"), "#!/bin/sh\ncat read/file; echo \" $1\"; pwd\n").unwrap();
    open_to_all(&home.join("tool.sh"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port();
    let shell = "argv = ['sh', '-c', '''";
    let network = format!(
        "argv = ['python3', '-c', 'import socket; socket.create_connection((\"127.0.0.1\", \
         {number})); print(\"there\")']\nnetwork = true"
    );
    let at = home.to_str().unwrap();
    let cases = [
        (format!("{shell}cat {at}/read/file''']\nread = ['read']"), "text".to_owned()),
        (
            format!(
                "{shell}echo new >{at}/write/file && cat {at}/write/file''']\nwrite = ['write']"
            ),
            "new".to_owned(),
        ),
        (
            format!("{shell}echo $HOME; pwd; echo x >made''']\nworkdir = 'work'"),
            format!("{at}/work\n{at}/work"),
        ),
        (
            format!("{shell}echo $HOME $TMPDIR; pwd; ls | wc -l''']"),
            "/tmp /tmp\n/tmp\n0".to_owned(),
        ),
        (
            "argv = ['./tool.sh', 'a b; $(id)']\nread = ['read']\nworkdir = '.'".to_owned(),
            format!("text a b; $(id)\n{at}"),
        ),
        (
            format!(
                "{shell}echo $A $B''']\nenv = {{ A = 'a', B = {{ env = '{}', prefix = 'is ' }} }}",
                "CARGO_PKG_NAME"
            ),
            "a is tests".to_owned(),
        ),
        (network, "there".to_owned()),
    ];
    for (fields, expected) in cases {
        let house = House::new(home, &fields, &home.join("data")).await;
        let reply = house.call(&Call::new(Duration::from_secs(60)), &json!({})).await;
        let output = Value::String(expected);
        assert_eq!(reply, ToolReply::settled(CallOutcome::Ok { output }), "{fields}");
    }
    assert_eq!(std::fs::read_to_string(home.join("write/file")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(home.join("work/made")).unwrap(), "x\n");
}
