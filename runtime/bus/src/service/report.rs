//! The bodies of the service protocol's answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use crate::error::Error;
use crate::service::stats::{Counts, Stats};
use crate::service::{Endpoint, ServiceInfo};

/// The answers of one service; all but the counts are written once.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) ping: Bytes,
    pub(super) info: Bytes,
    identity: Identity,
    started: String,
    endpoints: Vec<EndpointName>,
}

#[derive(Clone, Debug, Serialize)]
struct Identity {
    name: String,
    id: String,
    version: String,
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
struct EndpointName {
    name: String,
    subject: String,
    queue_group: String,
}

#[derive(Serialize)]
struct Ping<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    identity: &'a Identity,
}

#[derive(Serialize)]
struct Info<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    identity: &'a Identity,
    description: &'a str,
    endpoints: Vec<EndpointInfo<'a>>,
}

#[derive(Serialize)]
struct EndpointInfo<'a> {
    #[serde(flatten)]
    name: &'a EndpointName,
    metadata: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct StatsReport<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    identity: &'a Identity,
    started: &'a str,
    endpoints: Vec<EndpointStats<'a>>,
}

#[derive(Serialize)]
struct EndpointStats<'a> {
    #[serde(flatten)]
    name: &'a EndpointName,
    num_requests: u64,
    num_errors: u64,
    last_error: String,
    processing_time: u64,
    average_processing_time: u64,
}

impl<'a> EndpointStats<'a> {
    fn new(name: &'a EndpointName, counts: Counts) -> Self {
        Self {
            name,
            num_requests: counts.requests,
            num_errors: counts.errors,
            processing_time: counts.processing_ns(),
            average_processing_time: counts.average_ns(),
            last_error: counts.last_error,
        }
    }
}

impl Reports {
    pub(super) fn new(info: &ServiceInfo) -> Result<Self, Error> {
        let identity = Identity {
            name: info.name.clone(),
            id: info.id.clone(),
            version: info.version.clone(),
            metadata: info.metadata.clone(),
        };
        let name = |endpoint: &Endpoint| EndpointName {
            name: endpoint.name.clone(),
            subject: endpoint.subject.clone(),
            queue_group: endpoint.queue_group.clone(),
        };
        let endpoints: Vec<EndpointName> = info.endpoints.iter().map(name).collect();
        let described = endpoints
            .iter()
            .zip(&info.endpoints)
            .map(|(name, endpoint)| EndpointInfo { name, metadata: &endpoint.metadata })
            .collect();
        let ping = json(&Ping { kind: "io.nats.micro.v1.ping_response", identity: &identity })?;
        let info_body = json(&Info {
            kind: "io.nats.micro.v1.info_response",
            identity: &identity,
            description: &info.description,
            endpoints: described,
        })?;
        let started = info.started.clone();
        Ok(Self { ping, info: info_body, identity, started, endpoints })
    }

    pub(super) fn stats(&self, stats: &Stats) -> Result<Bytes, Error> {
        json(&StatsReport {
            kind: "io.nats.micro.v1.stats_response",
            identity: &self.identity,
            started: &self.started,
            endpoints: self
                .endpoints
                .iter()
                .map(|name| EndpointStats::new(name, stats.of(&name.name)))
                .collect(),
        })
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|source| Error::Nats { doing: "write a service answer", source: source.into() })
}
