//! The requests of Neo4j's Query API, and what their answers mean.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::super::database::{Fault, ResultSet, Results, Work};
use super::{Login, Neo4jSpec};
use crate::http::failure::{self, Meaning};

/// Bytes of one answer: many times what a model reads, and little enough that a few statements
/// without a limit at once do not fill the memory.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How long a server may take to end a transaction.
const END_TIME: Duration = Duration::from_secs(10);

/// Names the member of a cluster that holds a transaction.
const AFFINITY: &str = "neo4j-cluster-affinity";

pub(super) struct Exchange {
    client: reqwest::Client,
    url: String,
    login: Login,
}

/// A transaction that is open.
pub(super) struct Transaction {
    id: String,
    affinity: Option<String>,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    Rollback,
}

/// What a server says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    data: Option<Table>,
    counters: Option<Counters>,
    transaction: Option<TransactionTold>,
    errors: Vec<ErrorTold>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Table {
    fields: Vec<String>,
    values: Vec<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Counters {
    nodes_created: u64,
    nodes_deleted: u64,
    relationships_created: u64,
    relationships_deleted: u64,
    properties_set: u64,
    labels_added: u64,
    labels_removed: u64,
}

#[derive(Debug, Deserialize)]
struct TransactionTold {
    id: String,
}

#[derive(Debug, Deserialize)]
struct ErrorTold {
    code: String,
    message: String,
}

/// Why there is no good answer.
enum Failure {
    /// The request was not sent.
    Unsent(String),
    /// It was perhaps sent, and nothing is known.
    Silent(String),
    /// The answer is none of the Query API's: perhaps of a gateway before it, which says nothing
    /// of what the server did.
    Foreign(String),
    /// The answer is longer than what is read.
    Wide(String),
    /// The server said so.
    Told(Fault),
}

impl Told {
    /// Takes the rows as the result of a statement.
    pub(super) fn into_set(
        self,
        work: &Work,
        results: &mut Results,
        has_columns: bool,
    ) -> Result<ResultSet, Fault> {
        if let Some(counters) = self.counters {
            results.changed += counters.sum();
        }
        let mut set = ResultSet { has_columns, rows: Vec::new() };
        let table = self.data.unwrap_or_default();
        for values in table.values {
            if values.len() != table.fields.len() {
                return Err(Fault::Statement("a row has not as many values as columns".to_owned()));
            }
            let row: Map<String, Value> = table.fields.iter().cloned().zip(values).collect();
            if !results.add(&mut set, row, &work.query) {
                break;
            }
        }
        Ok(set)
    }
}

impl Counters {
    fn sum(&self) -> u64 {
        let Self {
            nodes_created,
            nodes_deleted,
            relationships_created,
            relationships_deleted,
            properties_set,
            labels_added,
            labels_removed,
        } = self;
        [nodes_created, nodes_deleted, relationships_created, relationships_deleted]
            .into_iter()
            .chain([properties_set, labels_added, labels_removed])
            .sum()
    }
}

impl Exchange {
    pub(super) fn new(spec: &Neo4jSpec, client: reqwest::Client) -> Self {
        let url = format!("{}/db/{}/query/v2", spec.url, spec.database);
        Self { client, url, login: spec.login.clone() }
    }

    /// Puts one statement, which is made durable by itself.
    pub(super) async fn ask(
        &self,
        work: &Work,
        statement: &str,
        seconds: u64,
    ) -> Result<Told, Fault> {
        let request = self.request(Method::POST, "", None)?;
        let body = body(work, statement, Some(seconds));
        let (told, _) = self.send(request.json(&body)).await.map_err(Failure::undone)?;
        Ok(told)
    }

    /// Puts a statement in a transaction, which is opened by the first one.
    pub(super) async fn ask_within(
        &self,
        work: &Work,
        statement: &str,
        seconds: u64,
        open: &mut Option<Transaction>,
    ) -> Result<Told, Fault> {
        let path =
            open.as_ref().map_or_else(|| "/tx".to_owned(), |open| format!("/tx/{}", open.id));
        // The time of a transaction is set when it is opened.
        let body = body(work, statement, open.is_none().then_some(seconds));
        let request = self.request(Method::POST, &path, open.as_ref())?.json(&body);
        let (told, affinity) = self.send(request).await.map_err(Failure::undone)?;
        if open.is_none() {
            let Some(TransactionTold { id }) = &told.transaction else {
                return Err(Fault::Statement("the server opened no transaction".to_owned()));
            };
            if !id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
                return Err(Fault::Statement("the transaction has no plain name".to_owned()));
            }
            *open = Some(Transaction { id: id.clone(), affinity });
        }
        Ok(told)
    }

    /// Ends a transaction. A commit that was perhaps sent is unsure unless the Query API itself
    /// says what came of it.
    pub(super) async fn end(&self, transaction: &Transaction, how: Ending) -> Result<(), Fault> {
        let id = &transaction.id;
        let request = match how {
            Ending::Commit => {
                let path = format!("/tx/{id}/commit");
                self.request(Method::POST, &path, Some(transaction))?.json(&json!({}))
            }
            Ending::Rollback => {
                self.request(Method::DELETE, &format!("/tx/{id}"), Some(transaction))?
            }
        };
        match timeout(END_TIME, self.send(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Failure::Silent(text) | Failure::Foreign(text) | Failure::Wide(text))) => {
                Err(Fault::Unsure(format!("commit: {text}")))
            }
            Ok(Err(failure)) => Err(failure.undone()),
            Err(_) => Err(Fault::Unsure("commit: the server did not answer".to_owned())),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        open: Option<&Transaction>,
    ) -> Result<RequestBuilder, Fault> {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = request.header("accept", "application/json");
        let request = match open.and_then(|open| open.affinity.as_ref()) {
            Some(affinity) => request.header(AFFINITY, affinity),
            None => request,
        };
        let secret = |of: &crate::secret::SecretRef| {
            of.resolve().map_err(|error| Fault::Away(error.message))
        };
        Ok(match &self.login {
            Login::Anonymous => request,
            Login::User { user, password } => {
                request.basic_auth(user, Some(secret(password)?.expose_secret()))
            }
            Login::Token(token) => request.bearer_auth(secret(token)?.expose_secret()),
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<(Told, Option<String>), Failure> {
        let broken = |error: reqwest::Error| {
            let is_unsent = error.is_connect() || error.is_builder();
            let text = format!("{}: {}", self.url, cause(&error.without_url()));
            if is_unsent { Failure::Unsent(text) } else { Failure::Silent(text) }
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        let affinity = response.headers().get(AFFINITY);
        let affinity = affinity.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                let text =
                    format!("more than {ANSWER_BYTES_MAX} bytes came; ask for less by `LIMIT`");
                return Err(Failure::Wide(text));
            }
        }
        let told =
            if bytes.is_empty() { Ok(Told::default()) } else { serde_json::from_slice(&bytes) };
        match (failure::meaning(status), told) {
            (Meaning::Done | Meaning::Failed, Ok(Told { errors, .. })) if !errors.is_empty() => {
                Err(Failure::Told(meaning(&errors)))
            }
            (Meaning::Done, Ok(told)) => Ok((told, affinity)),
            // The Query API has no status of the unknown ones, whatever the form of the body.
            (Meaning::Done | Meaning::Failed | Meaning::Unknown(_), Ok(_) | Err(_)) => {
                Err(Failure::Foreign(refusal(status, &self.url)))
            }
        }
    }
}

impl Failure {
    /// Says what it means where nothing was made durable.
    fn undone(self) -> Fault {
        match self {
            Self::Unsent(text) | Self::Silent(text) | Self::Foreign(text) => Fault::Away(text),
            Self::Wide(text) => Fault::Statement(text),
            Self::Told(fault) => fault,
        }
    }
}

fn body(work: &Work, statement: &str, seconds: Option<u64>) -> Value {
    let mode = if work.query.writes { "Write" } else { "Read" };
    let mut body = json!({
        "statement": statement,
        "parameters": work.values,
        "includeCounters": true,
    });
    if let (Some(seconds), Some(body)) = (seconds, body.as_object_mut()) {
        body.insert("accessMode".to_owned(), json!(mode));
        body.insert("maxExecutionTime".to_owned(), json!(seconds));
    }
    body
}

/// Says what the errors of a server mean; the first is what went wrong.
fn meaning(errors: &[ErrorTold]) -> Fault {
    let Some(ErrorTold { code, message }) = errors.first() else {
        return Fault::Statement("it failed without a reason".to_owned());
    };
    let text = format!("{code}: {message}");
    let kind = code.strip_prefix("Neo.").unwrap_or(code);
    let is_login = kind.starts_with("ClientError.Security.") && !kind.ends_with(".Forbidden");
    if kind.contains("TransactionTimedOut") || kind.contains("Transaction.Terminated") {
        Fault::Stopped
    } else if is_login || kind.starts_with("TransientError.") {
        Fault::Away(text)
    } else {
        Fault::Statement(text)
    }
}

/// Says what an answer means that does not come from the Query API.
fn refusal(status: StatusCode, url: &str) -> String {
    let what = match status {
        StatusCode::NOT_FOUND => "there is no Query API; Neo4j 5.19 or newer has it",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "the login was refused",
        _ => "it did not answer as the Query API does",
    };
    format!("{url}: {} {what}", status.as_u16())
}

/// Says what lies below an error, whose outer layers only say that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string()
}
