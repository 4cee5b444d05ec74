//! Broken tables of models, each with what is said about it, where, and what to do.

use super::broken::{FINE, check};

#[test]
fn one_fault_in_a_model() {
    for (added, line, message, help) in [
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\nprice = { input = 1 }",
            10,
            "`models.n.price` lacks `output`",
            "",
        ),
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\nprice = { input = 1, output = 1, cache_read = -1 }",
            10,
            "`models.n.price.cache_read` must be from 0 to 1000000",
            "",
        ),
        (
            "[models.'gpt 4']\nprovider = 'scripted'\nscript = 'm.jsonl'",
            7,
            "\"gpt 4\" in `models`: a name",
            "change",
        ),
        ("[models.n]", 7, "`models.n` lacks `provider`", "\"anthropic\" or \"scripted\""),
        ("[models.n]\nprovider = 'opnai'", 8, "this is \"opnai\"", "did you mean \"openai\"?"),
        ("[models.n]\nprovider = 'scripted'", 7, "`models.n` lacks `script`", "add `script`"),
        (
            "[models.n]\nprovider = 'scripted'\nscript = 'no.jsonl'",
            9,
            "`no.jsonl` cannot be read",
            "tried teams/no.jsonl",
        ),
        (
            "[models.n]\nprovider = 'scripted'\nscript = 'm.jsonl'\nstream = true",
            10,
            "`stream` goes with `provider = \"openai\" | \"llamacpp\" | \"ollama\" | \"anthropic\"` only",
            "remove",
        ),
        (
            "[models.n]\nprovider = 'scripted'\nscript = 'm.jsonl'\nrecord = 'r.jsonl'",
            10,
            "`record` goes with",
            "remove",
        ),
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\nrecord = ''",
            10,
            "`record` is empty",
            "the file",
        ),
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\nreasoning = false",
            10,
            "`reasoning` goes with `provider = \"openai\" | \"llamacpp\" | \"anthropic\"` only",
            "remove",
        ),
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\ntemplate = 'chatml'",
            10,
            "`template` goes with `provider = \"llamacpp\"` only",
            "remove",
        ),
        (
            "[models.n]\nprovider = 'ollama'\nmodel = 'x'\nthink = 'hard'",
            10,
            "`models.n.think` must be \"low\" or",
            "",
        ),
        (
            "[models.n]\nprovider = 'anthropic'\nmodel = 'x'\ntemperature = -1",
            10,
            "`temperature` below 0 goes with `provider = \"llamacpp\"` only",
            "write 0",
        ),
        (
            "[models.n]\nprovider = 'llamacpp'\ntemplate = 'llama-2'\ndialect = 'native'",
            10,
            "dialect `native` goes with `template = \"server\"` only",
            "choose another dialect",
        ),
        (
            "[models.n]\nprovider = 'llamacpp'\ntemplate = 'chatml'\nmerge_adjacent = true",
            10,
            "`merge_adjacent` goes with `template = \"server\"` only",
            "remove `merge_adjacent`",
        ),
        (
            "[models.n]\nprovider = 'llamacpp'\nreasoning = true\ntemplate = 'mistral'",
            9,
            "`reasoning` goes with `template = \"server\"` only",
            "remove `reasoning`",
        ),
        (
            "[models.n]\nprovider = 'llamacpp'\nextra_body = { grammar = 'root ::= x' }",
            9,
            "`grammar` of the request is written by the runtime",
            "remove it",
        ),
        ("[models.n]\nprovider = 'ollama'", 7, "`models.n` lacks `model`", "at the provider"),
        (
            "[models.n]\nprovider = 'openai'\nbase_url = 'http://h/v1'",
            7,
            "`models.n` lacks `model`",
            "at the provider",
        ),
        (
            "[models.n]\nprovider = 'openai'\nbase_url = ''\nmodel = 'x'",
            9,
            "`base_url` is empty",
            "address",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://key@host/v1'",
            10,
            "is no address of an HTTP server",
            "do not belong in it",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://127.0.0.1:114340/v1'",
            10,
            "\"http://127.0.0.1:114340/v1\" is no address of an HTTP server",
            "write one such as",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://[::1/v1'",
            10,
            "is no address of an HTTP server",
            "write one such as",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\napi_key_env = 'sk-1'",
            11,
            "`api_key_env` is not the name of an environment variable",
            "never the secret itself",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\napi_key_env = 'K'\napi_key_file = 'k'",
            12,
            "`api_key_env` and `api_key_file` both",
            "remove one",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\nextra_body = { messages = [] }",
            11,
            "`messages` of the request is written by the runtime",
            "remove it from `extra_body`",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\nextra_body = { stream_options = {} }",
            11,
            "`stream_options` of the request is written by the runtime",
            "write `stream_usage` beside it",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\nextra_body = { max_completion_tokens = 9 }",
            11,
            "`max_completion_tokens` of the request is written by the runtime",
            "`reply_tokens_max` in the limits",
        ),
        (
            "[models.n]\nprovider = 'anthropic'\nmodel = 'x'\nextra_body = { temperature = 1 }",
            10,
            "`temperature` of the request is written by the runtime",
            "write `temperature` beside it",
        ),
        (
            "[models.n]\nprovider = 'anthropic'\nmodel = 'x'\nextra_body = { stop_sequences = ['a'] }",
            10,
            "`stop_sequences` of the request is written by the runtime",
            "write `stop` beside it",
        ),
        (
            "[models.n]\nprovider = 'llamacpp'\nextra_body = { max_tokens = 9 }",
            9,
            "`max_tokens` of the request is written by the runtime",
            "remove it",
        ),
        (
            "[models.n]\nprovider = 'openai'\nmodel = 'x'\nbase_url = 'http://h'\nextra_body = { seed = nan }",
            11,
            "`models.n.extra_body.seed` must be a finite number",
            "",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}
