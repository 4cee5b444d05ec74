//! Asks which services there are.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use wire::Headers;

use super::{Endpoint, ServiceInfo, is_name};
use crate::bus::Bus;
use crate::check;
use crate::error::Error;

/// How long services are given to answer: instances on busy machines do within a second.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// After so long without a further answer all are taken to be there: many round trips.
const QUIET: Duration = Duration::from_millis(300);

/// Instances that are listened to; more of them than a list of tools could show.
const INSTANCES_MAX: usize = 1024;

/// Bytes of all answers together.
const BYTES_MAX: usize = 8 << 20;

/// How a service describes itself on the wire.
#[derive(Deserialize)]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    id: String,
    version: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    endpoints: Option<Vec<ToldEndpoint>>,
}

#[derive(Deserialize)]
struct ToldEndpoint {
    name: String,
    subject: String,
    #[serde(default)]
    queue_group: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

/// Asks all services, or those of one name, what they are; returns what each instance says.
///
/// One that does not answer within a second is not seen, and one whose answer cannot be read is
/// left out. Endpoints without a subject that can be asked are left out as well.
pub async fn find(bus: &Bus, name: Option<&str>) -> Result<Vec<ServiceInfo>, Error> {
    let subject = match name {
        Some(name) => format!("$SRV.INFO.{name}"),
        None => "$SRV.INFO".to_owned(),
    };
    let inbox = bus.new_inbox();
    let mut answers = bus.subscribe(&inbox, None).await?;
    bus.publish_with_reply(&subject, &inbox, Headers::new(), Bytes::new()).await?;
    let end = Instant::now() + ANSWER_MAX;
    let mut until = end;
    let (mut found, mut bytes) = (Vec::new(), 0_usize);
    while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
        bytes = bytes.saturating_add(answer.payload.len());
        if bytes > BYTES_MAX {
            tracing::warn!(subject, "services say more than is read; the rest is not seen");
            break;
        }
        // NATS itself says without a body that there is no service.
        if answer.payload.is_empty() {
            break;
        }
        if let Some(info) = read(&answer.payload) {
            found.push(info);
        } else {
            tracing::debug!(subject, "an answer of a service cannot be read");
        }
        if found.len() >= INSTANCES_MAX {
            break;
        }
        until = end.min(Instant::now() + QUIET);
    }
    Ok(found)
}

fn read(body: &[u8]) -> Option<ServiceInfo> {
    let told: Told = serde_json::from_slice(body).ok()?;
    if told.kind != "io.nats.micro.v1.info_response" || !is_name(&told.name) {
        return None;
    }
    let can_be_asked = |endpoint: &ToldEndpoint| check::subject(&endpoint.subject).is_ok();
    let endpoints = told.endpoints.unwrap_or_default().into_iter().filter(can_be_asked);
    let endpoints = endpoints.map(|endpoint| Endpoint {
        name: endpoint.name,
        subject: endpoint.subject,
        queue_group: endpoint.queue_group.unwrap_or_default(),
        metadata: endpoint.metadata.unwrap_or_default(),
    });
    Some(ServiceInfo {
        name: told.name,
        id: told.id,
        version: told.version,
        description: told.description.unwrap_or_default(),
        started: String::new(),
        metadata: told.metadata.unwrap_or_default(),
        endpoints: endpoints.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_says_is_read_as_far_as_it_can_be() {
        let head =
            r#""type":"io.nats.micro.v1.info_response","name":"a","id":"1","version":"1.0.0""#;
        let endpoints = |list: &str| format!("{{{head},\"endpoints\":[{list}]}}");
        let fine = r#"{"name":"x","subject":"a.x","queue_group":"q","metadata":{"k":"v"}}"#;
        let cases = [
            (format!("{{{head}}}"), Some(vec![])),
            (format!("{{{head},\"endpoints\":null,\"metadata\":null}}"), Some(vec![])),
            (endpoints(fine), Some(vec!["a.x"])),
            (
                endpoints(r#"{"name":"x","subject":"a.*"},{"name":"y","subject":"a.y"}"#),
                Some(vec!["a.y"]),
            ),
            (endpoints(r#"{"name":"x"}"#), None),
            (format!("{{{head}}}").replace("info_response", "ping_response"), None),
            (format!("{{{head}}}").replace("\"a\"", "\"a.b\""), None),
            ("[]".to_owned(), None),
            (String::new(), None),
        ];
        for (body, expected) in cases {
            let found = read(body.as_bytes()).map(|info| {
                info.endpoints.iter().map(|endpoint| endpoint.subject.clone()).collect::<Vec<_>>()
            });
            let expected =
                expected.map(|list| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
            assert_eq!(found, expected, "{body}");
        }
    }
}
