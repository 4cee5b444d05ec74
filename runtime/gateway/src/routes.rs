//! The routes, in one table.

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{MethodRouter, get, post};

use crate::guard::{self, Guard};
use crate::refusal::Refusal;
use crate::state::Doors;
use crate::{calls, console, events, look, nodes, protect, replies, runs, sign_in, watch};

/// One route: method, path and handler.
type Route = (&'static str, &'static str, MethodRouter<Doors>);

fn table() -> Vec<Route> {
    vec![
        ("GET", "/", get(console::page)),
        ("GET", "/console/{version}/{file}", get(console::file)),
        ("GET", "/v1/sign-in", get(sign_in::show)),
        ("POST", "/v1/sign-in", post(sign_in::sign_in)),
        ("POST", "/v1/sign-out", post(sign_in::sign_out)),
        ("GET", "/health", get(look::health)),
        ("GET", "/ready", get(look::ready)),
        ("GET", "/metrics", get(look::metrics)),
        ("GET", "/v1/stats", get(nodes::stats)),
        ("GET", "/v1/traces/{trace}", get(nodes::trace)),
        ("GET", "/v1/teams", get(look::teams)),
        ("GET", "/v1/events", get(watch::stream)),
        ("POST", "/v1/teams/{team}/agents/{agent}/runs", post(runs::submit)),
        ("GET", "/v1/teams/{team}/runs", get(look::runs)),
        ("GET", "/v1/teams/{team}/runs/{run}", get(runs::status)),
        ("GET", "/v1/teams/{team}/runs/{run}/result", get(runs::result)),
        ("POST", "/v1/teams/{team}/runs/{run}/cancel", post(runs::cancel)),
        ("POST", "/v1/teams/{team}/runs/{run}/answer", post(runs::answer)),
        ("GET", "/v1/teams/{team}/runs/{run}/events", get(events::stream)),
        ("GET", "/v1/teams/{team}/calls", get(calls::list)),
        ("GET", "/v1/teams/{team}/calls/{call}", get(calls::show)),
        ("POST", "/v1/teams/{team}/calls/{call}/approve", post(calls::approve)),
        ("POST", "/v1/teams/{team}/calls/{call}/deny", post(calls::deny)),
        ("POST", "/v1/teams/{team}/calls/{call}/resolve", post(calls::resolve)),
        ("GET", "/v1/teams/{team}/eventtypes", get(replies::list)),
        ("POST", "/v1/teams/{team}/eventtypes/{source}/replies", post(replies::take)),
        ("GET", "/v1/teams/{team}/sessions", get(look::sessions)),
        ("GET", "/v1/teams/{team}/sessions/{session}", get(look::session)),
        ("GET", "/v1/teams/{team}/traces", get(look::traces)),
        ("GET", "/v1/teams/{team}/traces/{trace}", get(look::trace)),
        ("GET", "/v1/teams/{team}/memory", get(look::memory)),
        ("GET", "/v1/teams/{team}/usage", get(look::usage)),
        ("GET", "/v1/teams/{team}/store/verify", get(look::verify)),
    ]
}

/// Makes the router of all routes, behind the guard and the one who asks for the token.
pub(crate) fn router(doors: Doors, guard: Guard) -> Router {
    let porter = doors.porter.clone();
    table()
        .into_iter()
        .fold(Router::new(), |router, (_, path, handler)| router.route(path, handler))
        .fallback(async || {
            Refusal::with_status(StatusCode::NOT_FOUND, "there is no such path; see GET /v1/teams")
        })
        .method_not_allowed_fallback(async || {
            let text = "this path is not asked by this method";
            Refusal::with_status(StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .with_state(doors)
        .layer(from_fn_with_state(porter, sign_in::check))
        .layer(from_fn_with_state(guard, guard::check))
        .layer(map_response(protect::add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_reference() {
        let reference = include_str!("../../HTTP.md");
        let headings: Vec<&str> =
            reference.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let routes: Vec<String> =
            table().iter().map(|(method, path, _)| format!("`{method} {path}`")).collect();
        assert_eq!(headings, routes, "headings of runtime/HTTP.md, and routes");
    }
}
