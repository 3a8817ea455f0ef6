#!/usr/bin/env python3
"""Measures Millrace beside vLLM's CPU build, OpenVINO GenAI and llama.cpp, on the same random weights:

    dev/peers/setup.sh DIR          once
    dev/peers/run.py DIR            the measurement: about 50 minutes, and nothing else may run meanwhile

One engine at a time, in alternating rounds. Every figure is appended to DIR/measured/results.jsonl when it is there, so that a
run which was interrupted goes on where it stopped. Ends with a table and DIR/measured/peers.json (docs/benchmarks.md explains).
"""
import argparse
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import table
from workloads import workloads

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ["ceilings", "millrace", "vllm", "openvino", "llama.cpp"]
# llama-batched-bench draws no tokens and cannot share several prompts; it is far behind in batches, so these are run only when named.
UNASKED = {("llama.cpp", name) for name in ("batch-sampled", "batch-greedy", "rollout", "prefill", "one-sampled")}
IMPOSSIBLE = {("llama.cpp", "batch-sampled"), ("llama.cpp", "one-sampled"), ("llama.cpp", "rollout")}
MAX_BUSY = 0.10  # share of the machine that something else may take when an engine starts
MAX_IDLE_WAIT_SECONDS = 120


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the engine of the moment is ended, too
    base = options.directory.resolve()
    base.mkdir(parents=True, exist_ok=True)
    if REPOSITORY in [base, *base.parents]:
        raise SystemExit(f"run.py: {base} lies in the repository; name a directory outside of it")
    out = options.out or base / ("measured-small" if options.small else "measured")
    out.mkdir(parents=True, exist_ok=True)
    works = workloads(options.small)
    log = out / "results.jsonl"
    if not options.table_only:
        wanted = selection(options.only, works)
        models = prepare_models(base, options.shape, {engine for engine, _ in wanted})
        for round_number in range(1, options.rounds + 1):
            order = ENGINES if round_number % 2 else ENGINES[:1] + ENGINES[:0:-1]  # ceilings first, then there and back
            for engine in order:
                measure(engine, round_number, wanted, works, models, options, out, log)
    report = table.report(read(log), works, facts(base, options))
    (out / "peers.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table.text(report))
    print(f"\n{out / 'peers.json'}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, metavar="DIR", help="where setup.sh has installed the engines")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    parser.add_argument("--only", default="", metavar="LIST",
                        help="comma-separated ENGINE, ENGINE:WORKLOAD or :WORKLOAD; engines: " + ", ".join(ENGINES)
                        + "; workloads: " + ", ".join(workloads()))
    parser.add_argument("--again", action="store_true", help="measure what is named even where a figure is there already")
    parser.add_argument("--shape", default="smollm2-135m", help="random weights of this shape (default smollm2-135m)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every engine (default: all cores)")
    parser.add_argument("--small", action="store_true", help="tiny sizes that only try everything out")
    parser.add_argument("--out", type=pathlib.Path, help="where results go (default DIR/measured, DIR/measured-small)")
    parser.add_argument("--table-only", action="store_true", help="measure nothing: make the table of what is there")
    return parser.parse_args()


def selection(only, works):
    """The pairs of engine and workload to measure, in order."""
    pairs = [(engine, name) for engine in ENGINES for name in (works if engine != "ceilings" else ["ceilings"])]
    if not only:
        return [pair for pair in pairs if pair not in UNASKED]
    chosen = []
    for item in only.split(","):
        engine, _, name = item.partition(":")
        found = [pair for pair in pairs if engine in ("", pair[0]) and name in ("", pair[1])
                 and pair not in (UNASKED if not (engine and name) else IMPOSSIBLE)]
        if not found:
            raise SystemExit(f"run.py: --only {item} names nothing that can be measured; engines are {', '.join(ENGINES)};"
                             f" workloads are {', '.join(works)}")
        chosen += found
    return [pair for pair in pairs if pair in chosen]


def prepare_models(base, shape, engines):
    """The random weights as each engine reads them, made once."""
    models = {"hugging_face": base / f"model-{shape}", "openvino": base / f"model-{shape}-openvino", "gguf": base / f"model-{shape}.gguf"}
    if not (models["hugging_face"] / "config.json").exists():
        call([REPOSITORY / "millrace", "bench", "export-model", "--shape", shape, "--out", models["hugging_face"]])
    if engines & {"ceilings", "millrace"}:
        call([REPOSITORY / "millrace", "bench", "ceilings", "--help"], quietly=True)  # builds what has changed before anything is measured
    if "openvino" in engines and not (models["openvino"] / "made").exists():
        call([base / "export/bin/optimum-cli", "export", "openvino", "--model", models["hugging_face"],
              "--task", "text-generation-with-past", "--weight-format", "fp16", models["openvino"]])
        (models["openvino"] / "made").touch()
    if "llama.cpp" in engines and not models["gguf"].exists():
        call([base / "llama.cpp/convert/bin/python", HERE / "to_gguf.py", models["hugging_face"], models["gguf"]])
    return models


def call(command, quietly=False):
    command = [str(part) for part in command]
    print("run.py: " + " ".join(command), file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quietly else sys.stderr)


def measure(engine, round_number, wanted, works, models, options, out, log):
    """Measures one engine's workloads of a round that are wanted and not there yet; a failure is said and leaves them out."""
    there = {(row["engine"], row["workload"], row["round"]) for row in read(log)} if not options.again else set()
    names = [name for each, name in wanted if each == engine and (engine, name, round_number) not in there]
    if not names:
        return
    busy = busy_share(0.2) if options.small else wait_for_idle()
    print(f"run.py: round {round_number} of {options.rounds}, {engine}: {', '.join(names)}", file=sys.stderr, flush=True)

    def keep(result):
        result = dict(engine=engine, round=round_number, busy_before=busy, at=now(), commit=commit(), **result)
        with open(log, "a") as file:
            file.write(json.dumps(result) + "\n")
        if "tokens_per_s" in result:
            print(f"run.py:   {result['workload']}: {result['tokens_per_s']:.1f} tokens/s", file=sys.stderr, flush=True)

    try:
        if engine == "ceilings":
            keep(dict(workload="ceilings", report=bench(ceilings_arguments(works), models, options, out, f"ceilings-{round_number}")))
        elif engine == "millrace":
            for name in names:
                keep(millrace(works[name], round_number, models, options, out))
        else:
            peer(engine, [works[name] for name in names], round_number, models, options, out, keep)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as failure:
        print(f"run.py: {engine} failed in round {round_number} and is left out of it: {failure}; see {out}", file=sys.stderr, flush=True)


def ceilings_arguments(works):
    batches = sorted({work["requests"] * work["samples"] for work in works.values() if work["new"] > 1})
    lengths = sorted({work["prompt"] for work in works.values()})
    rollout = next(work for work in works.values() if work["samples"] > 1)
    sizes = [rollout[name] for name in ("requests", "prompt", "samples", "new")]
    return ["ceilings", "--batch-sizes", ",".join(map(str, batches)), "--lengths", ",".join(map(str, lengths)),
            "--rollout", ",".join(map(str, sizes))]


def millrace(work, round_number, models, options, out):
    rounds = max(work["repeats"], 1)
    report = bench(["throughput", "--full", "--requests", work["requests"], "--prompt-tokens", work["prompt"], "--new-tokens", work["new"],
                    "--samples", work["samples"], "--temperature", work["temperature"], "--top-p", work["top_p"],
                    "--rounds", rounds, "--seed", round_number], models, options, out, f"millrace-{work['name']}-{round_number}")
    row = report["results"]["throughput"][0]
    tokens = work["requests"] * work["samples"] * work["new"]
    if row["new_tokens_per_round"] != tokens:
        raise SystemExit(f"run.py: {work['name']} asks for {tokens} new tokens, millrace made {row['new_tokens_per_round']}")
    value = row[{"new": "new_tokens_per_s", "decode": "decode_tokens_per_s", "prompt": "prompt_tokens_per_s"}[work["kind"]]]
    return dict(workload=work["name"], tokens_per_s=value, seconds=[row["seconds"]], first_token_seconds=[row["all_first_tokens_s"]],
                prompt_tokens=work["requests"] * work["prompt"], new_tokens=tokens, decode_tokens_per_s=row["decode_tokens_per_s"])


def bench(arguments, models, options, out, name):
    """Runs a scenario of millrace bench and returns its report."""
    file = out / f"{name}.json"
    command = [REPOSITORY / "millrace", "bench", *arguments, "--model", models["hugging_face"], "--num-threads", options.threads, "--json", file]
    execute(command, out / f"{name}.log", lambda line: None)
    return json.loads(file.read_text())


def peer(engine, works, round_number, models, options, out, keep):
    base = options.directory.resolve()
    work = json.dumps(works)
    command = {
        "vllm": [base / "vllm/bin/python", HERE / "vllm_bench.py", models["hugging_face"], options.threads, round_number, work],
        "openvino": [base / "openvino/bin/python", HERE / "openvino_bench.py", models["openvino"], options.threads, round_number, work],
        "llama.cpp": [sys.executable, HERE / "llama_cpp_bench.py", models["gguf"], options.threads, round_number, work,
                      base / "llama.cpp/build/bin/llama-batched-bench"],
    }[engine]

    def each(line):
        if line.startswith("MEASURED "):
            keep(json.loads(line[len("MEASURED "):]))

    execute(command, out / f"{engine}-{round_number}.log", each)


def execute(command, log, on_line, max_seconds=1800):
    """Runs a program of its own process group, hands over its lines as they come, and leaves nothing of it behind."""
    command = [str(part) for part in command]
    with open(log, "w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        alarm = threading.Timer(max_seconds, end, [process])
        alarm.start()
        try:
            for line in process.stdout:
                errors.write(line)
                on_line(line)
            process.wait()
            if not alarm.is_alive():
                raise subprocess.TimeoutExpired(command[:3], max_seconds)
            if process.returncode != 0:
                raise subprocess.CalledProcessError(process.returncode, command[:3])
        finally:
            alarm.cancel()
            end(process)


def end(process):
    """Ends the process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def wait_for_idle():
    """Waits until hardly anything runs; returns the share of the machine that is busy all the same."""
    deadline = time.monotonic() + MAX_IDLE_WAIT_SECONDS
    while True:
        busy = busy_share(1.0)
        if busy <= MAX_BUSY or time.monotonic() > deadline:
            if busy > MAX_BUSY:
                print(f"run.py: {busy:.0%} of the machine is busy with something else; figures will suffer", file=sys.stderr, flush=True)
            return round(busy, 3)


def busy_share(seconds):
    def times():
        values = list(map(int, open("/proc/stat").readline().split()[1:9]))
        return sum(values), values[3] + values[4]  # all, idle and waiting

    total, idle = times()
    time.sleep(seconds)
    total_after, idle_after = times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def read(log):
    """The figures so far; of the same engine, workload and round the last one counts."""
    if not log.exists():
        return []
    rows = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    return list({(row["engine"], row["workload"], row["round"]): row for row in rows}.values())


def facts(base, options):
    cpu = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith(("model name", "flags"))][:2]
    versions = {file.stem: file.read_text().strip() for file in base.glob("*.installed")}
    return dict(at=now(), cpu=cpu[0], amx="amx_tile" in cpu[1].split(), cores=os.cpu_count(), threads=options.threads, shape=options.shape,
                small=options.small, versions=versions)


def commit():
    """Of the Millrace that is measured."""
    return subprocess.run(["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


if __name__ == "__main__":
    main()
