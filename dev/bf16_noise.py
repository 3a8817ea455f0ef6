"""How far bfloat16 products take the golden models' logits from the reference, whoever computes them.

A decoder in float64 in which only the named operands are rounded to bfloat16: what is left is the format's own noise,
the least that a backend with bfloat16 matrix inputs can show. Needs numpy.

    python3 dev/bf16_noise.py llama llama-mha
"""

import json
import pathlib
import struct
import sys

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent.parent / "gpu-runtime/src/test/resources/golden/models"
KINDS = {"F32": "<f4", "I32": "<i4", "F64": "<f8"}


def load(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        raw = data[8 + length + start : 8 + length + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(raw, KINDS[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def bf16(x):
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + ((bits >> 16) & 1) + 0x7FFF) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def exact(x):
    return x


class Decoder:
    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.weights = load(directory / "model.safetensors")
        theta = self.config.get("rope_theta") or self.config["rope_parameters"]["rope_theta"]
        dim = self.config["head_dim"]
        # The references were made with inverse frequencies rounded to bfloat16.
        self.inverse = bf16((1.0 / theta ** (np.arange(0, dim, 2) / dim)).astype(np.float32))

    def rotate(self, x):
        angle = np.arange(len(x))[:, None] * self.inverse[None]
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.weights[name]

    def logits(self, ids, normed=exact, keys_values=exact, attended=exact, gated=exact):
        w, c, t = self.weights, self.config, len(ids)
        heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        x = w["model.embed_tokens.weight"][ids].astype(np.float64)
        for layer in range(c["num_hidden_layers"]):
            p = f"model.layers.{layer}."
            h = normed(self.norm(x, p + "input_layernorm.weight"))
            q = self.rotate((h @ w[p + "self_attn.q_proj.weight"].T).reshape(t, heads, dim))
            k = keys_values(self.rotate((h @ w[p + "self_attn.k_proj.weight"].T).reshape(t, kv_heads, dim)))
            v = keys_values((h @ w[p + "self_attn.v_proj.weight"].T).reshape(t, kv_heads, dim))
            k, v = (np.repeat(a, heads // kv_heads, 1) for a in (k, v))
            s = np.einsum("thd,uhd->htu", q, k) / np.sqrt(dim)
            s = np.where(np.tril(np.ones((t, t), bool)), s, -1e30)
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            x = x + attended(np.einsum("htu,uhd->thd", s, v).reshape(t, -1)) @ w[p + "self_attn.o_proj.weight"].T
            h = normed(self.norm(x, p + "post_attention_layernorm.weight"))
            gate, up = h @ w[p + "mlp.gate_proj.weight"].T, h @ w[p + "mlp.up_proj.weight"].T
            x = x + gated(gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
        head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
        return normed(self.norm(x, "model.norm.weight")) @ head.T


def main(names):
    variants = {
        "nothing": {},
        "matrix inputs": dict(normed=bf16, attended=bf16, gated=bf16),
        "matrix inputs and KV": dict(normed=bf16, attended=bf16, gated=bf16, keys_values=bf16),
    }
    print(f"{'model':12}{'tokens':>8}  {'rounded':22}{'max/std':>9}{'rms/std':>9}{'margins above 4 x max':>24}")
    for name in names:
        decoder, golden = Decoder(MODELS / name), load(MODELS / name / "golden.safetensors")
        for case in range(6):
            ids, reference = golden[f"case{case}.input_ids"], golden[f"case{case}.logits"]
            margins = golden[f"case{case}.greedy_margin"]
            for variant, rounding in variants.items():
                error = np.abs(decoder.logits(ids, **rounding)[-len(reference) :] - reference)
                above = f"{(margins > 4 * error.max()).sum()} of {len(margins)}"
                print(
                    f"{name:12}{len(ids):8}  {variant:22}{error.max() / reference.std():9.4f}"
                    f"{np.sqrt((error**2).mean()) / reference.std():9.4f}{above:>24}"
                )


main(sys.argv[1:] or ["llama", "llama-mha"])
