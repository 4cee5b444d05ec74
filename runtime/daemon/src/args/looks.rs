//! The arguments of `trace` and `top`.

use std::time::Duration;

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, TimeZone as _};
use clap::{Args, ValueEnum};
use gateway::TraceFilter;
use store::TraceStatus;
use wire::{Name, RunId, SessionId, Timestamp};

use super::{Look, Nats};

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The trace to draw: its id, the first digits of its id, or a run
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Print it as one line of JSON as OTLP has it
    #[arg(long, requires = "id", conflicts_with = "json")]
    pub(crate) otlp: bool,
    /// Draw it anew as it grows, until its runs are over
    #[arg(long, requires = "id", conflicts_with = "otlp")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// Address of a daemon's HTTP door, which asks all nodes on its bus
    #[arg(long = "url", value_name = "HTTP")]
    pub(crate) url_http: Option<String>,
}

/// Which traces are listed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which traces are listed")]
pub(crate) struct Wanted {
    /// With a span of this agent
    #[arg(long, conflicts_with = "id")]
    pub(crate) agent: Option<Name>,
    /// In which this tool was called
    #[arg(long, conflicts_with = "id")]
    pub(crate) tool: Option<String>,
    /// With a span of this session
    #[arg(long, conflicts_with = "id")]
    pub(crate) session: Option<SessionId>,
    /// Of this run
    #[arg(long, conflicts_with = "id")]
    pub(crate) run: Option<RunId>,
    /// That stand so
    #[arg(long, conflicts_with = "id")]
    pub(crate) status: Option<Standing>,
    /// That took at least so long, such as `200ms`, `1.5s` or `2m`
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "id")]
    pub(crate) min_duration: Option<Duration>,
    /// That took at most so long
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "id")]
    pub(crate) max_duration: Option<Duration>,
    /// That began then or later: so long ago, such as `90s` or `2h`, or a time, such as `2026-03-01 14:30`
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "id")]
    pub(crate) since: Option<Timestamp>,
    /// That began then or before
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "id")]
    pub(crate) until: Option<Timestamp>,
}

/// How a trace stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standing {
    /// A run of it is in work.
    Running,
    /// All runs are over, and nothing failed.
    Ok,
    /// All runs are over, and something failed.
    Error,
}

impl From<Standing> for TraceStatus {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Running => Self::Running,
            Standing::Ok => Self::Ok,
            Standing::Error => Self::Error,
        }
    }
}

impl Trace {
    /// Returns what is asked for.
    pub(crate) fn filter(&self) -> TraceFilter {
        let wanted = &self.wanted;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        TraceFilter {
            run: wanted.run.clone(),
            agent: wanted.agent.clone(),
            tool: wanted.tool.clone(),
            session: wanted.session.clone(),
            status: wanted.status.map(TraceStatus::from),
            min_ms: wanted.min_duration.map(ms),
            max_ms: wanted.max_duration.map(ms),
            since: wanted.since,
            until: wanted.until,
            after: None,
            limit: Some(self.look.limit),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print it once
    #[arg(long)]
    pub(crate) once: bool,
    /// Print it once, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) every: u64,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// Address of a daemon's HTTP door, which asks all nodes on its bus
    #[arg(long = "url", value_name = "HTTP")]
    pub(crate) url_http: Option<String>,
}

/// Reads a time span: a number with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is no time span; write one like `200ms`, `1.5s`, `2m` or `1d`");
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
    let (number, unit) = text.split_at_checked(end).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// Reads a moment: so long ago, or a date with or without a time, in local time.
fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(ago) = span(text) {
        let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
        return Ok(Timestamp::from_micros(node::now().as_micros().saturating_sub(ago)));
    }
    let local = |time: NaiveDateTime| Some(Local.from_local_datetime(&time).earliest()?.to_utc());
    let forms =
        ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    let time = time.or_else(|| {
        let timed = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
        let dated = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
        local(timed.or_else(dated)?)
    });
    let micros = time.and_then(|time| u64::try_from(time.timestamp_micros()).ok());
    micros.map(Timestamp::from_micros).ok_or_else(|| {
        format!(
            "{text:?} is no time; write how long ago, such as `90s` or `2h`, or a time such as \
             `2026-03-01`, `2026-03-01 14:30` or `2026-03-01T14:30:00Z`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_are_numbers_with_a_unit() {
        let cases = [
            ("200ms", Some(200_000)),
            ("1.5s", Some(1_500_000)),
            ("2m", Some(120_000_000)),
            ("1h", Some(3_600_000_000)),
            ("1d", Some(86_400_000_000)),
            ("7us", Some(7)),
            ("0s", Some(0)),
            ("5", None),
            ("s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("1w", None),
            ("", None),
            ("99999999999999999999999d", None),
        ];
        for (text, micros) in cases {
            let found = span(text).ok().map(|time| time.as_micros());
            assert_eq!(found, micros, "{text}");
        }
    }

    #[test]
    fn moments_are_times_or_so_long_ago() {
        let utc = moment("2026-03-01T14:30:00Z").unwrap();
        assert_eq!(utc.as_micros(), 1_772_375_400_000_000);
        assert_eq!(
            moment("2026-03-01T15:30:00.5+01:00").unwrap().as_micros(),
            utc.as_micros() + 500_000
        );
        let local = moment("2026-03-01 14:30").unwrap();
        assert_eq!(moment("2026-03-01T14:30:00").unwrap(), local);
        assert!(moment("2026-03-01").unwrap() < local);
        let then = moment("2h").unwrap();
        let ago = node::now().since(then);
        assert!(ago >= Duration::from_secs(7_200) && ago < Duration::from_secs(7_300));
        for bad in ["yesterday", "2026-13-01", "14:30", "", "1969-12-31T00:00:00Z"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
