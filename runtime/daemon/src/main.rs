//! The binary `callboard`: reads the command line, does what it says, ends with its exit code.

mod args;
mod client;
mod dialog;
mod failure;
mod files;
mod live;
mod paint;
mod place;
mod progress;
mod records;
mod screen;
mod stage;
mod table;
mod text;
mod threads;
mod typed;
mod verb;
mod waterfall;

use std::process::ExitCode;

use args::{Format, Global, Line, Verb};
use failure::{Exit, Failure};
use place::Place;
use screen::Screen;
use telemetry::{LogFormat, LogOptions};
use threads::wait;
use wire::ErrorCode;

/// A step makes hundreds of small allocations, as `cargo relay 1 allocations` counts them. This
/// allocator takes less time for them than the system's, and keeps more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line = Line::read();
    let screen = Screen::new(line.global.color);
    let done = set_up_log(&line, &screen).and_then(|()| run(&line, &screen));
    done.unwrap_or_else(|failure| {
        screen::note(&failure.render(screen.err.paint));
        failure.exit()
    })
    .into()
}

fn set_up_log(line: &Line, screen: &Screen) -> Result<(), Failure> {
    let quiet = if matches!(line.verb, Verb::Serve(_)) { "info" } else { "warn" };
    let format = match line.global.log_format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    let filter = line.global.log.as_deref().unwrap_or(quiet);
    telemetry::init(LogOptions { format, filter, color: screen.err.paint.is_on() })
        .map_err(|error| Failure::new(ErrorCode::BadRequest, error.to_string()))
}

fn run(line: &Line, screen: &Screen) -> Result<Exit, Failure> {
    let Global { data, http_token_file, threads, .. } = &line.global;
    let threads = *threads;
    let place = || {
        Place::new(data.as_deref()).map(|place| place.with_token_file(http_token_file.as_deref()))
    };
    match &line.verb {
        Verb::Check(args) => verb::check::check(args, screen),
        Verb::Tools(args) => wait(threads, verb::tools::tools(args, &place()?, screen)),
        Verb::Parse(args) => verb::parse::parse(args),
        Verb::Explain(args) => verb::explain::explain(args),
        Verb::Schema => {
            screen::json(&config::schema())?;
            Ok(Exit::Done)
        }
        Verb::Store(args) => wait(threads, verb::store::store(args, &place()?, screen)),
        Verb::Run(args) => wait(threads, verb::run::run(args, &place()?, screen)),
        Verb::Serve(args) => wait(threads, verb::serve::serve(args, &place()?, screen)),
        Verb::Ask(args) => wait(threads, verb::ask::ask(args, &place()?, screen)),
        Verb::Answer(args) => wait(threads, verb::control::answer(args, &place()?)),
        Verb::Cancel(args) => wait(threads, verb::control::cancel(args, &place()?)),
        Verb::Calls(args) => wait(threads, verb::calls::calls(args, &place()?, screen)),
        Verb::Sessions(args) => wait(threads, verb::look::sessions(args, &place()?, screen)),
        Verb::Runs(args) => wait(threads, verb::look::runs(args, &place()?, screen)),
        Verb::Memory(args) => wait(threads, verb::look::memory(args, &place()?, screen)),
        Verb::Trace(args) => wait(threads, verb::trace::trace(args, &place()?, screen)),
        Verb::Top(args) => wait(threads, verb::top::top(args, &place()?, screen)),
    }
}
