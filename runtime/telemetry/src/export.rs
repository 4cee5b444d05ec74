//! Writes spans as the JSON that OTLP has for them, for whoever takes a trace elsewhere.

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use wire::SpanRecord;

use crate::endpoint::{Service, resource};
use crate::span::{span_context, span_data};

/// Returns spans as `TracesData` in the JSON form of OTLP: ids in hex, times as texts.
pub fn traces_data(
    spans: &[SpanRecord],
    service: &Service,
) -> Result<serde_json::Value, serde_json::Error> {
    let scope =
        InstrumentationScope::builder("callboard").with_version(service.version.clone()).build();
    let data = |span| span_data(span, span_context(&span.context), scope.clone());
    let resource = ResourceAttributesWithSchema::from(&resource(service));
    let resource_spans =
        group_spans_by_resource_and_scope(spans.iter().map(data).collect(), &resource);
    serde_json::to_value(TracesData { resource_spans })
}
