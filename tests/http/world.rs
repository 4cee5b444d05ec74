//! A world of names and public addresses that does not leave this machine.
//!
//! Names are found by a table. A connection to the one public address that stands in it goes, after
//! it has been checked, to a server of the test: so the guard judges what it would judge, and
//! nothing is sent to strangers.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tools::client::{HttpClient, Names, Network};
use tools::http::HttpTool;
use tools::{Tool as _, ToolKind};
use wire::{CallOutcome, ToolReply, WireError};

/// The public address of the world.
const PUBLIC: &str = "93.184.215.14";

/// The names of the world, each with its addresses; `PUBLIC` stands for that one.
const NAMES: &[(&str, &[&str])] = &[
    ("site.test", &[PUBLIC]),
    ("other.test", &[PUBLIC]),
    ("loop.test", &["127.0.0.1"]),
    ("loop6.test", &["::1"]),
    ("localhost", &["127.0.0.1", "::1"]),
    ("metadata.test", &["169.254.169.254"]),
    ("ula.test", &["fd00:ec2::254"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("nat64.test", &["64:ff9b::7f00:1"]),
    ("sixtofour.test", &["2002:7f00:1::1"]),
    ("private.test", &["10.0.0.5"]),
    ("cgnat.test", &["100.64.0.1"]),
    ("zero.test", &["0.0.0.0"]),
    ("mixed.test", &[PUBLIC, "127.0.0.1"]),
    ("mixed2.test", &["127.0.0.1", PUBLIC]),
    ("mixed6.test", &[PUBLIC, "::1"]),
    ("nothing.test", &[]),
];

/// A name that is public when it is first asked for, and this machine from then on.
const REBINDING: &str = "rebind.test";

#[derive(Default)]
struct Table {
    rebound: AtomicUsize,
}

impl Names for Table {
    fn addresses(
        &self,
        name: &str,
    ) -> futures_util::future::BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let texts: Vec<&str> = if name == REBINDING {
            let first = self.rebound.fetch_add(1, Ordering::SeqCst) == 0;
            vec![if first { PUBLIC } else { "127.0.0.1" }]
        } else {
            let row = NAMES.iter().find(|(known, _)| *known == name.trim_end_matches('.'));
            row.map(|(_, texts)| texts.to_vec()).unwrap_or_default()
        };
        let found = texts.into_iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// Makes a client for which the public address is a server of the test.
pub(crate) fn client(public: SocketAddr) -> HttpClient {
    let detours = BTreeMap::from([(PUBLIC.parse().unwrap(), public)]);
    HttpClient::with_network(Network { names: Arc::new(Table::default()), detours }).unwrap()
}

/// Makes the tool of a team file whose only tool has these fields.
pub(crate) fn tool(fields: &str, client: &HttpClient) -> HttpTool {
    let text = format!(
        "[models.m]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\nmodel = 'm'\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'm'\ntools = ['t']\n\
         [tools.t]\nkind = 'http'\ndescription = 'd'\n{fields}\n"
    );
    let none = |_: &Path| Err(io::ErrorKind::NotFound.into());
    let team = config::parse(Path::new("team.toml"), &text, &none);
    let team = team.unwrap_or_else(|report| panic!("{}", report.render(false)));
    let ToolKind::Http(spec) = &team.tools["t"].kind else { panic!("no http tool") };
    HttpTool::new(spec.clone(), client.clone())
}

/// The fields of a tool that fetches what it is told to.
pub(crate) const FETCH: &str = "url = '{url}'\nparameters = { url = 'string' }";

pub(crate) async fn call(tool: &HttpTool, arguments: &Value) -> CallOutcome {
    let context = tools::testing::context(Duration::from_secs(20));
    match tool.call(&context, arguments).await {
        ToolReply::Settled { outcome, .. } => outcome,
        other @ (ToolReply::Lost { .. } | ToolReply::Asks { .. } | ToolReply::Suspended { .. }) => {
            panic!("{other:?}")
        }
    }
}

#[track_caller]
pub(crate) fn error(outcome: CallOutcome) -> WireError {
    match outcome {
        CallOutcome::Error { error } => error,
        other => panic!("no error: {other:?}"),
    }
}
