//! The command line.

mod looks;
mod read;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use wire::{CallKey, Digest, Name, OpenKind, RunId, SessionId};

use crate::screen::Color;

pub(crate) use looks::{Top, Trace};

/// Runs teams of LLM agents.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Directory below which each team keeps its data [default: the platform's]
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// File with the token of the HTTP door: `serve` asks its clients for it, all others send it
    /// [default: the one in `CALLBOARD_TOKEN`]
    #[arg(long = "token-file", value_name = "FILE", env = "CALLBOARD_TOKEN_FILE", global = true)]
    pub(crate) http_token_file: Option<PathBuf>,
    /// Threads that all runs share [default: half as many as the machine has cores]
    #[arg(
        long,
        value_name = "NUMBER",
        env = "CALLBOARD_THREADS",
        global = true,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(node::THREADS_MAX)),
    )]
    pub(crate) threads: Option<u16>,
    /// What is logged to stderr, such as `info,node=debug` [default: info for serve, else warn]
    #[arg(long, value_name = "FILTER", env = "CALLBOARD_LOG", global = true)]
    pub(crate) log: Option<String>,
    /// Form of a log line
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true)]
    pub(crate) log_format: Format,
    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(crate) color: Color,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Ask a team one thing, with live progress; the answer goes to stdout
    ///
    /// The team runs within the command, without a NATS server: tools of the kind `nats`, services
    /// of `[discover]` and events with a `sink_subject` cannot be reached. `serve --nats` reaches
    /// them.
    Run(Run),
    /// Run teams as a daemon
    Serve(Serve),
    /// Ask a team of a running daemon
    Ask(Ask),
    /// Answer a run that waits for a person
    Answer(Answer),
    /// End a run
    Cancel(Cancel),
    /// List calls that wait for a person, and decide about them
    #[command(subcommand)]
    Calls(Calls),
    /// Check team files and point at what is wrong
    Check(Check),
    /// Show exactly what models are offered
    Tools(Tools),
    /// Read one reply of a model from stdin and print what it says as one line of JSON
    Parse(Parse),
    /// List sessions, or show what was said in one
    Sessions(Sessions),
    /// List runs
    Runs(Look),
    /// List traces, draw one, watch it grow, or write it as OTLP
    #[command(visible_alias = "traces")]
    Trace(Trace),
    /// Watch how daemons fare: what is in work, what waits, how fast, how much
    Top(Top),
    /// Show what a team remembers
    Memory(Memory),
    /// Check the stored data, or make the look-up store anew from the journal
    #[command(subcommand)]
    Store(Store),
    /// Explain an error code, or list all codes
    Explain(Explain),
    /// Print the JSON Schema of team files
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The team file
    #[arg(value_name = "TEAM.toml")]
    pub(crate) team: PathBuf,
    /// What to ask; `-` reads it from stdin
    #[arg(value_name = "MESSAGE", required = true)]
    pub(crate) message: Vec<String>,
    /// The agent to ask [default: the team's entry]
    #[arg(long)]
    pub(crate) agent: Option<Name>,
    /// The conversation to go on with
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Seconds after which the run is ended
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=TIMEOUT_MAX))]
    pub(crate) timeout: Option<u64>,
    /// Print the whole reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The team files
    #[arg(value_name = "TEAM.toml", required = true)]
    pub(crate) teams: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// Ask models, tools and agents of this process past the server: cheaper, and seen by nobody
    #[arg(long = "nats-near", requires = "url")]
    pub(crate) nats_near: bool,
    /// Address of the HTTP door; `none` opens none, port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    pub(crate) listen: String,
    /// Name under which the HTTP door is reached as well, such as through a proxy; needs a token
    #[arg(long = "host-name", value_name = "NAME")]
    pub(crate) host_names: Vec<String>,
    /// Room that each team sets aside for ending runs when the disk is full; 0 sets none aside
    #[arg(
        long,
        value_name = "MIB",
        env = "CALLBOARD_DISK_RESERVE",
        default_value_t = node::RESERVE_BYTES_DEFAULT >> 20,
        value_parser = clap::value_parser!(u64).range(0..=DISK_RESERVE_MIB_MAX),
    )]
    pub(crate) disk_reserve: u64,
}

/// The longest time of a run, in seconds: a week, as in team files.
const TIMEOUT_MAX: u64 = 604_800;

/// The largest reserve, in MiB: a tebibyte, so that a slip of the finger does not take the disk.
const DISK_RESERVE_MIB_MAX: u64 = 1 << 20;

/// How NATS is reached.
#[derive(Debug, Args)]
pub(crate) struct Nats {
    /// NATS servers, such as `nats://host:4222`, joined by commas
    #[arg(long = "nats", value_name = "URL", env = "CALLBOARD_NATS", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// File with a JWT and the seed of its nkey
    #[arg(long = "nats-creds", value_name = "FILE", requires = "url", group = "auth")]
    pub(crate) creds: Option<PathBuf>,
    /// User; the password comes from a file
    #[arg(long = "nats-user", value_name = "USER", requires = "password_file", group = "auth")]
    pub(crate) user: Option<String>,
    /// File with the password of the user
    #[arg(long = "nats-password-file", value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with the seed of an nkey
    #[arg(long = "nats-nkey-file", value_name = "FILE", requires = "url", group = "auth")]
    pub(crate) nkey_file: Option<PathBuf>,
    /// File with a token
    #[arg(long = "nats-token-file", value_name = "FILE", requires = "url", group = "auth")]
    pub(crate) token_file: Option<PathBuf>,
    /// File of certificates in PEM, by which the server's is checked beside those of the system
    #[arg(long = "nats-ca", value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
    /// File with our own certificate in PEM
    #[arg(long = "nats-cert", value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// File with the key of our certificate in PEM
    #[arg(long = "nats-key", value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Speak to servers on other machines without TLS and login
    #[arg(long = "nats-insecure", requires = "url")]
    pub(crate) insecure: bool,
    /// First token of the subjects on which answers come, such as `_INBOX_client`
    #[arg(long = "nats-inbox", value_name = "PREFIX", default_value = "_INBOX")]
    pub(crate) inbox: String,
    /// First tokens of all subjects
    #[arg(long, value_name = "PREFIX", default_value = wire::subject::PREFIX_DEFAULT)]
    pub(crate) subject_prefix: String,
}

#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// The team, and the agent if it is not the team's entry
    #[arg(value_name = "TEAM[/AGENT]")]
    pub(crate) whom: Whom,
    /// What to ask; `-` reads it from stdin
    #[arg(value_name = "MESSAGE", required = true)]
    pub(crate) message: Vec<String>,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// Address of a daemon's HTTP door [default: that of the daemon that holds the team's data]
    #[arg(long = "url", value_name = "HTTP")]
    pub(crate) url_http: Option<String>,
    /// The conversation to go on with
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Id of the run; asking again with the same id gives the same reply
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// Seconds after which the run is ended; without it the team's limit holds, and the reply is
    /// waited for an hour
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=TIMEOUT_MAX))]
    pub(crate) timeout: Option<u64>,
    /// Print the whole reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A team, and an agent of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whom {
    pub(crate) team: Name,
    pub(crate) agent: Option<Name>,
}

impl std::str::FromStr for Whom {
    type Err = wire::id::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((team, agent)) => Ok(Self { team: team.parse()?, agent: Some(agent.parse()?) }),
            None => Ok(Self { team: text.parse()?, agent: None }),
        }
    }
}

/// Which running daemon is meant.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The team [default: each whose data a daemon holds]
    #[arg(long)]
    pub(crate) team: Option<Name>,
    /// Address of a daemon's HTTP door; needs --team
    #[arg(long, value_name = "HTTP", requires = "team")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The run that waits
    pub(crate) run: RunId,
    /// The answer; to a question with a form its only field, or the whole of it as JSON
    #[arg(
        value_name = "TEXT",
        required_unless_present_any = ["content", "decline", "cancel"],
        conflicts_with_all = ["content", "decline", "cancel"]
    )]
    pub(crate) text: Vec<String>,
    /// The form of the question as it is filled in
    #[arg(long, value_name = "JSON", conflicts_with_all = ["decline", "cancel"])]
    pub(crate) content: Option<String>,
    /// Refuse to answer the question of a tool; its call goes on without
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) decline: bool,
    /// Turn away from the question of a tool
    #[arg(long)]
    pub(crate) cancel: bool,
    /// The call that asked [default: the one that asked first]
    #[arg(long, value_name = "KEY")]
    pub(crate) call: Option<CallKey>,
    /// The question that is answered, as `calls show` names it [default: the present one]
    #[arg(long, value_name = "ID")]
    pub(crate) question_id: Option<Name>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The run
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Calls {
    /// List the open calls, the oldest first
    List(CallsList),
    /// Show one open call with all that is known of it
    Show {
        /// The call
        #[arg(value_name = "KEY")]
        call: CallKey,
        #[command(flatten)]
        door: Door,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Allow a call that needs leave, exactly as it stands
    Approve {
        /// The call
        #[arg(value_name = "KEY")]
        call: CallKey,
        /// Allow it only if this is its digest, as `show` prints it [default: the present one]
        #[arg(long, value_name = "HEX", value_parser = digest)]
        digest: Option<Digest>,
        #[command(flatten)]
        door: Door,
    },
    /// Deny a call that needs leave
    Deny {
        /// The call
        #[arg(value_name = "KEY")]
        call: CallKey,
        /// Why; the model reads it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        door: Door,
    },
    /// Say what came of a call whose outcome is unknown
    Resolve {
        /// The call
        #[arg(value_name = "KEY")]
        call: CallKey,
        /// It took effect; its result, as JSON or as text
        #[arg(long, value_name = "RESULT", required_unless_present = "not_done")]
        done: Option<String>,
        /// It did not take effect, and cannot any more
        #[arg(long, conflicts_with = "done")]
        not_done: bool,
        #[command(flatten)]
        door: Door,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CallsList {
    /// Only calls that are open for this
    #[arg(long = "for", value_name = "KIND")]
    pub(crate) kind: Option<Kind>,
    /// Rows, oldest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) door: Door,
}

/// What a call is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A person has to allow or deny it.
    Approval,
    /// Its tool asked a person a question.
    Question,
    /// Nobody knows whether it took effect.
    Unknown,
}

impl From<Kind> for OpenKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Approval => Self::Approval,
            Kind::Question => Self::Question,
            Kind::Unknown => Self::Unknown,
        }
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    text.parse()
}

/// Where the calls of a team are: by default at the daemon that holds its data, or in its files.
#[derive(Debug, Args)]
pub(crate) struct Door {
    /// The team [default: all that have data]
    #[arg(long)]
    pub(crate) team: Option<Name>,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// Address of a daemon's HTTP door; needs --team
    #[arg(long = "url", value_name = "HTTP", requires = "team")]
    pub(crate) url_http: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The team files
    #[arg(value_name = "TEAM.toml", required = true)]
    pub(crate) teams: Vec<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Tools {
    /// The team file
    #[arg(value_name = "TEAM.toml")]
    pub(crate) team: PathBuf,
    /// The agent [default: all]
    #[arg(long)]
    pub(crate) agent: Option<Name>,
    /// Print exactly what is sent
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell how the tools of an MCP server differ from what is pinned of them
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["agent", "approve"])]
    pub(crate) compare: Option<Name>,
    /// Pin what an MCP server lists at present, in place of what was pinned
    #[arg(long, value_name = "SERVER", conflicts_with = "agent")]
    pub(crate) approve: Option<Name>,
    #[command(flatten)]
    pub(crate) nats: Nats,
}

#[derive(Debug, Args)]
pub(crate) struct Parse {
    /// How the reply is read; for `native` it is the assistant message as JSON, or plain text
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Spoken,
    /// File with a JSON list of tools in the OpenAI form, or of bare names
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: PathBuf,
}

/// A dialect by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spoken {
    /// The provider's tool calling, or calls in the text.
    Native,
    /// One JSON object under a schema.
    Schema,
    /// One JSON object with a thought and an action.
    Json,
    /// Thought, action and observation.
    React,
}

/// What look-ups take.
#[derive(Debug, Args)]
pub(crate) struct Look {
    /// The team [default: all that have data]
    #[arg(long)]
    pub(crate) team: Option<Name>,
    /// Rows, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// The session to show
    pub(crate) session: Option<SessionId>,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Args)]
pub(crate) struct Memory {
    /// Words to look for [default: the newest facts]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read every record of journal and store; a damaged store is moved aside, all else stays
    Verify(Stored),
    /// Delete the look-up store and make it anew from the journal
    Rebuild(Stored),
    /// Drop at once what need not be kept, by the team's `[retention]`; a daemon does it by itself
    Compact(Compact),
}

/// The data of one team.
#[derive(Debug, Args)]
pub(crate) struct Stored {
    /// The team file; or name the team with --team
    #[arg(value_name = "TEAM.toml", required_unless_present = "team", conflicts_with = "team")]
    pub(crate) file: Option<PathBuf>,
    /// The team
    #[arg(long)]
    pub(crate) team: Option<Name>,
    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The data of one team whose file says what is kept.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The team file
    #[arg(value_name = "TEAM.toml")]
    pub(crate) file: PathBuf,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code, such as `E1003`
    pub(crate) code: Option<String>,
}

#[cfg(test)]
mod tests;
