//! Asks a server for its tools.

use std::pin::pin;
use std::time::Duration;

use rmcp::model::{PaginatedRequestParams, Tool as RawTool};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use wire::Name;

use super::catalog::{Catalog, Hints, Listed};
use super::dial::Connection;
use super::fault::{Fault, causes, read};
use crate::http::failure::Failure;
use crate::secret::clean;

/// Tools of one server; more than a team can have.
const LISTED_MAX: usize = 1024;

/// Bytes of all that a server says of its tools.
const LISTED_BYTES_MAX: usize = 4 << 20;

/// How long a server that refused to list its tools is left alone; common refusals are those of
/// servers that are asked too much, and count by the minute.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Why there is no list.
pub(super) struct Unlisted {
    pub(super) why: String,
    stands: Stands,
}

/// How the connection stands on which there is no list.
#[derive(Clone, Copy, PartialEq)]
enum Stands {
    /// The server answers, so that calls that are under way on it may still end.
    Holds,
    /// It answers, but as servers answer those whom they do not know.
    Doubtful,
    /// Nothing is to be had on it.
    Broken,
}

/// Reads the list of a server that was read before, which may take some time.
///
/// A server that refuses has that time from its first refusal on, since its session may hold more
/// than its list; one that seems not to know the session has none. One that works on calls is not
/// given up for their sake, unless the connection is broken: it may have one thread for all it does.
pub(super) async fn look_again(
    server: &Name,
    connection: &Connection,
    time: Duration,
) -> Result<Catalog, String> {
    let mut refused = None;
    loop {
        let unlisted = match look_in(server, connection, time).await {
            Err(unlisted) if unlisted.stands != Stands::Broken => unlisted,
            looked => return looked.map_err(|unlisted| unlisted.why),
        };
        let end = *refused.get_or_insert_with(|| Instant::now() + time);
        let is_over = unlisted.stands == Stands::Doubtful || Instant::now() >= end;
        if is_over && !connection.calls.are_under_way() {
            return Err(unlisted.why);
        }
        sleep(REFUSED_PAUSE).await;
    }
}

/// Reads the list of a server that answers within some time, or works on calls; of a program on those
/// that it has from before: later ones stand behind the list if it does one thing at a time.
async fn look_in(
    server: &Name,
    connection: &Connection,
    time: Duration,
) -> Result<Catalog, Unlisted> {
    let calls = &connection.calls;
    let mut before = calls.under_way();
    let mut looking = pin!(look(server, &connection.peer));
    // Over HTTP one request says nothing of another, so that all of them count.
    let is_busy = |before: &_| {
        if connection.is_program() {
            !calls.under_way().is_disjoint(before)
        } else {
            calls.are_under_way()
        }
    };
    loop {
        let was_busy = is_busy(&before);
        tokio::select! {
            looked = &mut looking => return looked,
            () = sleep(time) => {
                if !was_busy && !is_busy(&before) {
                    let why = "it does not list its tools".to_owned();
                    return Err(Unlisted { why, stands: Stands::Broken });
                }
                // One request over HTTP may hang where the next does not, such as at another
                // instance of the server; a program has the request, and reads it in its turn.
                if !connection.is_program() {
                    before = calls.under_way();
                    looking.set(look(server, &connection.peer));
                }
            }
        }
    }
}

/// Reads the whole list of a server's tools, page by page.
pub(super) async fn look(server: &Name, peer: &Peer<RoleClient>) -> Result<Catalog, Unlisted> {
    let mut tools: Vec<Listed> = Vec::new();
    let (mut cursor, mut bytes, mut pages) = (None, 0, 0);
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| {
            let why = clean(format!("list its tools: {}", causes(&error)));
            let stands = match read(server, &error) {
                Ok(_) => Stands::Holds,
                Err(Fault::Doubtful(Failure::Settled(_))) => Stands::Doubtful,
                Err(Fault::Doubtful(Failure::Lost(_)) | Fault::NotSent(_)) => Stands::Broken,
            };
            Unlisted { why, stands }
        })?;
        for raw in page.tools {
            let tool = listed(raw);
            bytes += tool.description.len() + tool.parameters.to_string().len();
            bytes += tool.output.as_ref().map_or(0, |schema| schema.to_string().len());
            if tools.iter().all(|known| known.name != tool.name) {
                tools.push(tool);
            }
        }
        pages += 1;
        if tools.len() > LISTED_MAX || bytes > LISTED_BYTES_MAX || pages > LISTED_MAX {
            let why = format!("it lists more than {LISTED_MAX} tools or {LISTED_BYTES_MAX} bytes");
            return Err(Unlisted { why, stands: Stands::Holds });
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(Catalog { tools });
        }
    }
}

fn listed(tool: RawTool) -> Listed {
    let hints = tool.annotations.as_ref().map_or_else(Hints::default, |said| Hints {
        read_only: said.read_only_hint,
        destructive: said.destructive_hint,
        idempotent: said.idempotent_hint,
    });
    let description = tool.description.map(std::borrow::Cow::into_owned).or(tool.title);
    Listed {
        name: tool.name.into_owned(),
        description: description.unwrap_or_default(),
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        output: tool.output_schema.map(|schema| Value::Object(schema.as_ref().clone())),
        hints,
    }
}
