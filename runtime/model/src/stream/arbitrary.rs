//! Whatever a server sends, reading it ends and gives the same however it was cut.

use config::team::{Constrain, LlamaCpp, Ollama, OpenAi, Sampling, Template, TokensField};
use proptest::prelude::*;

use crate::anthropic::AnthropicProtocol;
use crate::fixture::{server, streamed};
use crate::http::read;
use crate::llamacpp::LlamaCppProtocol;
use crate::lower::{Target, lower, parameters};
use crate::ollama::OllamaProtocol;
use crate::openai::OpenAiProtocol;
use crate::provider::Protocol;

fn protocols() -> [Box<dyn Protocol>; 4] {
    let sampling = Sampling::default;
    [
        Box::new(OpenAiProtocol::new(OpenAi {
            server: server(true),
            strict: false,
            merge_adjacent: false,
            tokens_field: TokensField::MaxTokens,
            stream_usage: true,
        })),
        Box::new(LlamaCppProtocol::new(LlamaCpp {
            server: server(true),
            template: Template::ChatMl,
            constrain: Constrain::JsonSchema,
            n_predict: None,
            sampling: sampling(),
            merge_adjacent: false,
        })),
        Box::new(OllamaProtocol::new(Ollama {
            server: server(true),
            num_ctx: None,
            num_predict: None,
            sampling: sampling(),
            keep_alive: None,
            think: None,
        })),
        Box::new(AnthropicProtocol::new(server(true))),
    ]
}

/// Words of all the protocols, as keys and as values, so that chance meets their fields.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let words = vec![
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "stop",
        "done",
        "done_reason",
        "stop_type",
        "type",
        "error",
        "content_block",
        "content_block_start",
        "content_block_delta",
        "input_json_delta",
        "partial_json",
        "message_start",
        "message_delta",
        "message_stop",
        "stop_reason",
        "text",
        "text_delta",
        "tool_use",
        "input",
        "usage",
        "model",
        "oneOf",
        "anyOf",
        "allOf",
        "properties",
        "required",
        "$ref",
        "$defs",
        "items",
        "enum",
        "object",
        "string",
        "additionalProperties",
    ];
    let word = proptest::sample::select(words);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (0_u64..3).prop_map(Into::into),
        word.clone().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                serde_json::Value::Object(fields.collect())
            }),
        ]
    })
}

fn check(stream: &[u8], cut: usize) {
    for protocol in protocols() {
        let (whole, shown) = streamed(&*protocol, stream, 0);
        let (parts, shown_in_parts) = streamed(&*protocol, stream, cut % (stream.len() + 1));
        let told = |error: crate::error::Error| error.to_string();
        assert_eq!(whole.map_err(told), parts.map_err(told));
        assert_eq!(shown, shown_in_parts);
        drop(read(&*protocol, stream));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(stream in proptest::collection::vec(any::<u8>(), 0..300), cut in any::<usize>()) {
        check(&stream, cut);
    }

    #[test]
    fn any_json_is_read(values in proptest::collection::vec(json(), 0..5), cut in any::<usize>()) {
        for (before, after) in [("data: ", "\n\n"), ("", "\n"), ("", "")] {
            let texts: Vec<String> =
                values.iter().map(|value| format!("{before}{value}{after}")).collect();
            check(texts.concat().as_bytes(), cut);
        }
    }

    #[test]
    fn any_schema_is_lowered(schema in json()) {
        for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
            prop_assert!(lower(&schema, target).schema.is_object());
        }
        prop_assert!(parameters(&schema).schema["properties"].is_object());
    }
}
