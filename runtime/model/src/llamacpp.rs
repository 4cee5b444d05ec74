//! A server of llama.cpp: its completion of a prompt that we write, or its chat endpoint.

use agents_core::grammar::to_gbnf;
use config::team::{Constrain, LlamaCpp, Template};
use serde_json::{Value, json};
use wire::chat::ResponseSchema;
use wire::{Digest, FinishReason, ToolSpec, Usage};

use crate::body::{Body, FunctionTool, lowered_function_tool, stops, tokens_max};
use crate::client::Conversation;
use crate::draft::Draft;
use crate::error::Error;
use crate::fields::{self, Json};
use crate::heads::{Heads, ReplyForm, WrittenHead};
use crate::lower::{Parameters, Target, llama_cpp_parameters, lower};
use crate::provider::Protocol;
use crate::{openai, sampling, template};

#[cfg(test)]
mod tests;

/// What a server of llama.cpp is sent, and how it is read.
pub(crate) struct LlamaCppProtocol {
    options: LlamaCpp,
    heads: Heads,
}

impl LlamaCppProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(options: LlamaCpp) -> Self {
        Self { options, heads: Heads::new() }
    }

    fn is_chat(&self) -> bool {
        self.options.template == Template::Server
    }

    /// Says what holds the reply to its schema, by one of two means and never by both, which the
    /// server refuses.
    fn reply_form(&self, schema: &ResponseSchema) -> Result<ReplyForm, String> {
        let (field, value) = match self.schema_form() {
            None => {
                let grammar = to_gbnf(&schema.schema).map_err(|error| error.to_string())?;
                ("grammar", grammar.into())
            }
            Some(target) => {
                let form = lower(&schema.schema, target).schema;
                if self.is_chat() {
                    let name = schema.name.as_str();
                    ("response_format", openai::response_format(name, &form, true))
                } else {
                    ("json_schema", form)
                }
            }
        };
        Ok(ReplyForm { field, value, wrapped: false })
    }
}

impl Protocol for LlamaCppProtocol {
    fn word(&self) -> &'static str {
        "llamacpp"
    }

    fn path(&self) -> &'static [&'static str] {
        if self.is_chat() { &["v1", "chat", "completions"] } else { &["completion"] }
    }

    fn schema_form(&self) -> Option<Target> {
        match self.options.constrain {
            Constrain::JsonSchema => Some(Target::LlamaCpp),
            // The grammar is made of the whole schema.
            Constrain::Grammar => None,
        }
    }

    fn parameters(&self, schema: &Value) -> Option<Parameters> {
        Some(llama_cpp_parameters(schema))
    }

    fn body(&self, conversation: &Conversation, to: Option<&Digest>) -> Result<Body, String> {
        let LlamaCpp { server, n_predict, merge_adjacent, .. } = &self.options;
        let head = &conversation.head;
        let tokens_max = tokens_max(conversation.max_tokens, *n_predict);
        if !self.is_chat() && !head.tools.is_empty() {
            return Err("a prompt has no place for tools; set `template = \"server\"` or \
                        another dialect"
                .to_owned());
        }
        let form = |schema: &_| self.reply_form(schema);
        let WrittenHead { tools, form } = self.heads.written(head, self.word(), tool, form)?;
        let mut body = Body::default();
        if self.is_chat() {
            body.set("model", server.model.as_str());
            openai::set_messages(&mut body, conversation, to, *merge_adjacent)?;
            body.set_tools(tools);
            body.set_some("max_tokens", tokens_max);
        } else {
            body.set("prompt", template::prompt(self.options.template, conversation.said()));
            body.set_some("n_predict", tokens_max);
        }
        body.set_some("temperature", server.temperature);
        sampling::set(&mut body, &self.options.sampling);
        body.set_list("stop", stops(head, &server.stop));
        body.set_form(form);
        body.set("stream", server.stream);
        if self.is_chat() && server.stream {
            body.set("stream_options", json!({"include_usage": true}));
        }
        body.extend(&server.extra_body);
        Ok(body)
    }

    fn read_whole(&self, answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        if self.is_chat() {
            return openai::read_whole(answer, draft);
        }
        if !fields::get(answer, "content").is_some_and(Json::is_string) {
            return Err(Error::form("the answer has no content", &answer.to_string()));
        }
        read_completion(answer, draft)?;
        read_end(answer, draft);
        Ok(())
    }

    fn read_event(&self, event: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        if self.is_chat() {
            return openai::read_event(event, draft);
        }
        read_completion(event, draft)?;
        if fields::is_true(event, "stop") {
            draft.done = true;
            read_end(event, draft);
        }
        Ok(())
    }
}

/// Writes a tool. The server refuses the whole request over one that it can make no grammar of.
fn tool(tool: &ToolSpec) -> FunctionTool<'_> {
    lowered_function_tool(tool, llama_cpp_parameters(&tool.parameters))
}

fn read_completion(event: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
    draft.model(fields::get(event, "model"));
    draft.begun |= fields::get(event, "content").is_some();
    draft.push_text(&fields::text(fields::get(event, "content")))
}

/// Reads how a completion ends; older servers say it by other fields.
fn read_end(event: &Json<'_>, draft: &mut Draft) {
    let kind = fields::word(event, "stop_type");
    let is_cut = kind == Some("limit")
        || fields::is_true(event, "stopped_limit")
        || fields::is_true(event, "truncated");
    draft.finish(Some(if is_cut { FinishReason::Length } else { FinishReason::Stop }));
    *draft.usage() = Usage::of_tokens(
        fields::count(event, "tokens_evaluated").unwrap_or(0),
        fields::count(event, "tokens_predicted").unwrap_or(0),
    );
}
