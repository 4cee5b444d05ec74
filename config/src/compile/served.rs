//! What plans know of the models that may answer, for traces: whom they are asked of, and how.

use std::collections::BTreeMap;

use tools::hop::endpoint_of;
use wire::Name;
use wire::plan::{Plan, Served};

use super::prices::answering;
use crate::team::{Model, Provider, Sampling, Server};

/// Says of all plans what is known of the models that may answer in their runs, those that stand in
/// for others among them.
pub(super) fn serve(plans: &mut BTreeMap<Name, Plan>, models: &BTreeMap<Name, Model>) {
    for plan in plans.values_mut() {
        plan.served = answering(plan, models)
            .into_iter()
            .filter_map(|name| models.get(&name).map(|model| (name, served(model))))
            .collect();
    }
}

fn served(model: &Model) -> Served {
    match &model.provider {
        Provider::OpenAi(options) => at("openai", &options.server),
        Provider::Anthropic(server) => at("anthropic", server),
        Provider::LlamaCpp(options) => sampled(at("llamacpp", &options.server), &options.sampling),
        Provider::Ollama(options) => sampled(at("ollama", &options.server), &options.sampling),
        Provider::Scripted(_) => Served {
            provider: "scripted".to_owned(),
            model: model.name.to_string(),
            ..Served::default()
        },
    }
}

fn at(provider: &str, server: &Server) -> Served {
    Served {
        provider: provider.to_owned(),
        model: server.model.clone(),
        server: endpoint_of(&server.base_url),
        stream: server.stream,
        temperature: server.temperature,
        stop: server.stop.clone(),
        ..Served::default()
    }
}

fn sampled(served: Served, sampling: &Sampling) -> Served {
    Served { top_p: sampling.top_p, top_k: sampling.top_k, seed: sampling.seed, ..served }
}
