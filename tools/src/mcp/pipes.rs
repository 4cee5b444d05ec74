//! The pipes by which a program is spoken to.

use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;

use super::calls::Calls;

/// Hides from the library the answer to a `server/discover` that it waits for no longer, and tells
/// of the answers to calls, of which it says nothing once they are given up.
///
/// It gives a server ten seconds for that answer and then tries the handshake of older protocols. A
/// program that needs longer to start reads both requests at once and answers both, and the
/// library takes the answer to the first for a broken one to the second.
pub(super) struct Pipes<T> {
    inner: T,
    calls: Arc<Calls>,
    /// The discovery whose answer is waited for.
    discovery: Option<RequestId>,
    /// The one whose answer is not.
    given_up: Option<RequestId>,
}

impl<T> Pipes<T> {
    pub(super) fn new(inner: T, calls: Arc<Calls>) -> Self {
        Self { inner, calls, discovery: None, given_up: None }
    }

    fn note(&mut self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(sent) = message else { return };
        if matches!(sent.request, ClientRequest::DiscoverRequest(_)) {
            self.discovery = Some(sent.id.clone());
        } else if matches!(sent.request, ClientRequest::InitializeRequest(_)) {
            self.given_up = self.discovery.take();
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Pipes<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            if let Some(answered) = answered(&message) {
                if self.given_up.as_ref() == Some(answered) {
                    continue;
                }
                self.calls.answered(answered);
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Returns which request a message answers, if it does.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::service::ClientServiceExt as _;
    use rmcp::transport::async_rw::AsyncRwTransport;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
    use tokio::time::sleep;

    use super::super::dial::auto;
    use super::*;

    /// Answers as a server of an older protocol that needs some time to start.
    async fn serve(pipe: DuplexStream, start: Duration) {
        sleep(start).await;
        let (input, mut output) = tokio::io::split(pipe);
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let asked: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = asked.get("id") else { continue };
            let answer = if asked["method"] == "initialize" {
                let info = json!({"name": "old", "version": "1"});
                let result = json!({
                    "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info,
                });
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            } else {
                let error = json!({"code": -32601, "message": "no such method"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            };
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_may_take_its_time_to_start() {
        for start in [0, 9, 11, 50] {
            let (near, far) = tokio::io::duplex(1 << 16);
            let server = tokio::spawn(serve(far, Duration::from_secs(start)));
            let (input, output) = tokio::io::split(near);
            let pipes = Pipes::new(AsyncRwTransport::new(input, output), Arc::default());
            let running = ().serve_with_lifecycle(pipes, auto()).await;
            let running = running.unwrap_or_else(|error| panic!("{start} s: {error}"));
            drop(running);
            server.abort();
        }
    }
}
