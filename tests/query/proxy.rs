//! A way to a server that breaks when somebody says a certain word.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The server hears it, and its answer is lost.
    Heard,
    /// It is lost.
    Lost,
}

/// Passes on what is said to a port, until the word is said; returns the port to connect to.
pub(crate) async fn start(to: u16, word: &'static [u8], fate: Word) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, to, word, fate));
        }
    });
    port
}

async fn pass(client: TcpStream, to: u16, word: &[u8], fate: Word) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut said = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from_client.read(&mut said).await {
        let said = &said[..length];
        if !said.windows(word.len()).any(|part| part == word) {
            to_server.write_all(said).await.unwrap();
            continue;
        }
        back.abort();
        if fate == Word::Heard {
            to_server.write_all(said).await.unwrap();
            // The server answers only once it has done what it was told.
            drop(back.await);
        }
        return;
    }
    back.abort();
}
