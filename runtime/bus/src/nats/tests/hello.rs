//! What a server says first, and what follows from it.

use tokio::net::TcpListener;

use super::*;

/// Takes a connection, and says what a server of a version says first, and which others it knows.
async fn accept(listener: &TcpListener, version: &str, others: &[String]) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let info = serde_json::json!({"server_id": "x", "version": version, "go": "go1",
        "host": "127.0.0.1", "port": 4222, "headers": true, "max_payload": 1_048_576, "proto": 1,
        "client_id": 1, "connect_urls": others});
    stream.write_all(format!("INFO {info}\r\n").as_bytes()).await.unwrap();
    stream
}

/// Answers the first sign of life.
async fn answer_ping(stream: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.windows(4).any(|part| part == b"PING") {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "the client stays");
    }
    stream.write_all(b"PONG\r\n").await.unwrap();
}

#[tokio::test]
async fn a_server_that_another_tells_of_is_not_spoken_to() {
    let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let others = [elsewhere.local_addr().unwrap().to_string()];
    let mut options = NatsOptions::new([format!("nats://{}", here.local_addr().unwrap())]);
    options.auth = Auth::User { user: "u".into(), password: "p".into() };
    let bus = tokio::spawn(Bus::connect(options));
    // Each time that the connection is lost the client may choose another server.
    let lost = async {
        for _ in 0..5 {
            let mut stream = accept(&here, "2.11.0", &others).await;
            answer_ping(&mut stream).await;
        }
    };
    tokio::select! {
        () = lost => {}
        _ = elsewhere.accept() => panic!("the other server is spoken to"),
    }
    bus.abort();
}

#[tokio::test]
async fn an_old_server_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut stream = accept(&listener, "2.9.10", &[]).await;
        let mut read = Vec::new();
        while stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
            if read.windows(4).any(|part| part == b"PING") {
                read.clear();
                stream.write_all(b"PONG\r\n").await.unwrap();
            }
        }
    });
    let error = Bus::connect(NatsOptions::new([url])).await.unwrap_err();
    assert!(matches!(&error, Error::TooOld { found } if found == "2.9.10"), "{error:?}");
    assert_eq!(error.to_wire().code, wire::ErrorCode::NatsTooOld);
    // The connection of a bus that was refused does not stay.
    tokio::time::timeout(LONG, server).await.unwrap().unwrap();
}
