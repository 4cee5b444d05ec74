//! The model server: its reply is a function of the messages alone. It serves the page of the
//! tools as well.

mod reply;

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Collected, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;

pub(crate) use reply::WORD;

/// Threads that serve; the rest of the machine is for those who are measured.
const THREADS: usize = 2;

/// When each conversation was last answered, and the gaps since.
#[derive(Default)]
struct Seen {
    answered: HashMap<String, Instant>,
    gaps: Vec<f64>,
}

/// Serves until it is killed. Its address goes to a file.
pub(crate) fn serve(port_file: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::fs::write(port_file, address).expect("the file can be written");
        let seen = Arc::new(Mutex::new(Seen::default()));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            drop(stream.set_nodelay(true));
            let seen = seen.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, seen.clone()));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                drop(connection.await);
            });
        }
    });
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Body>, Infallible> {
    let arrived = Instant::now();
    let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    let path = request.uri().path();
    if path == "/gaps" {
        let gaps = {
            let mut seen = lock();
            seen.answered.clear();
            std::mem::take(&mut seen.gaps)
        };
        return Ok(whole("application/json", json!(gaps).to_string()));
    }
    if let Some(bytes) = path.strip_prefix("/page/") {
        return Ok(whole("text/plain", "x".repeat(bytes.parse().expect("a length"))));
    }
    let Ok(body) = request.into_body().collect().await.map(Collected::to_bytes) else {
        return Ok(Response::new(Body::default()));
    };
    let reply = reply::to(&body);
    {
        let mut seen = lock();
        if let Some(before) = seen.answered.remove(&reply.conversation) {
            seen.gaps.push(arrived.duration_since(before).as_secs_f64() * 1e6);
        }
    }
    if !reply.wait.is_zero() {
        tokio::time::sleep(reply.wait).await;
    }
    if !reply.is_last {
        lock().answered.insert(reply.conversation, Instant::now());
    }
    let kind = if reply.is_streamed { "text/event-stream" } else { "application/json" };
    Ok(if reply.apart.is_zero() {
        whole(kind, reply.pieces.concat())
    } else {
        paced(kind, reply.pieces, reply.apart)
    })
}

fn whole(kind: &str, text: String) -> Response<Body> {
    let body = Full::from(text).boxed_unsync();
    Response::builder().header("content-type", kind).body(body).expect("a response")
}

/// Sends pieces one after another, each in a write of its own.
fn paced(kind: &str, pieces: Vec<String>, apart: Duration) -> Response<Body> {
    let frames = stream::unfold(pieces.into_iter(), move |mut pieces| async move {
        let piece = pieces.next()?;
        tokio::time::sleep(apart).await;
        Some((Ok(Frame::data(Bytes::from(piece))), pieces))
    });
    let body = StreamBody::new(frames).boxed_unsync();
    Response::builder().header("content-type", kind).body(body).expect("a response")
}
