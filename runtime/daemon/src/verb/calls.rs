//! `callboard calls`: what waits for a person, and what a person decides about it.

use agents_core::form::fields;
use bus::Bus;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::open::{ApproveRequest, DenyRequest, OpenCallList, OpenCallsRequest, ResolveRequest};
use wire::run::RunView;
use wire::subject::CallVerb;
use wire::{CallKey, ErrorCode, Headers, Name, OpenCall, OpenKind, Subjects};

use super::control::stands;
use super::look::{each, when};
use super::nats;
use crate::args::{Calls, CallsList, Door};
use crate::client::{self, Client, LOOKUP_TIMEOUT};
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::records::{Answers, Of, open_files};
use crate::screen::{self, Screen};
use crate::table::{self, Column};
use crate::text;

/// Where the open calls of a team are.
struct Board<'p> {
    team: Name,
    source: Source<'p>,
}

#[derive(Clone)]
enum Source<'p> {
    /// In a data directory: at the daemon that holds the data of the team, or in its files, which
    /// can be looked at if nobody runs it and are held no longer than that takes.
    Data(&'p Place),
    /// At the HTTP door of a daemon.
    Http(Client),
    /// At a daemon on NATS.
    Nats(Bus, Subjects),
}

/// Lists open calls, shows one, or decides about one.
pub(crate) async fn calls(args: &Calls, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    match args {
        Calls::List(args) => list(args, place, screen).await,
        Calls::Show { call, door, json } => {
            let (board, open) = find(door, call, place, screen).await?;
            if *json {
                screen::json(&Of { team: board.team, found: open })?;
            } else {
                screen::answer(&render_call(&board.team, &open, screen.out.paint))?;
            }
            Ok(Exit::Done)
        }
        Calls::Approve { call, digest, door } => {
            let (board, open) = find(door, call, place, screen).await?;
            // What was looked at is what is allowed, should it change before this arrives.
            let digest = Some(digest.unwrap_or(open.digest));
            board.decide(call, CallVerb::Approve, &ApproveRequest { digest }).await
        }
        Calls::Deny { call, reason, door } => {
            let (board, _) = find(door, call, place, screen).await?;
            let reason = reason.clone().unwrap_or_default();
            board.decide(call, CallVerb::Deny, &DenyRequest { reason }).await
        }
        Calls::Resolve { call, done, not_done: _, door } => {
            let (board, open) = find(door, call, place, screen).await?;
            let request = ResolveRequest {
                done: done.is_some(),
                result: done.as_deref().map(result),
                attempt: Some(open.attempt),
            };
            board.decide(call, CallVerb::Resolve, &request).await
        }
    }
}

/// Takes a result from the command line: JSON if it is a value of it, else a text.
fn result(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

async fn list(args: &CallsList, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let mut answers = Answers::default();
    for board in boards(&args.door, place).await? {
        let list = board.list(args.kind.map(OpenKind::from), args.limit).await;
        let who = format!("team {}", board.team);
        answers.take(who, list.map(|list| Of { team: board.team, found: list.calls }));
    }
    let mut rows = each(answers.close(screen)?);
    rows.sort_by_key(|row| (!row.found.waits, row.found.since));
    rows.truncate(args.limit);
    if args.json {
        screen::json(&json!({"calls": rows}))?;
    } else if rows.is_empty() {
        screen::note("no call is open\n");
    } else {
        screen::answer(&render_calls(&rows, screen.out.paint, screen.out.width))?;
        if rows.len() == args.limit {
            screen::note("there may be more; --limit shows them\n");
        }
    }
    Ok(Exit::Done)
}

/// Finds where open calls are looked for.
async fn boards<'p>(door: &Door, place: &'p Place) -> Result<Vec<Board<'p>>, Failure> {
    let needs_team =
        || Failure::new(ErrorCode::BadRequest, "name the team with --team as well as the daemon");
    if let Some(url) = &door.url_http {
        let team = door.team.clone().ok_or_else(needs_team)?;
        return Ok(vec![Board { team, source: Source::Http(Client::new(url, place.token()?)?) }]);
    }
    if let Some(options) = nats::options(&door.nats)? {
        let team = door.team.clone().ok_or_else(needs_team)?;
        let source = Source::Nats(Bus::connect(options).await?, nats::subjects(&door.nats)?);
        return Ok(vec![Board { team, source }]);
    }
    let teams = place.teams(door.team.as_ref())?;
    Ok(teams.into_iter().map(|team| Board { team, source: Source::Data(place) }).collect())
}

/// Finds an open call, and where it is.
async fn find<'p>(
    door: &Door,
    call: &CallKey,
    place: &'p Place,
    screen: &Screen,
) -> Result<(Board<'p>, OpenCall), Failure> {
    let mut answers = Answers::default();
    for board in boards(door, place).await? {
        match board.show(call).await {
            Ok(Some(open)) => return Ok((board, open)),
            answer => answers.take(format!("team {}", board.team), answer),
        }
    }
    answers.close(screen)?;
    let text = format!("call {call} is not open; `callboard calls list` shows those that are");
    Err(Failure::new(ErrorCode::UnknownCall, text))
}

impl Board<'_> {
    /// Finds where the calls are at present: in files only if no daemon holds them.
    fn source(&self) -> Result<Source<'_>, Failure> {
        let client = match &self.source {
            Source::Data(place) => Client::of_holder(place, &self.team)?,
            Source::Http(_) | Source::Nats(..) => None,
        };
        Ok(client.map_or_else(|| self.source.clone(), Source::Http))
    }

    async fn list(&self, kind: Option<OpenKind>, limit: usize) -> Result<OpenCallList, Failure> {
        match self.source()? {
            Source::Data(place) => {
                Ok(node::open_calls(open_files(place, &self.team).await?.store(), kind, limit)?)
            }
            Source::Http(client) => {
                let mut query = vec![("limit", limit.to_string())];
                query.extend(kind.map(|kind| ("kind", kind.as_str().to_owned())));
                client.get(&format!("/v1/teams/{}/calls", self.team), &query).await
            }
            Source::Nats(bus, subjects) => {
                let body = OpenCallsRequest { kind, limit: Some(limit) };
                ask(&bus, &subjects.calls(&self.team), &body).await
            }
        }
    }

    async fn show(&self, call: &CallKey) -> Result<Option<OpenCall>, Failure> {
        let found = match self.source()? {
            Source::Data(place) => {
                return Ok(open_files(place, &self.team).await?.store().open_call(call)?);
            }
            Source::Http(client) => {
                client.get(&format!("/v1/teams/{}/calls/{call}", self.team), &[]).await
            }
            Source::Nats(bus, subjects) => {
                ask(&bus, &subjects.call(&self.team, call, CallVerb::Show), &json!({})).await
            }
        };
        match found {
            Err(Failure::Error(error)) if error.code == ErrorCode::UnknownCall => Ok(None),
            found => found.map(Some),
        }
    }

    /// Tells the daemon what a person decided, and says where the run stands then.
    async fn decide(
        &self,
        call: &CallKey,
        verb: CallVerb,
        body: &impl Serialize,
    ) -> Result<Exit, Failure> {
        let view: RunView = match self.source()? {
            Source::Data(_) => {
                let text = format!(
                    "no daemon runs team {}, and only one that does can take a decision; start it \
                     with `callboard serve`, and decide then",
                    self.team
                );
                return Err(Failure::new(ErrorCode::Unavailable, text));
            }
            Source::Http(client) => {
                let path = format!("/v1/teams/{}/calls/{call}/{}", self.team, verb.as_str());
                client.post(&path, body, LOOKUP_TIMEOUT).await?
            }
            Source::Nats(bus, subjects) => {
                ask(&bus, &subjects.call(&self.team, call, verb), body).await?
            }
        };
        screen::note(&stands(&view));
        Ok(Exit::Done)
    }
}

async fn ask<T: DeserializeOwned>(
    bus: &Bus,
    subject: &str,
    body: &impl Serialize,
) -> Result<T, Failure> {
    let body: Bytes = client::encode(body)?;
    let answer = bus.request(subject, Headers::new(), body, LOOKUP_TIMEOUT).await?;
    client::decode(&answer.payload)
}

fn render_calls(rows: &[Of<OpenCall>], paint: Paint, width: usize) -> String {
    let columns =
        [Column::Left("call"), Column::Left("for"), Column::Left("since"), Column::Rest("what")];
    let cells = |row: &Of<OpenCall>| {
        let open = &row.found;
        let what = match open.kind {
            OpenKind::Approval => format!("{} {}", open.tool, exact(&open.arguments)),
            OpenKind::Question => format!("{}: {}", open.agent, open.question),
            OpenKind::Unknown => {
                format!("{} {}: {}", open.tool, exact(&open.arguments), open.question)
            }
        };
        vec![open.call.to_string(), open.kind.as_str().to_owned(), when(open.since), what]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |_, _| None)
}

/// Returns the commands by which a person decides about an open call.
fn ways(open: &OpenCall) -> Vec<String> {
    let OpenCall { call, run, .. } = open;
    match (open.kind, &open.form) {
        (OpenKind::Approval, _) => {
            vec![format!("callboard calls approve {call}"), format!("callboard calls deny {call}")]
        }
        (OpenKind::Question, None) => vec![format!("callboard answer {run} TEXT --call {call}")],
        (OpenKind::Question, Some(_)) => {
            let asked = open.question_id.as_ref().map(|id| format!(" --question-id {id}"));
            let asked = asked.unwrap_or_default();
            let answer = format!("callboard answer {run} --call {call}{asked}");
            vec![format!("{answer} --content JSON"), format!("{answer} --decline")]
        }
        (OpenKind::Unknown, _) => vec![
            format!("callboard calls resolve {call} --done RESULT"),
            format!("callboard calls resolve {call} --not-done"),
        ],
    }
}

/// Returns the command with which a person begins who is to decide about an open call: the first
/// of those that do, or the one that shows the form that is to be filled in.
pub(crate) fn way(open: &OpenCall) -> String {
    if open.kind == OpenKind::Question && open.form.is_some() {
        return format!("callboard calls show {}", open.call);
    }
    ways(open).into_iter().next().unwrap_or_default()
}

fn render_call(team: &Name, open: &OpenCall, paint: Paint) -> String {
    let need = match open.kind {
        OpenKind::Approval => "needs leave, and was not made",
        OpenKind::Question => "waits for an answer",
        OpenKind::Unknown => "may have taken effect",
    };
    let mut lines = vec![format!("{} {need}", paint.bold(open.call.as_str()))];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<10} {text}"));
    if !open.notice.is_empty() {
        line("notice", text::one_line(&open.notice));
    }
    line("tool", open.tool.to_string());
    line("arguments", exact(&open.arguments));
    line("digest", open.digest.to_string());
    line("asked by", format!("{} of team {team}, run {}", open.agent, open.run));
    if let Some(parent) = &open.parent {
        line("", format!("for run {parent}"));
    }
    line("since", when(open.since));
    if let Some(until) = open.until {
        line("until", when(until));
    }
    line("attempts", open.attempt.to_string());
    line("run", if open.waits { "waits for it" } else { "does not wait for it" }.to_owned());
    let question = open.question.strip_prefix(&open.notice).unwrap_or(&open.question);
    line(if open.kind == OpenKind::Unknown { "known" } else { "asks" }, text::one_line(question));
    for field in open.form.iter().flat_map(fields) {
        let needed = if field.required { ", needed" } else { "" };
        let text = format!("{}: {}{needed}", field.name, field.hint());
        line("field", text::one_line(&text));
    }
    for command in ways(open) {
        line("next", command);
    }
    lines.join("\n")
}

/// Writes arguments as they will be sent, with nothing in them that cannot be seen.
fn exact(arguments: &Value) -> String {
    text::visible(&arguments.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(kind: &str) -> OpenCall {
        let open = json!({
            "call": "k1", "kind": kind, "run": "r1", "session": "s", "agent": "lead",
            "tool": "pay", "arguments": {"to": "a\u{202e}b\u{1b}[2J"}, "digest": "ab".repeat(32),
            "attempt": 1, "question": "sure?", "waits": true, "since": 0,
        });
        serde_json::from_value(open).unwrap()
    }

    #[test]
    fn what_is_decided_about_is_shown_as_it_is() {
        let team = Name::new("t").unwrap();
        for (kind, parts) in [
            ("approval", ["needs leave", "asks       sure?"]),
            ("question", ["waits for an answer", "asks       sure?"]),
            ("unknown", ["may have taken", "known      sure?"]),
        ] {
            let shown = render_call(&team, &open(kind), Paint::new(false));
            let arguments = r#"arguments  {"to":"a\u202eb\u001b[2J"}"#;
            for part in parts.iter().chain([&arguments]) {
                assert!(shown.contains(part), "{part} in {shown}");
            }
        }
        let long = json!({"to": "x".repeat(100_000)}).into();
        let question = "Beware. Allow pay?".to_owned();
        let notice = "Beware.".to_owned();
        let shown = OpenCall { arguments: long, question, notice, ..open("approval") };
        let shown = render_call(&team, &shown, Paint::new(false));
        let noticed = shown.find("\n  notice     Beware.\n");
        assert!(noticed.is_some() && noticed < shown.find("\n  arguments"), "notice comes first");
        assert!(shown.contains("\n  asks       Allow pay?\n"));
        let rows = [Of { team, found: open("approval") }];
        let listed = render_calls(&rows, Paint::new(false), 120);
        assert!(listed.contains(r#"pay {"to":"a\u202eb\u001b[2J"}"#), "{listed}");
    }

    #[test]
    fn a_call_is_decided_about_by_commands_that_name_it() {
        let form = |id: Option<&str>| OpenCall {
            form: Some(json!({})),
            question_id: id.map(|id| Name::new(id).unwrap()),
            ..open("question")
        };
        let (approve, deny) = ("callboard calls approve k1", "callboard calls deny k1");
        let (show, text) = ("callboard calls show k1", "callboard answer r1 TEXT --call k1");
        let done = "callboard calls resolve k1 --done RESULT";
        let not_done = "callboard calls resolve k1 --not-done";
        // What is open, with which command one begins, and all that decide.
        let cases: [(OpenCall, &str, &[&str]); 5] = [
            (open("approval"), approve, &[approve, deny]),
            (open("question"), text, &[text]),
            (
                form(None),
                show,
                &[
                    "callboard answer r1 --call k1 --content JSON",
                    "callboard answer r1 --call k1 --decline",
                ],
            ),
            (
                form(Some("q")),
                show,
                &[
                    "callboard answer r1 --call k1 --question-id q --content JSON",
                    "callboard answer r1 --call k1 --question-id q --decline",
                ],
            ),
            (open("unknown"), done, &[done, not_done]),
        ];
        let team = Name::new("t").unwrap();
        for (open, begins, all) in cases {
            assert_eq!(way(&open), begins);
            let shown = render_call(&team, &open, Paint::new(false));
            let next = shown.lines().filter_map(|line| line.strip_prefix("  next       "));
            assert_eq!(next.collect::<Vec<_>>(), all, "{shown}");
        }
    }

    #[test]
    fn a_result_is_json_if_it_can_be() {
        for (text, expected) in
            [("7", json!(7)), ("{\"a\":1}", json!({"a": 1})), ("paid", json!("paid"))]
        {
            assert_eq!(result(text), expected, "{text}");
        }
    }
}
