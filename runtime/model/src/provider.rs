//! What sets one provider apart from the others; a provider is one file that implements it.

use std::time::Duration;

use bytes::Bytes;
use config::script::Script;
use config::team::{Model, Provider, Server};
use secrecy::SecretString;
use serde_json::Value;
use wire::{Digest, ErrorCode, Name, WireError};

use crate::answer::{Answer, Received};
use crate::anthropic::AnthropicProtocol;
use crate::body::Body;
use crate::client::Conversation;
use crate::draft::Draft;
use crate::error::Error;
use crate::fields::Json;
use crate::http::Endpoint;
use crate::llamacpp::LlamaCppProtocol;
use crate::lower::{Parameters, Target};
use crate::ollama::OllamaProtocol;
use crate::openai::OpenAiProtocol;
use crate::scripted::ScriptedModel;
use crate::stream::Framing;

/// What a provider is sent and how its answers are read. It holds no connection and no secret.
pub(crate) trait Protocol: Send + Sync {
    /// Returns the word for the provider in traces.
    fn word(&self) -> &'static str;

    /// Returns the path below `base_url`.
    fn path(&self) -> &'static [&'static str];

    /// Returns the header that carries the key, and what stands before the key in it.
    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    /// Returns headers of every request, names in lower case.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns how its streams are divided.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Returns the form in which schemas are sent, unless they are sent as they are.
    fn schema_form(&self) -> Option<Target> {
        None
    }

    /// Returns the parameters of a tool in the form in which they are sent, unless they are sent as
    /// they are.
    fn parameters(&self, _schema: &Value) -> Option<Parameters> {
        None
    }

    /// Writes the request of a turn to a model, which gets back the reasoning that is its own; the
    /// error says why it cannot be put into words.
    fn body(&self, conversation: &Conversation, to: Option<&Digest>) -> Result<Body, String>;

    /// Reads an answer that came in one piece.
    fn read_whole(&self, answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error>;

    /// Reads one event of a stream.
    fn read_event(&self, event: &Json<'_>, draft: &mut Draft) -> Result<(), Error>;
}

/// What is heard of an answer while it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard<'a> {
    /// The first byte of its body.
    Byte,
    /// A piece of its text.
    Piece(&'a str),
    /// What has come of the reply, passed on or not, since it may be lost.
    Part(Received),
}

/// Whom a model's turns are put to.
pub(crate) enum Backend {
    /// A server.
    Served(Box<Served>),
    /// A script.
    Scripted(ScriptedModel),
}

/// A model behind HTTP.
pub(crate) struct Served {
    protocol: Box<dyn Protocol>,
    endpoint: Endpoint,
    /// The model's name at the provider.
    model: String,
}

/// A request that is written, the same for all attempts of a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    bytes: Bytes,
    wrapped: bool,
    /// Bytes, also where nothing is sent.
    len: u64,
}

impl Written {
    /// Returns how long it is, in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
}

/// Who answers for a provider, without a connection.
pub(crate) enum Asked<'m> {
    /// A server, and the protocol that it speaks.
    Server(&'m Server, Box<dyn Protocol>),
    /// A script.
    Script(&'m Script),
}

impl<'m> Asked<'m> {
    /// Finds out who answers for a provider.
    pub(crate) fn of(provider: &'m Provider) -> Self {
        let (server, protocol): (&Server, Box<dyn Protocol>) = match provider {
            Provider::OpenAi(options) => {
                (&options.server, Box::new(OpenAiProtocol::new(options.clone())))
            }
            Provider::LlamaCpp(options) => {
                (&options.server, Box::new(LlamaCppProtocol::new(options.clone())))
            }
            Provider::Ollama(options) => {
                (&options.server, Box::new(OllamaProtocol::new(options.clone())))
            }
            Provider::Anthropic(server) => {
                (server, Box::new(AnthropicProtocol::new(server.clone())))
            }
            Provider::Scripted(script) => return Self::Script(script),
        };
        Self::Server(server, protocol)
    }
}

impl Backend {
    /// Makes what a model's provider needs; calls nobody.
    pub(crate) fn new(model: &Model, http: reqwest::Client) -> Result<Self, WireError> {
        let (server, protocol) = match Asked::of(&model.provider) {
            Asked::Server(server, protocol) => (server, protocol),
            Asked::Script(script) => return ScriptedModel::new(script).map(Self::Scripted),
        };
        let idle = Duration::from_millis(model.idle_timeout_ms);
        let endpoint = Endpoint::new(server, &*protocol, idle, http)?;
        Ok(Self::Served(Box::new(Served { protocol, endpoint, model: server.model.clone() })))
    }

    /// Returns the provider's word for traces.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Served(served) => served.protocol.word(),
            Self::Scripted(_) => "scripted",
        }
    }

    /// Returns the model's name at the provider, if it has one there.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Self::Served(served) => Some(&served.model),
            Self::Scripted(_) => None,
        }
    }

    /// Returns the address that is asked, as it may be told.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Served(served) => Some(served.endpoint.address()),
            Self::Scripted(_) => None,
        }
    }

    /// Returns what must not be told.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Served(served) => served.endpoint.secrets(),
            Self::Scripted(_) => Vec::new(),
        }
    }

    /// Names who is asked, for what only the same may be sent back: the model of the team, with its
    /// protocol, its address and its name there.
    pub(crate) fn digest(&self, name: &Name) -> Digest {
        let address = self.address().unwrap_or_default();
        let model = self.model().unwrap_or_default();
        let mut digest = Digest::writer();
        for part in [name.as_str(), self.word(), &address, model] {
            digest.update(part.as_bytes());
            digest.update(b"\0");
        }
        digest.finish()
    }

    /// Writes the request of a turn to who is so named, or to one that gets no reasoning back.
    pub(crate) fn write(
        &self,
        conversation: &Conversation,
        to: Option<&Digest>,
    ) -> Result<Written, WireError> {
        let length = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let Self::Served(served) = self else {
            let bytes = conversation.said().map(|message| message.content().len());
            return Ok(Written { len: length(bytes.sum()), ..Written::default() });
        };
        let refused = |why: String| {
            WireError::new(ErrorCode::ModelRefused, format!("write a model request: {why}"))
        };
        let body = served.protocol.body(conversation, to).map_err(refused)?;
        let bytes = body.write().map_err(|error| refused(error.to_string()))?;
        Ok(Written { len: length(bytes.len()), bytes: bytes.into(), wrapped: body.wrapped })
    }

    /// Makes one attempt at a turn.
    pub(crate) async fn attempt(
        &self,
        conversation: &Conversation,
        request: &Written,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Answer, Error> {
        let served = match self {
            Self::Served(served) => served,
            Self::Scripted(script) => return script.attempt(conversation, on_heard).await,
        };
        let bytes = request.bytes.clone();
        let mut answer = served.endpoint.attempt(&*served.protocol, bytes, on_heard).await?;
        if request.wrapped {
            answer.unwrap_reply();
        }
        answer.estimate_usage(request.len());
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
