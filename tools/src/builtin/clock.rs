//! `now`: tells date and time, as of the start of the call.

use chrono::{DateTime, FixedOffset, SecondsFormat};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use wire::{CallOutcome, Timestamp, ToolReply};

use crate::argument;
use crate::tool::{Tool, ToolContext};

pub(super) struct Now;

impl Tool for Now {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(async { ToolReply::settled(tell(context.now, arguments)) })
    }
}

fn tell(now: Timestamp, arguments: &Value) -> CallOutcome {
    let offset = match arguments.get("utc_offset") {
        None | Some(Value::Null) => "+00:00",
        Some(offset) => offset.as_str().unwrap_or_default(),
    };
    let Ok(offset) = offset.parse::<FixedOffset>() else {
        return argument::invalid("argument \"utc_offset\" has to be an offset such as +02:00");
    };
    let utc = rfc3339(now);
    let Ok(local) = DateTime::parse_from_rfc3339(&utc).map(|time| time.with_timezone(&offset))
    else {
        return argument::invalid("the time is beyond the calendar");
    };
    CallOutcome::Ok {
        output: json!({
            "utc": utc,
            "local": local.to_rfc3339_opts(SecondsFormat::Secs, false),
            "weekday": local.format("%A").to_string(),
        }),
    }
}

/// Writes a time as RFC 3339 in UTC, to the second; times beyond the calendar become its end.
pub(super) fn rfc3339(at: Timestamp) -> String {
    i64::try_from(at.as_micros())
        .ok()
        .and_then(DateTime::from_timestamp_micros)
        .unwrap_or(DateTime::<chrono::Utc>::MAX_UTC)
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_moves_the_local_time_and_perhaps_the_day() {
        // 2026-11-21 was a Saturday.
        let now = Timestamp::from_micros(1_795_300_200_000_000);
        let cases = [
            (json!({}), "2026-11-21T22:30:00+00:00", "Saturday"),
            (json!({"utc_offset": null}), "2026-11-21T22:30:00+00:00", "Saturday"),
            (json!({"utc_offset": "+02:00"}), "2026-11-22T00:30:00+02:00", "Sunday"),
            (json!({"utc_offset": "-09:30"}), "2026-11-21T13:00:00-09:30", "Saturday"),
        ];
        for (arguments, local, weekday) in cases {
            let output = json!({"utc": "2026-11-21T22:30:00Z", "local": local, "weekday": weekday});
            assert_eq!(tell(now, &arguments), CallOutcome::Ok { output }, "{arguments}");
        }
    }

    #[test]
    fn what_is_no_offset_is_refused() {
        for offset in [json!("+25:00"), json!("Europe/Berlin"), json!(""), json!(2)] {
            let outcome = tell(Timestamp::default(), &json!({"utc_offset": offset}));
            assert_eq!(outcome.as_str(), "error", "{offset}");
        }
        assert_eq!(tell(Timestamp::from_micros(u64::MAX), &json!({})).as_str(), "error");
    }
}
