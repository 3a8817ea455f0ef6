"""vLLM's CPU build, offline: vllm_bench.py MODEL THREADS ROUND WORKLOADS_JSON   (started by run.py in vLLM's environment)"""
import json
import os
import sys

from workloads import measure, say


def main():
    model, threads, round_number, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{threads - 1}")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from vllm import LLM, SamplingParams

    longest = max(work["prompt"] + work["new"] for work in wanted)
    llm = LLM(model=model, dtype="bfloat16", max_model_len=max(2048, longest), max_num_seqs=256, enable_prefix_caching=True)
    vocabulary = json.load(open(os.path.join(model, "config.json")))["vocab_size"]

    def run(prompts, new, work):
        settings = SamplingParams(temperature=work["temperature"], top_p=work["top_p"], max_tokens=new, min_tokens=new,
                                  ignore_eos=True, n=work["samples"], detokenize=False)
        outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], settings, use_tqdm=False)
        assert all(len(output.prompt_token_ids) == work["prompt"] for output in outputs)
        return [[len(sample.token_ids) for sample in output.outputs] for output in outputs]

    for work in wanted:
        say(measure(work, round_number, vocabulary, run))


if __name__ == "__main__":
    main()
