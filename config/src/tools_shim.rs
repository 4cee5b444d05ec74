//! Stands in for functions of `tools` that are not there yet; delete this file once they are.

use serde_json::{Value, json};
use tools::builtin::Builtin;
use tools::http::HttpSpec;
use wire::EffectClass;

pub(crate) trait BuiltinShim: Sized {
    const NAMES: &'static [&'static str] =
        &["calculate", "now", "remember", "recall", "forget", "ask_user"];
    fn from_name(name: &str) -> Option<Self>;
    fn description(&self) -> &'static str;
    fn parameters(&self) -> Value;
    fn effect(&self) -> EffectClass;
    fn timeout_ms(&self) -> u64;
}

impl BuiltinShim for Builtin {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "calculate" => Self::Calculate,
            "now" => Self::Now,
            "remember" => Self::Remember,
            "recall" => Self::Recall,
            "forget" => Self::Forget,
            "ask_user" => Self::AskUser,
            _ => return None,
        })
    }

    fn description(&self) -> &'static str {
        "a tool that comes with the runtime"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> EffectClass {
        match self {
            Self::Remember | Self::Forget => EffectClass::Idempotent,
            _ => EffectClass::Read,
        }
    }

    fn timeout_ms(&self) -> u64 {
        10_000
    }
}

pub(crate) trait HttpShim {
    fn check(&self, parameters: &Value) -> Vec<String>;
    fn effect(&self) -> EffectClass;
}

impl HttpShim for HttpSpec {
    fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        if !(self.url.starts_with("http://") || self.url.starts_with("https://")) {
            faults.push(format!("url {:?} must begin with http:// or https://", self.url));
        }
        if !["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].contains(&self.method.as_str()) {
            faults.push(format!("method {:?} is not known", self.method));
        }
        let known = parameters.get("properties").and_then(Value::as_object);
        for part in self.url.split('{').skip(1) {
            let name = part.split('}').next().unwrap_or_default();
            if !known.is_some_and(|known| known.contains_key(name)) {
                faults.push(format!("placeholder {{{name}}} names no parameter"));
            }
        }
        faults
    }

    fn effect(&self) -> EffectClass {
        match self.method.as_str() {
            "GET" | "HEAD" => EffectClass::Read,
            "PUT" | "DELETE" => EffectClass::Idempotent,
            _ => EffectClass::Once,
        }
    }
}

pub(crate) mod schema {
    use serde_json::Value;

    pub(crate) fn check_parameters(parameters: &Value) -> Result<(), String> {
        match parameters.get("type").and_then(Value::as_str) {
            Some("object") => Ok(()),
            _ => Err("the root must have `type = \"object\"`".to_owned()),
        }
    }
}
