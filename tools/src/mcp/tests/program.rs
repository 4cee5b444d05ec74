use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::tempdir;
use tokio::time::timeout;
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply};

use super::super::look::REFUSED_PAUSE;
use super::super::{Catalog, McpSpec, McpTool, ServerSpec, Servers, Transport};
use super::tool;
use crate::testing::context;
use crate::tool::Tool as _;

/// A server that says at each call how often it was started. The first one says with each answer
/// that its list changed, refuses to list it a second time, and ends.
const SERVER: &str = r#"
echo >>starts
starts=$(grep -c "" starts)
lists=0
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
while read -r line; do
    id='"id":'$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
    *'"method":"initialize"'*)
        own='"serverInfo":{"name":"own","version":"1"}'
        can='"capabilities":{"tools":{"listChanged":true}}'
        say "$id,\"result\":{\"protocolVersion\":\"2025-06-18\",$can,$own}" ;;
    *'"method":"tools/list"'*)
        lists=$((lists + 1))
        if [ "$starts $lists" = "1 2" ]; then
            say "$id,\"error\":{\"code\":-32603,\"message\":\"no\"}"
            exit
        fi
        tools='[{"name":"starts","description":"","inputSchema":{"type":"object"}}]'
        say "$id,\"result\":{\"tools\":$tools}" ;;
    *'"method":"tools/call"'*)
        say "$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$starts\"}]}"
        [ "$starts" = 1 ] && say '"method":"notifications/tools/list_changed"' ;;
    *'"id":'*)
        say "$id,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}" ;;
    esac
done
"#;

/// Starts a program that is given some time to start and to list its tools.
fn start(script: &str, folder: &Path, list_max: Duration) -> (Servers, McpTool) {
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let name = Name::new("own").unwrap();
    let listed = tool("starts", json!({"type": "object"}));
    let spec = ServerSpec {
        transport: Transport::Process {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            directory: folder.to_owned(),
            env: Vec::new(),
        },
        start_timeout: list_max,
        elicitation: false,
    };
    let pinned = Catalog { tools: vec![listed.clone()] };
    let servers = Servers::start(vec![(name.clone(), spec, pinned)], &reqwest::Client::new());
    let spec = McpSpec {
        server: name,
        listed: Arc::new(listed),
        effect: EffectClass::Once,
        response_bytes_max: 1000,
        elicitation: false,
    };
    let tool = McpTool::new(spec, &servers);
    (servers, tool)
}

fn said(text: &str) -> ToolReply {
    ToolReply::settled(CallOutcome::text(text))
}

#[tokio::test]
async fn a_program_that_ends_after_it_refused_its_list_is_started_again_at_once() {
    let folder = tempdir().unwrap();
    let time = Duration::from_secs(20);
    let (servers, tool) = start(SERVER, folder.path(), time);
    let starts = async || tool.call(&context(time), &json!({})).await;
    assert_eq!(starts().await, said("1"));
    let again = async { while starts().await != said("2") {} };
    timeout(REFUSED_PAUSE, again).await.unwrap();
    servers.close().await;
}

#[tokio::test]
async fn a_program_that_hangs_is_started_again_once_a_call_has_waited_in_vain() {
    let folder = tempdir().unwrap();
    // The first one reads nothing more once it is called.
    let hangs = "*'\"method\":\"tools/call\"'*)\n[ \"$starts\" = 1 ] && exec tail -f /dev/null\n";
    let script = SERVER.replace("*'\"method\":\"tools/call\"'*)\n", hangs);
    let (servers, tool) = start(&script, folder.path(), Duration::from_secs(3));
    let starts = async |time| tool.call(&context(time), &json!({})).await;
    // Until it is there, there is nothing to wait for in vain.
    let code = |reply: &ToolReply| match reply {
        ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => Some(error.code),
        _ => None,
    };
    let mut lost = starts(Duration::from_secs(1)).await;
    while code(&lost) == Some(ErrorCode::ToolUnavailable) {
        lost = starts(Duration::from_secs(1)).await;
    }
    assert!(matches!(&lost, ToolReply::Lost { error, .. } if error.code == ErrorCode::ToolTimeout));
    let again = async { while starts(Duration::from_secs(1)).await != said("2") {} };
    timeout(Duration::from_secs(20), again).await.unwrap();
    servers.close().await;
}
