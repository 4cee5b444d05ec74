//! One connection: read and written within time.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::places::{BusyBody, Place};
use crate::sign_in::Peer;

/// The longest time for the head of a request to arrive, and the longest that a connection stays
/// open between two requests.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(8);

/// The longest time that a client may take nothing of what is written to it.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection that lost its place may take to end, as with half a head read.
const LOST_TIMEOUT: Duration = Duration::from_millis(100);

/// The largest head of a request, in bytes; a proxy adds some hundred, a cookie some thousand.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// The most headers of a request.
const HEADERS_MAX: usize = 64;

/// Serves the requests of a connection, until the client goes, its place is lost or the doors close.
///
/// When they close the request in work is still answered.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    place: Place,
    closing: CancellationToken,
) {
    let seat = place.seat.clone();
    let place = Arc::new(place);
    let answers = TowerToHyperService::new(router);
    let io = TokioIo::new(Stalling { stream, stalled: None, place: place.clone() });
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let busy = place.begin();
        let answer = answers.call(request);
        async move {
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| BusyBody { body, _busy: busy }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = seat.lost.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match timeout(LOST_TIMEOUT, connection.as_mut()).await {
                Ok(served) => served,
                // A request that came in at this very moment is still answered.
                Err(_) if seat.is_busy() => connection.await,
                Err(_) => return,
            }
        }
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "connection ended");
    }
}

/// A stream that fails when the other side has taken nothing for [`WRITE_TIMEOUT`].
struct Stalling {
    stream: TcpStream,
    /// Set while something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Kept while something does.
    place: Arc<Place>,
}

impl Stalling {
    /// Passes on the result of a write, or fails if it has been pending for too long.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.place.set_writing(written.is_pending());
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;
    use crate::places::Places;

    #[tokio::test]
    async fn a_write_that_nobody_takes_fails_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let place = Arc::new(Places::new(1).take().await);
        let mut server = Stalling { stream, stalled: None, place: place.clone() };
        tokio::time::pause();
        let start = Instant::now();
        let chunk = vec![0; 64 * 1024];
        let mut written = 0;
        let error = loop {
            match server.write(&chunk).await {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= WRITE_TIMEOUT && start.elapsed() < WRITE_TIMEOUT * 2);
        assert!(place.seat.is_busy());

        // What is taken late counts anew.
        client.read_exact(&mut vec![0; written]).await.unwrap();
        assert!(server.write(&chunk).await.is_ok());
        assert!(server.stalled.is_none() && !place.seat.is_busy());
    }
}
