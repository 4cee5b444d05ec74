#!/usr/bin/env python3
"""Write a tiny llama-architecture GGUF model with made-up (pseudo-random) weights.

Standard library only, no download, byte-identical output for the same options:
the same seed always gives the same file.  The model knows nothing.  It exists so
that a real llama.cpp server can be started in tests and be driven through its real
HTTP API: tokenising, chat template, sampling, streaming, and above all decoding
constrained by a grammar or a JSON schema, which must give valid JSON whatever the
weights are.

Three things are not random, so that runs end instead of rambling to max_tokens:
  * dimension 0 of every embedding is a large constant that no layer reads or writes,
    so column 0 of the output matrix acts as a per-token bias;
  * that bias favours the closing quote and the end of the turn, and disfavours what
    opens, escapes or goes on (comma, backslash, digits); a turn that may use tools
    begins with <tool_call> about every other time;
  * each output row leans away from its own token's embedding, so that greedy
    decoding does not print one character for ever.

usage: tiny_gguf.py OUT.gguf [--seed N] [--layers N] [--dim N] [--ctx N]
"""
import argparse
import array
import hashlib
import random
import struct
import sys

U32, I32, F32, BOOL, STR, ARR = 4, 5, 6, 7, 8, 9   # GGUF value types
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6    # token types
ALIGN = 32

# ChatML; a tool call is <tool_call>{"name": ..., "arguments": ...}</tool_call>, as many real
# models have it.  <tool_call> is one token and nothing stands between it and the brace, so
# that a model that knows nothing hits the marker and llama.cpp's grammar does the rest.
# Without tools the turn opens with a space: <tool_call> is made likely after a newline.
# Every newline is inside {{ }}: the {%- that follows would eat a bare one.
TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}"
    "{%- if messages[0].role == 'system' %}{{ messages[0].content + '\n' }}{%- endif %}"
    "{{ 'You may call these functions:\n' }}"
    "{%- for tool in tools %}{{ (tool.function | tojson) + '\n' }}{%- endfor %}"
    "{{ 'To call one, answer <tool_call>{\"name\": NAME, \"arguments\": OBJECT}</tool_call><|im_end|>\n' }}"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{{ '<|im_start|>tool\n' + message.content + '<|im_end|>\n' }}"
    "{%- elif message.role == 'assistant' and message.tool_calls %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{%- if message.content %}{{ message.content }}{%- endif %}"
    "{%- for call in message.tool_calls %}"
    "{{ '<tool_call>{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}"
    "{{ (call.function.arguments | tojson) + '}</tool_call>' }}"
    "{%- endfor %}{{ '<|im_end|>\n' }}"
    "{%- elif not (tools and loop.first and message.role == 'system') %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant' + ('\n' if tools else ' ') }}{%- endif %}"
)


def vocabulary():
    """(text, score, type) for each token: specials, 256 bytes, printable ASCII."""
    toks = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL),
            ("<|im_start|>", 0.0, CONTROL), ("<|im_end|>", 0.0, CONTROL),
            ("<tool_call>", 0.0, USER), ("</tool_call>", 0.0, USER)]
    toks += [("<0x%02X>" % b, 0.0, BYTE) for b in range(256)]
    toks += [("\u2581" if c == " " else c, -float(i), NORMAL)
             for i, c in enumerate(chr(b) for b in range(32, 127))]
    return toks


def bias(text, kind):
    if text == "<|im_end|>":
        return 1.5                      # a free answer of ten characters or so
    if text == "<tool_call>":
        return -2.5                     # rare, but see build: likelier after a newline
    if kind != NORMAL:
        return -12.0                    # no other special token, no raw bytes
    if text == '"':
        return 3.0                      # strings of ten characters or so
    if text in "\u2581.":
        return 0.0
    if text in ",-+\\{[<>" or text.isdigit():
        return -2.0
    return 0.5 if text.islower() else -1.0


class Writer:
    def __init__(self):
        self.kv, self.infos, self.blobs, self.off, self.nkv = [], [], [], 0, 0

    @staticmethod
    def s(t):
        b = t.encode()
        return struct.pack("<Q", len(b)) + b

    def put(self, key, typ, val, elem=None):
        self.nkv += 1
        self.kv.append(self.s(key) + struct.pack("<I", typ))
        if typ == ARR:
            self.kv.append(struct.pack("<IQ", elem, len(val)))
            self.kv += [self.one(elem, v) for v in val]
        else:
            self.kv.append(self.one(typ, val))

    def one(self, typ, v):
        if typ == STR:
            return self.s(v)
        return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[typ], v)

    def tensor(self, name, shape, values):        # shape: GGUF order, fastest first
        a = array.array("f", values)
        if sys.byteorder == "big":
            a.byteswap()
        b = a.tobytes()
        self.infos.append(self.s(name) + struct.pack("<I", len(shape))
                          + struct.pack("<%dQ" % len(shape), *shape)
                          + struct.pack("<IQ", 0, self.off))
        b += b"\0" * (-len(b) % ALIGN)
        self.blobs.append(b)
        self.off += len(b)

    def bytes(self):
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.infos), self.nkv)
        head += b"".join(self.kv) + b"".join(self.infos)
        return head + b"\0" * (-len(head) % ALIGN) + b"".join(self.blobs)


def build(seed=1, layers=2, dim=64, ctx=32768):
    heads, kv_heads = 4, 2
    ff, hd = 2 * dim, dim // heads
    rnd = random.Random(seed).random              # random() is stable across versions

    def mat(n_in, n_out, scale, row0=None, col0=None):
        out = [(rnd() * 2 - 1) * scale for _ in range(n_in * n_out)]
        if col0 is not None:                      # what reads dimension 0
            out[::n_in] = [col0(row) for row in range(n_out)]
        if row0 is not None:                      # what writes dimension 0
            out[:n_in] = [row0] * n_in
        return out

    def zero(_row):
        return 0.0

    toks = vocabulary()
    w = Writer()
    w.put("general.architecture", STR, "llama")
    w.put("general.name", STR, "tiny-random-%d" % seed)
    w.put("general.file_type", U32, 0)
    w.put("general.alignment", U32, ALIGN)
    for k, v in (("context_length", ctx), ("embedding_length", dim), ("block_count", layers),
                 ("feed_forward_length", ff), ("attention.head_count", heads),
                 ("attention.head_count_kv", kv_heads), ("rope.dimension_count", hd),
                 ("vocab_size", len(toks))):
        w.put("llama." + k, U32, v)
    w.put("llama.rope.freq_base", F32, 10000.0)
    w.put("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)
    w.put("tokenizer.ggml.model", STR, "llama")
    w.put("tokenizer.ggml.pre", STR, "default")
    w.put("tokenizer.ggml.tokens", ARR, [t for t, _, _ in toks], STR)
    w.put("tokenizer.ggml.scores", ARR, [s for _, s, _ in toks], F32)
    w.put("tokenizer.ggml.token_type", ARR, [k for _, _, k in toks], I32)
    for k, v in (("unknown", 0), ("bos", 1), ("eos", 4), ("padding", 2)):
        w.put("tokenizer.ggml.%s_token_id" % k, U32, v)
    w.put("tokenizer.ggml.add_bos_token", BOOL, False)
    w.put("tokenizer.ggml.add_eos_token", BOOL, False)
    w.put("tokenizer.ggml.add_space_prefix", BOOL, False)
    w.put("tokenizer.chat_template", STR, TEMPLATE)

    const, s = 8.0, 1.7 / dim ** 0.5              # s: unit-gain uniform initialisation
    # after the final RMS norm, dimension 0 is about const / sqrt((const^2 + var) / dim)
    gain = const / ((const * const + dim) / dim) ** 0.5
    embd = mat(dim, len(toks), 1.7, col0=lambda r: const)
    head = mat(dim, len(toks), s * 0.9, col0=lambda r: bias(toks[r][0], toks[r][2]) / gain)
    for i in range(len(head)):
        if i % dim:
            head[i] -= 0.04 * embd[i]
    names = [t for t, _, _ in toks]
    call, newline = names.index("<tool_call>") * dim, names.index("<0x0A>") * dim
    for i in range(1, dim):
        head[call + i] += 0.35 * embd[newline + i]
    kv = hd * kv_heads
    w.tensor("token_embd.weight", [dim, len(toks)], embd)
    for i in range(layers):
        p = "blk.%d." % i
        w.tensor(p + "attn_norm.weight", [dim], [1.0] * dim)
        w.tensor(p + "attn_q.weight", [dim, dim], mat(dim, dim, s * 2, col0=zero))
        w.tensor(p + "attn_k.weight", [dim, kv], mat(dim, kv, s * 2, col0=zero))
        w.tensor(p + "attn_v.weight", [dim, kv], mat(dim, kv, s * 1.5, col0=zero))
        w.tensor(p + "attn_output.weight", [dim, dim], mat(dim, dim, s, row0=0.0))
        w.tensor(p + "ffn_norm.weight", [dim], [1.0] * dim)
        w.tensor(p + "ffn_gate.weight", [dim, ff], mat(dim, ff, s * 1.5, col0=zero))
        w.tensor(p + "ffn_up.weight", [dim, ff], mat(dim, ff, s * 1.5, col0=zero))
        w.tensor(p + "ffn_down.weight", [ff, dim], mat(ff, dim, s, row0=0.0))
    w.tensor("output_norm.weight", [dim], [1.0] * dim)
    w.tensor("output.weight", [dim, len(toks)], head)
    return w.bytes()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--ctx", type=int, default=32768)
    o = ap.parse_args()
    if o.dim % 32:
        ap.error("--dim must be a multiple of 32")
    b = build(o.seed, o.layers, o.dim, o.ctx)
    with open(o.out, "wb") as f:
        f.write(b)
    print("%s  %d bytes  sha256 %s" % (o.out, len(b), hashlib.sha256(b).hexdigest()))


if __name__ == "__main__":
    main()
