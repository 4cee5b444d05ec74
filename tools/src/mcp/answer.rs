//! Reads what a server answers to a call.

use jsonschema::Validator;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::schema::faults;
use crate::secret::clean;

/// How the results of a tool are read.
pub(super) struct Reading {
    /// The schema of structured results, if the tool has one.
    pub(super) output: Option<Validator>,
    /// Bytes that are passed on.
    pub(super) bytes_max: usize,
}

impl Reading {
    /// Says what an answer means for the call.
    pub(super) fn reply(&self, response: CallToolResponse) -> ToolReply {
        let outcome = match response {
            CallToolResponse::Complete(result) => self.outcome(result),
            CallToolResponse::InputRequired(_) => CallOutcome::error(
                ErrorCode::ToolFailed,
                "the MCP server wants to ask a person before it goes on, which the team does not \
                 let it; give it all it needs in the arguments",
            ),
            CallToolResponse::Task(_) => {
                let text = "the MCP server made a task of the call, which was not asked for";
                return ToolReply::lost(ErrorCode::ToolFailed, text);
            }
            _ => {
                let text = "the MCP server answered in a form that is not known";
                return ToolReply::lost(ErrorCode::ToolFailed, text);
            }
        };
        ToolReply::settled(outcome)
    }

    fn outcome(&self, result: CallToolResult) -> CallOutcome {
        let text = |content: &[ContentBlock]| {
            let parts: Vec<String> = content.iter().map(block).collect();
            clean(parts.join("\n"))
        };
        if result.is_error == Some(true) {
            let text = text(&result.content);
            let text =
                if text.trim().is_empty() { "the tool says no more".to_owned() } else { text };
            return CallOutcome::error(ErrorCode::ToolFailed, self.cut(text));
        }
        let structured = match (&self.output, result.structured_content) {
            (Some(schema), Some(value)) => {
                if let Some(faults) = faults(schema, &value) {
                    let faults = clean(faults);
                    let text = format!(
                        "the call was made, but its result does not obey the schema that the MCP \
                         server promises: {faults}"
                    );
                    return CallOutcome::error(ErrorCode::ToolFailed, self.cut(text));
                }
                Some(value)
            }
            (None, Some(value)) if result.content.is_empty() => Some(value),
            (_, Some(_) | None) => None,
        };
        match structured {
            None => CallOutcome::text(self.cut(text(&result.content))),
            Some(value) => {
                let written = value.to_string();
                let cleaned = clean(written.clone());
                if cleaned == written && written.len() <= self.bytes_max {
                    return CallOutcome::Ok { output: value };
                }
                let output = serde_json::from_str(&cleaned).ok();
                match output.filter(|_| cleaned.len() <= self.bytes_max) {
                    Some(output) => CallOutcome::Ok { output },
                    None => CallOutcome::text(self.cut(cleaned)),
                }
            }
        }
    }

    fn cut(&self, text: String) -> String {
        if text.len() <= self.bytes_max {
            return text;
        }
        let kept = text.get(..text.floor_char_boundary(self.bytes_max)).unwrap_or_default();
        format!("{kept}\n[cut after {} bytes]", kept.len())
    }
}

/// Writes a part of a result as text; what is no text is told in its place.
fn block(block: &ContentBlock) -> String {
    // Base64 has four letters for three bytes.
    let size = |data: &str| data.len() / 4 * 3;
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[image, {}, {} bytes, not shown]", image.mime_type, size(&image.data))
        }
        ContentBlock::Audio(audio) => {
            format!("[audio, {}, {} bytes, not shown]", audio.mime_type, size(&audio.data))
        }
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {uri}]\n{text}")
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("of an unknown type");
                format!("[resource {uri}, {kind}, {} bytes, not shown]", size(blob))
            }
            _ => "[resource of an unknown form, not shown]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            format!("[link to resource {}: {}]", link.name, link.uri)
        }
        _ => "[content of an unknown form, not shown]".to_owned(),
    }
}
