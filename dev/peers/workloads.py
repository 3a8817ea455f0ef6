"""What is asked of every engine: sizes, prompts, and the check that exactly that work was done. Standard library only, since it
runs in every engine's own environment."""
import json
import random
import time

FIRST_PLAIN_ID = 3  # after the tokens that tokenizers begin with
SAMPLED, GREEDY = dict(temperature=1.0, top_p=0.95), dict(temperature=0.0, top_p=1.0)


def workload(name, requests, prompt, new, samples, repeats, kind, settings):
    return dict(name=name, requests=requests, prompt=prompt, new=new, samples=samples, repeats=repeats, kind=kind, **settings)


def workloads(small=False):
    """All of them by name. kind is what the figure means: new tokens per second prefill included ("new"), decode alone
    ("decode"), or prompt tokens per second ("prompt"). Small ones only try the engines out."""
    many, few, short, long, new, n = (4, 2, 16, 64, 8, 3) if small else (64, 8, 128, 1024, 128, 16)
    repeats = 1 if small else 15  # of a single request: a second each, and a machine changes from second to second
    listed = [
        workload("batch-sampled", many, short, new, 1, 1, "new", SAMPLED),
        workload("batch-greedy", many, short, new, 1, 1, "new", GREEDY),
        workload("one-sampled", 1, short, new // 2, 1, repeats, "decode", SAMPLED),
        workload("one-greedy", 1, short, new // 2, 1, repeats, "decode", GREEDY),
        workload("rollout", few, long, new // 2, n, 1, "new", SAMPLED),
        workload("prefill", few, long, 1, 1, 1, "prompt", GREEDY),
    ]
    return {each["name"]: each for each in listed}


def prompts(work, round_number, run, vocabulary):
    """Distinct random prompts of token ids, other ones for every run."""
    rng = random.Random(f"{work['name']}/{round_number}/{run}")
    made = [[rng.randrange(FIRST_PLAIN_ID, vocabulary) for _ in range(work["prompt"])] for _ in range(work["requests"])]
    assert len({tuple(prompt) for prompt in made}) == work["requests"]
    return made


def counted(work, new, answers):
    """Fails unless there is one answer a request, with the samples asked for and exactly that many new tokens each.
    answers: per request, the lengths of its samples."""
    wanted = [[new] * work["samples"]] * work["requests"]
    if [sorted(lengths) for lengths in answers] != wanted:
        raise SystemExit(f"{work['name']}: {new} new tokens were asked of each of {work['requests']} x {work['samples']} samples,"
                         f" but the engine made {answers}; its rate would be one of other work")


def measure(work, round_number, vocabulary, run):
    """One engine's figure. run(prompts, new, work) returns the seconds and, per request, the lengths of its samples."""
    number = iter(range(1 << 20))

    def timed(new):
        asked = prompts(work, round_number, next(number), vocabulary)
        start = time.perf_counter()
        answers = run(asked, new, work)
        seconds = time.perf_counter() - start
        counted(work, new, answers)
        return seconds

    timed(work["new"])  # to warm up
    seconds, first_token_seconds = [], []
    for _ in range(work["repeats"]):
        seconds.append(timed(work["new"]))
        if work["kind"] == "decode":
            first_token_seconds.append(timed(1))
    tokens = work["requests"] * work["samples"] * work["new"]
    total = median(seconds)
    if work["kind"] == "decode":
        value = work["requests"] * (work["new"] - 1) / (total - median(first_token_seconds))
    elif work["kind"] == "prompt":
        value = work["requests"] * work["prompt"] / total
    else:
        value = tokens / total
    return dict(workload=work["name"], tokens_per_s=value, seconds=seconds, first_token_seconds=first_token_seconds,
                prompt_tokens=work["requests"] * work["prompt"], new_tokens=tokens)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def say(result):
    """Hands a result to run.py, which reads the standard output."""
    print("MEASURED " + json.dumps(result), flush=True)
