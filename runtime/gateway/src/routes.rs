//! The routes, in one table.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use wire::ErrorCode;

use crate::guard::{self, Guard};
use crate::refusal::Refusal;
use crate::state::{Doors, shown};
use crate::{calls, console, events, look, nodes, protect, replies, runs, sign_in, watch};

/// One route: method, path and handler.
type Route = (&'static str, &'static str, MethodRouter<Doors>);

fn table() -> Vec<Route> {
    vec![
        ("GET", "/", get(console::page)),
        ("GET", "/console/{version}/{file}", get(console::file)),
        ("GET", "/v1/sign-in", bare(get(sign_in::show))),
        ("POST", "/v1/sign-in", bare(post(sign_in::sign_in))),
        ("POST", "/v1/sign-out", bare(post(sign_in::sign_out))),
        ("GET", "/health", bare(get(look::health))),
        ("GET", "/ready", bare(get(look::ready))),
        ("GET", "/metrics", bare(get(look::metrics))),
        ("GET", "/v1/stats", get(nodes::stats)),
        ("GET", "/v1/traces/{trace}", get(nodes::trace)),
        ("GET", "/v1/teams", bare(get(look::teams))),
        ("GET", "/v1/events", bare(get(watch::stream))),
        ("POST", "/v1/teams/{team}/agents/{agent}/runs", post(runs::submit)),
        ("GET", "/v1/teams/{team}/runs", get(look::runs)),
        ("GET", "/v1/teams/{team}/runs/{run}", bare(get(runs::status))),
        ("GET", "/v1/teams/{team}/runs/{run}/result", get(runs::result)),
        ("POST", "/v1/teams/{team}/runs/{run}/cancel", bare(post(runs::cancel))),
        ("POST", "/v1/teams/{team}/runs/{run}/answer", bare(post(runs::answer))),
        ("GET", "/v1/teams/{team}/runs/{run}/events", get(events::stream)),
        ("GET", "/v1/teams/{team}/calls", get(calls::list)),
        ("GET", "/v1/teams/{team}/calls/{call}", bare(get(calls::show))),
        ("POST", "/v1/teams/{team}/calls/{call}/approve", bare(post(calls::approve))),
        ("POST", "/v1/teams/{team}/calls/{call}/deny", bare(post(calls::deny))),
        ("POST", "/v1/teams/{team}/calls/{call}/resolve", bare(post(calls::resolve))),
        ("GET", "/v1/teams/{team}/eventtypes", bare(get(replies::list))),
        ("POST", "/v1/teams/{team}/eventtypes/{source}/replies", bare(post(replies::take))),
        ("GET", "/v1/teams/{team}/sessions", get(look::sessions)),
        ("GET", "/v1/teams/{team}/sessions/{session}", bare(get(look::session))),
        ("GET", "/v1/teams/{team}/traces", get(look::traces)),
        ("GET", "/v1/teams/{team}/traces/{trace}", get(look::trace)),
        ("GET", "/v1/teams/{team}/memory", get(look::memory)),
        ("GET", "/v1/teams/{team}/usage", get(look::usage)),
        ("GET", "/v1/teams/{team}/store/verify", bare(get(look::verify))),
    ]
}

/// Refuses any query: what a handler does not look at would be passed over in silence.
fn bare(route: MethodRouter<Doors>) -> MethodRouter<Doors> {
    route.route_layer(from_fn(without_query))
}

async fn without_query(request: Request, next: Next) -> Result<Response, Refusal> {
    let query = request.uri().query().unwrap_or_default();
    if query.is_empty() {
        return Ok(next.run(request).await);
    }
    let name = query.split(['=', '&']).next().unwrap_or_default();
    let text = format!("the query cannot be read: this path takes none, so no {}", shown(name));
    Err(Refusal::new(ErrorCode::BadRequest, text))
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
