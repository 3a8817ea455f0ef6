"""OpenVINO GenAI's continuous batching: openvino_bench.py OPENVINO_MODEL THREADS ROUND WORKLOADS_JSON   (started by run.py)"""
import json
import os
import sys

import numpy as np
import openvino as ov
import openvino_genai as genai

from workloads import measure, say


def main():
    model, threads, round_number, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 4  # GB
    scheduler.max_num_batched_tokens = 512
    scheduler.max_num_seqs = 256
    scheduler.enable_prefix_caching = True
    pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    vocabulary = json.load(open(os.path.join(model, "config.json")))["vocab_size"]

    def run(prompts, new, work):
        settings = genai.GenerationConfig()
        settings.max_new_tokens = new
        settings.min_new_tokens = new
        settings.ignore_eos = True
        settings.num_return_sequences = work["samples"]
        if work["temperature"] > 0:
            settings.do_sample = True
            settings.temperature = work["temperature"]
            settings.top_p = work["top_p"]
        inputs = [ov.Tensor(np.array([prompt], dtype=np.int64)) for prompt in prompts]
        outputs = pipeline.generate(inputs, [settings] * len(inputs))
        return [[len(sample) for sample in output.m_generation_ids] for output in outputs]

    for work in wanted:
        say(measure(work, round_number, vocabulary, run))


if __name__ == "__main__":
    main()
