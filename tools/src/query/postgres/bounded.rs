//! Bounds what a server sends at once.
//!
//! The library keeps a whole message of the server in memory, however long it is, and tells nobody
//! of its length before. So the bytes are followed on their way to it, from the head of one message
//! to the head of the next.

use std::future::{Ready, ready};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready as poll_ready};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Bytes of one message, such as a row: many times what a model reads, and little enough that a few
/// careless calls at once do not fill the memory.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Bytes before the body of a message: its kind, and its length without the kind.
const HEAD_BYTES: usize = 5;

/// Whether a server sent more at once than is taken. The library tells of such an error only that
/// the connection is closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Excess(Arc<AtomicBool>);

impl Excess {
    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection to a server, of which no message longer than [`MESSAGE_BYTES_MAX`] is read.
pub(super) struct Bounded<S> {
    stream: S,
    binding: fn(&S) -> ChannelBinding,
    /// The head of the present message, as far as it came.
    head: Vec<u8>,
    /// What is still to come of its body.
    body_left: usize,
    excess: Excess,
}

impl<S> Bounded<S> {
    fn new(stream: S, binding: fn(&S) -> ChannelBinding, excess: Excess) -> Self {
        Self { stream, binding, head: Vec::with_capacity(HEAD_BYTES), body_left: 0, excess }
    }

    /// Takes a connection that is protected by nothing.
    pub(super) fn plain(stream: S, excess: Excess) -> Self {
        Self::new(stream, |_| ChannelBinding::none(), excess)
    }

    /// Follows bytes that came; fails at the head of a message that is too long.
    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let passed = self.body_left.min(bytes.len());
                self.body_left -= passed;
                bytes = bytes.get(passed..).unwrap_or_default();
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
            self.head.extend_from_slice(part);
            bytes = rest;
            let &[_, a, b, c, d] = self.head.as_slice() else { continue };
            self.head.clear();
            // The length counts itself.
            let length = u32::from_be_bytes([a, b, c, d]).saturating_sub(4);
            self.body_left = usize::try_from(length).unwrap_or(usize::MAX);
            if self.body_left > MESSAGE_BYTES_MAX {
                self.excess.0.store(true, Ordering::Release);
                let text = format!("the server sends more than {MESSAGE_BYTES_MAX} bytes at once");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        poll_ready!(Pin::new(&mut own.stream).poll_read(context, buffer))?;
        Poll::Ready(own.follow(buffer.filled().get(before..).unwrap_or_default()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Bounded<S> {
    fn channel_binding(&self) -> ChannelBinding {
        (self.binding)(&self.stream)
    }
}

/// Bounds connections that are encrypted by `T`.
#[derive(Clone)]
pub(super) struct Encrypted<T> {
    pub(super) tls: T,
    pub(super) excess: Excess,
}

impl<S, T> MakeTlsConnect<S> for Encrypted<T>
where
    T: MakeTlsConnect<S>,
    T::Stream: 'static,
    <T::TlsConnect as TlsConnect<S>>::Future: Send + 'static,
{
    type Stream = Bounded<T::Stream>;
    type TlsConnect = Encrypted<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, T::Error> {
        let tls = self.tls.make_tls_connect(domain)?;
        Ok(Encrypted { tls, excess: self.excess.clone() })
    }
}

impl<S, T> TlsConnect<S> for Encrypted<T>
where
    T: TlsConnect<S>,
    T::Stream: 'static,
    T::Future: Send + 'static,
{
    type Stream = Bounded<T::Stream>;
    type Error = T::Error;
    type Future = BoxFuture<'static, Result<Self::Stream, T::Error>>;

    fn connect(self, stream: S) -> Self::Future {
        let (connecting, excess) = (self.tls.connect(stream), self.excess);
        Box::pin(
            async move { Ok(Bounded::new(connecting.await?, TlsStream::channel_binding, excess)) },
        )
    }
}

/// Bounds connections that are protected by nothing. The library lets somebody between it and a
/// socket only in the place of TLS.
#[derive(Clone)]
pub(super) struct Plain(pub(super) Excess);

impl<S: AsyncRead + AsyncWrite + Unpin> MakeTlsConnect<S> for Plain {
    type Stream = Bounded<S>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _: &str) -> io::Result<Self> {
        Ok(self.clone())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Plain {
    type Stream = Bounded<S>;
    type Error = io::Error;
    type Future = Ready<io::Result<Bounded<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        ready(Ok(Bounded::plain(stream, self.0)))
    }
}

/// Connects to the socket of a server on this machine, for which the library knows no TLS.
pub(super) async fn local(folder: &Path, port: u16) -> io::Result<UnixStream> {
    UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn message(body: usize) -> Vec<u8> {
        let length = u32::try_from(body + 4).unwrap();
        [&b"D"[..], &length.to_be_bytes(), &vec![7; body]].concat()
    }

    /// Sends bytes in pieces of a size, and returns how many are read and whether that failed.
    async fn read(sent: Vec<u8>, piece: usize) -> (usize, bool, Excess) {
        let (near, mut far) = duplex(piece);
        let sending = tokio::spawn(async move {
            // Whoever has had enough reads no more.
            drop(far.write_all(&sent).await);
        });
        let excess = Excess::default();
        let mut bounded = Bounded::plain(near, excess.clone());
        let (mut count, mut buffer) = (0, vec![0; 1 << 16]);
        let failed = loop {
            match bounded.read(&mut buffer).await {
                Ok(0) => break false,
                Ok(read) => count += read,
                Err(_) => break true,
            }
        };
        drop(bounded);
        sending.await.unwrap();
        (count, failed, excess)
    }

    #[tokio::test]
    async fn messages_pass_whole_up_to_the_bound() {
        let fine = [message(0), message(1), message(4096), message(0), message(9_000)].concat();
        for piece in [1, 3, 5, 4096, 1 << 20] {
            let (count, failed, excess) = read(fine.clone(), piece).await;
            assert_eq!((count, failed, excess.is_there()), (fine.len(), false, false), "{piece}");
        }
        let longest = message(MESSAGE_BYTES_MAX);
        let (count, failed, _) = read(longest.clone(), 1 << 16).await;
        assert_eq!((count, failed), (longest.len(), false));
        // What is too long ends at its head, wherever that is cut, and the rest is not waited for.
        for head in [&[b'D', 1, 0, 0, 5][..], &[b'D', 0xff, 0xff, 0xff, 0xff]] {
            for piece in [1, 4, 1 << 16] {
                let (count, failed, excess) = read([&fine, head].concat(), piece).await;
                assert!(failed && excess.is_there() && count <= fine.len() + 4, "{piece}: {count}");
            }
        }
    }
}
