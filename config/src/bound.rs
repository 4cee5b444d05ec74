//! The bounds of a team file: what a value is if absent, and how far it may go.

use wire::Capture;

/// A number's default and the range in which it must lie.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The value if the file says nothing.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

const fn bound(default: u64, min: u64, max: u64) -> Bound {
    Bound { default, min, max }
}

/// Bytes of a team file; a team that needs more should keep its texts in files of their own.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Bytes of an agent's instructions; all of them are sent in every model turn.
pub const INSTRUCTIONS_BYTES_MAX: usize = 256 << 10;
/// Bytes of the word by which an agent goes on; a longer one is a sentence, which models do not
/// repeat letter by letter.
pub const CONTINUE_WORD_BYTES_MAX: usize = 32;
/// Bytes of one template of a text that models read; it is rendered in every model turn.
pub const PROMPT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a word of dialect `json`; a model has to write it in every reply.
pub const FORM_WORD_BYTES_MAX: usize = 64;
/// Bytes of a script; it is held in memory for as long as the team runs.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;
/// Replies of a script; each reply with a pattern is tried in each turn.
pub const SCRIPT_REPLIES_MAX: usize = 10_000;
/// Bytes of the compiled form of a reply's pattern.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Milliseconds that a scripted reply may be delayed, or a fault last: ten minutes, more than any
/// turn takes by default.
pub const SCRIPT_DELAY_MS_MAX: u64 = 600_000;
/// Agents of a team; each is an endpoint of a NATS service.
pub const AGENTS_MAX: usize = 256;
/// Models of a team.
pub const MODELS_MAX: usize = 64;
/// Tools of a team; each is an endpoint of a NATS service.
pub const TOOLS_MAX: usize = 1024;
/// Tools and agents that one agent may call; models choose badly long before this.
pub const OFFERS_MAX: usize = 64;
/// Other names of a tool; a planner that needs more of them guesses.
pub const ALIASES_MAX: usize = 16;
/// Bytes of one such name; names of tools have at most as many.
pub const ALIAS_BYTES_MAX: usize = 64;
/// Rows of a look-up table, which is searched from the top in each call.
pub const ROWS_MAX: usize = 1000;
/// Databases of a team; each holds a few files open.
pub const DATABASES_MAX: usize = 16;
/// Connections to a database on a server at once; servers allow a hundred or so in all.
pub const DATABASE_CONNECTIONS: Bound = bound(4, 1, 64);
/// The port of a server.
pub const PORT: Bound = bound(0, 1, 65_535);
/// Bytes of the script that fills a database; larger data comes as a file that is only read.
pub const INIT_BYTES_MAX: usize = 4 << 20;
/// MCP servers of a team; each is a process or a connection that is kept.
pub const SERVERS_MAX: usize = 32;
/// OpenAPI files of a team; each is held in memory while the team is loaded.
pub const INTERFACES_MAX: usize = 32;
/// Sources of event types of a team; each is a folder that is looked at again and again.
pub const EVENT_SOURCES_MAX: usize = 16;
/// Bytes of the attribute `source` of events, which stands in a header.
pub const EVENT_SOURCE_BYTES_MAX: usize = 1024;
/// The attribute `source` of events if the file says nothing.
pub const EVENT_SOURCE_DEFAULT: &str = "/callboard";
/// Tables of services to look for; each is asked for every few seconds.
pub const DISCOVERIES_MAX: usize = 32;
/// Bytes of the name of a service, or of the pattern of such names.
pub const SERVICE_BYTES_MAX: usize = 128;
/// Words of the command of a server; more belong into a script.
pub const COMMAND_WORDS_MAX: usize = 64;
/// Variables or headers of a server.
pub const SETTINGS_MAX: usize = 64;
/// Hosts that a tool may reach besides public ones; more are a network.
pub const HOSTS_MAX: usize = 64;
/// Bytes that the names of a server's tools begin with; the names have at most 64.
pub const PREFIX_BYTES_MAX: usize = 32;
/// Statements of a query, all within one transaction.
pub const STATEMENTS_MAX: usize = 16;
/// Bytes of a statement, and of the template of a result; both are written by hand.
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;
/// Bytes of the text that a tool says; it goes into the conversation of an agent.
pub const SAYING_BYTES_MAX: usize = 16 << 10;
/// Bytes of the subject that a tool asks on.
pub const SUBJECT_BYTES_MAX: usize = tools::nats::SUBJECT_BYTES_MAX;
/// Bytes of a description; all descriptions are sent in every model turn.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;

/// How much of what is said traces hold that a node keeps, if the file says nothing: enough to see
/// what went wrong, without credentials.
pub const TRACE_STORE_DEFAULT: Capture = Capture::Redacted;
/// How much of what is said traces hold that are sent elsewhere, if the file says nothing: whoever
/// wants more of it to leave the machine says so.
pub const TRACE_EXPORT_DEFAULT: Capture = Capture::Metadata;

/// How long after its end a run is kept if the file says nothing: long enough to look into what
/// went wrong last month.
pub const RETENTION_RUNS_DEFAULT: &str = "30d";
/// How long a session is kept with which nobody goes on, if the file says nothing.
pub const RETENTION_SESSIONS_DEFAULT: &str = "forever";
/// Milliseconds of a retention: a second to a hundred years.
pub const RETENTION_MS: Bound = bound(2_592_000_000, 1000, 3_155_760_000_000);
/// Bytes that traces take on the disk: some hundred thousand traces of a few spans each; at least
/// what a store of traces needs to have parts that can go, at most a tebibyte.
pub const RETENTION_TRACE_BYTES: Bound = bound(512 << 20, 64 << 20, 1 << 40);
/// Runs that are kept.
pub const RETENTION_RUNS_MAX: Bound = bound(0, 1, 1_000_000_000);

/// Requests to one model at once.
pub const MODEL_CONCURRENCY: Bound = bound(8, 1, 1024);
/// Requests that wait for a model; with the mean turn at seconds, more would only time out.
pub const MODEL_QUEUE_MAX: Bound = bound(256, 0, 65_536);
/// Milliseconds of one model turn.
pub const MODEL_TIMEOUT_MS: Bound = bound(120_000, 1, 3_600_000);
/// Milliseconds of silence between two bytes of a reply; what is before the first one, when a model
/// is loaded, reads a long prompt or thinks, is no part of it.
pub const MODEL_IDLE_TIMEOUT_MS: Bound = bound(30_000, 1, 3_600_000);
/// Times that a failed model request is made again.
pub const MODEL_RETRIES_MAX: Bound = bound(4, 0, 20);
/// Requests to one model in a minute; without a limit if absent.
pub const MODEL_REQUESTS_PER_MINUTE: Bound = bound(0, 1, 1_000_000);
/// Tokens of one model in a minute; without a limit if absent.
pub const MODEL_TOKENS_PER_MINUTE: Bound = bound(0, 1, 1_000_000_000);
/// Requests to one server at once, of all models and teams that use it; without a limit if absent.
pub const SERVER_CONCURRENCY: Bound = bound(0, 1, 4096);
/// Models that stand in for one; a run has no time to ask more of them.
pub const FALLBACKS_MAX: usize = 8;
/// A team's share of the places at a server, beside that of other teams.
pub const TEAM_WEIGHT: Bound = bound(1, 1, 100);

/// Texts at which a reply ends; providers take few, and each is looked for in every piece.
pub const STOPS_MAX: usize = 16;
/// Tokens that a model sees at once, prompt and reply together; the default is the server's.
pub const CONTEXT_TOKENS: Bound = bound(0, 1, 10_000_000);

/// Calls of one tool at once.
pub const TOOL_CONCURRENCY: Bound = bound(16, 1, 1024);
/// Milliseconds of one call of an HTTP tool.
pub const TOOL_TIMEOUT_MS: Bound = bound(30_000, 1, 3_600_000);
/// Milliseconds in which a server has to start and to list its tools. The default leaves time for a
/// package runner that fetches the server first.
pub const SERVER_START_TIMEOUT_MS: Bound = bound(60_000, 1, 600_000);
/// Bytes of a tool's response: a result must fit into one NATS message of 1 MiB when it is quoted
/// and escaped as JSON.
pub const RESPONSE_BYTES_MAX: Bound = bound(64 << 10, 1, 384 << 10);
/// Pages of one answer of a tool; all of them have to fit into its bytes.
pub const PAGES_MAX: Bound = bound(1, 1, 100);
/// Rows of one statement that a tool returns; models lose their way in long tables.
pub const QUERY_ROWS_MAX: Bound = bound(100, 1, 10_000);
/// The program and the arguments of a command; what is longer comes by its input.
pub const ARGV_MAX: usize = 256;
/// Paths that are opened to a command, for reading or for writing; each is a mount in each call.
pub const PATHS_MAX: usize = 64;
/// Bytes of memory of each process of a command: enough for an interpreter and its libraries.
pub const COMMAND_MEMORY_BYTES_MAX: Bound = bound(1 << 30, 16 << 20, 1 << 40);
/// Processes and threads of a command at once: enough for a pipeline on a large machine.
pub const COMMAND_PROCESSES_MAX: Bound = bound(64, 4, 4096);
/// Open files of each process of a command.
pub const COMMAND_OPEN_FILES_MAX: Bound = bound(256, 16, 65_536);
/// Bytes of a file that a command writes, and of all files in its temporary folder, which is in
/// memory.
pub const COMMAND_FILE_BYTES_MAX: Bound = bound(64 << 20, 4096, 1 << 40);
/// Tokens of the reply of a model behind a tool, which goes into the conversation of an agent.
pub const TOOL_REPLY_TOKENS_MAX: Bound = bound(1024, 1, 1_000_000);

/// Model steps of one run; a team that needs more has usually lost its way.
pub const STEPS_MAX: Bound = bound(25, 1, 1000);
/// Calls in one step.
pub const CALLS_PER_STEP_MAX: Bound = bound(16, 1, 128);
/// Runs above a run.
pub const DEPTH_MAX: Bound = bound(8, 0, 32);
/// Tokens of a run and all runs below it.
pub const TOKENS_MAX: Bound = bound(200_000, 1, 1_000_000_000);
/// Tokens of one model reply.
pub const REPLY_TOKENS_MAX: Bound = bound(4096, 1, 1_000_000);
/// Unusable replies in one step that are answered with feedback.
pub const FEEDBACK_MAX: Bound = bound(3, 0, 20);
/// Times that a run is taken up again at one point.
pub const RESUMES_MAX: Bound = bound(10, 0, 1000);
/// Calls of a run and all runs below it.
pub const CALLS_MAX: Bound = bound(200, 0, 1_000_000);
/// Steps that ask for one and the same call: a model that has read a result twice gains nothing
/// from reading it again.
pub const REPEATS_MAX: Bound = bound(5, 2, 1_000_000);
/// Milliseconds from acceptance to reply; at most a week, since a run may wait for a person.
pub const DEADLINE_MS: Bound = bound(600_000, 1, 604_800_000);
/// Runs of a team on one node, in work or waiting, those that its agents ask for not counted: a
/// tenth of what a node takes, so that one team leaves room for others.
pub const RUNS_MAX: Bound = bound(1000, 1, 10_000);
/// Runs that wait in a session.
pub const SESSION_QUEUE_MAX: Bound = bound(32, 0, 1024);
/// Milliseconds that a person has to allow a call; shorter than a run's own time by default, so
/// that the model can still do something about it.
pub const APPROVAL_TIMEOUT_MS: Bound = bound(300_000, 1, 604_800_000);
/// Milliseconds that a person has to answer the question of a call under way. As long as for leave,
/// and a run in which nobody answers still has time to do without.
pub const QUESTION_TIMEOUT_MS: Bound = bound(300_000, 1, 604_800_000);
/// Milliseconds for which a tool knows a call by its key: up to a year.
pub const KEY_TTL_MS: Bound = bound(0, 1, 31_536_000_000);
/// Patterns of one list of permissions; each is tried for each call.
pub const PATTERNS_MAX: usize = 256;
/// Messages of earlier runs that a model is shown.
pub const HISTORY_MESSAGES_MAX: Bound = bound(40, 0, 10_000);
/// Tokens of these messages. By default no fewer than a run can have, so that its own tokens and
/// money bound them.
pub const HISTORY_TOKENS_MAX: Bound = bound(TOKENS_MAX.max, 0, TOKENS_MAX.max);
