"""Writes a Llama-like Hugging Face directory with bfloat16 weights as GGUF, the same numbers, for llama.cpp: to_gguf.py MODEL FILE
llama.cpp's own converter refuses tokenizers that it does not know, such as the trivial one of random weights; this file
carries none, which suffices for benches on token ids. Runs in the environment that setup.sh makes for llama.cpp."""
import json
import os
import struct
import sys

import gguf
import numpy as np


def tensors(path):
    """Yields name, shape and raw bytes of every bfloat16 tensor of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.tell()
        header.pop("__metadata__", None)
        for name, entry in header.items():
            if entry["dtype"] != "BF16":
                raise SystemExit(f"{name} in {path} is {entry['dtype']}; only bfloat16 weights are converted")
            begin, end = entry["data_offsets"]
            file.seek(data + begin)
            yield name, entry["shape"], np.frombuffer(file.read(end - begin), dtype=np.uint16)


def interleaved(weight, heads):
    """llama.cpp rotates neighbouring pairs, Hugging Face the two halves of a head: reorders the rows of q and k."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def gguf_name(name):
    if name in OUTER:
        return OUTER[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.rsplit('.', 1)[0]]}.weight"


def main():
    model, path = sys.argv[1:3]
    config = json.load(open(os.path.join(model, "config.json")))
    if config["model_type"] != "llama":
        raise SystemExit(f"{model} is of the family {config['model_type']}; only llama is converted")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path + ".part", "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("none")
    for name, shape, bits in tensors(os.path.join(model, "model.safetensors")):
        weight = bits.reshape(shape)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = interleaved(weight, heads if "q_proj" in name else kv_heads)
        if weight.ndim == 1:  # norms are float32 in GGUF
            writer.add_tensor(gguf_name(name), (weight.astype(np.uint32) << 16).view(np.float32))
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(weight).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
