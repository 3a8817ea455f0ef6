"""llama.cpp's own llama-batched-bench: llama_cpp_bench.py GGUF THREADS ROUND WORKLOADS_JSON BINARY   (started by run.py)
It feeds random token ids and draws none: its figures are of prefill and decode without any sampling."""
import json
import subprocess
import sys

from workloads import say

MAX_TRIES = 5  # now and then it ends well without having printed its result


def batched_bench(binary, model, threads, work):
    context = work["requests"] * (work["prompt"] + work["new"])
    command = [binary, "-m", model, "-t", str(threads), "-tb", str(threads), "-c", str(context), "-b", "2048", "-ub", "512",
               "-npp", str(work["prompt"]), "-ntg", str(work["new"]), "-npl", str(work["requests"]), "--output-format", "jsonl"]
    for _ in range(MAX_TRIES):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if rows or done.returncode != 0:
            break
    if done.returncode != 0 or len(rows) != 1 or rows[0]["n_kv"] != context:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode} and said:\n{done.stdout[-2000:]}")
    return rows[0]


def main():
    model, threads, wanted, binary = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[4]), sys.argv[5]
    for work in wanted:
        if work["samples"] > 1:
            raise SystemExit(f"{work['name']}: llama-batched-bench cannot share several prompts between their samples")
        rows = [batched_bench(binary, model, threads, work) for _ in range(work["repeats"])]
        rows.sort(key=lambda row: row["t"])
        row = rows[len(rows) // 2]
        tokens = work["requests"] * work["new"]
        value = {"new": tokens / row["t"], "decode": row["speed_tg"], "prompt": row["speed_pp"]}[work["kind"]]
        say(dict(workload=work["name"], tokens_per_s=value, seconds=[each["t"] for each in rows],
                 first_token_seconds=[each["t_pp"] for each in rows],
                 prompt_tokens=work["requests"] * work["prompt"], new_tokens=tokens))


if __name__ == "__main__":
    main()
