"""From measurements to ratios, limits and a table. Ratios are formed round by round, and their median counts: a machine that is
slow for a minute then slows both sides."""
from workloads import median

PEERS = ["vllm", "openvino", "llama.cpp"]
LIMITS = {"batch-sampled": 2.4, "batch-greedy": 1.15, "one-sampled": 1.1, "one-greedy": 1.1, "rollout": 3.0, "prefill": 1.0}
AIMS = {"one-sampled": 1.3, "one-greedy": 1.3}
# Where a peer's bar lies beyond the ceiling, the share of the ceiling that is asked for instead: the limits of `millrace bench`.
CEILING_SHARES = {"batch-sampled": 1 / 1.35, "batch-greedy": 1 / 1.35, "one-sampled": 1 / 1.5, "one-greedy": 1 / 1.5,
                  "rollout": 1 / (1.15 * 1.35), "prefill": 1 / 1.3}
AMX_ONE_LIMIT, AMX_ONE_SHARE = 0.9, 1 / 2.0  # of llama.cpp, of bandwidth: oneDNN's AMX kernels are slow at one row
TITLES = {"batch-sampled": "{requests} x {prompt} + {new}, T = 1, top_p 0.95", "batch-greedy": "{requests} x {prompt} + {new}, greedy",
          "one-sampled": "1 x {prompt} + {new}, T = 1, decode", "one-greedy": "1 x {prompt} + {new}, greedy, decode",
          "rollout": "{requests} x {prompt}, n = {samples}, + {new}, T = 1", "prefill": "{requests} x {prompt} prefill, prompt tokens"}


def report(measured, works, facts):
    """Everything in one object: facts, figures, rows of the table, and checks as millrace bench writes them."""
    rounds = sorted({row["round"] for row in measured})
    figures = {(row["engine"], row["workload"], row["round"]): row["tokens_per_s"] for row in measured if "tokens_per_s" in row}
    ceilings = {row["round"]: row["report"]["results"] for row in measured if row["engine"] == "ceilings"}
    rows = [compare(work, figures, ceilings, rounds, facts) for work in works.values()]
    commits = sorted({row.get("commit", "") for row in measured if row["engine"] == "millrace"})
    facts["versions"]["millrace"] = " and ".join(commits) or "not measured"
    checks = [dict(name=f"{row['title']}: times the best peer", value=row["ratio"], op=">=", limit=row["limit"],
                   ok=None if row["ratio"] is None else row["ratio"] >= row["limit"]) for row in rows]
    checks += [dict(name=f"{row['title']}: share of the ceiling", value=row["share"], op=">=", limit=row["share_limit"],
                    ok=None if row["share"] is None else row["share"] >= row["share_limit"]) for row in rows]
    return dict(facts=facts, rounds=rounds, rows=rows, checks=checks, measurements=measured)


def compare(work, figures, ceilings, rounds, facts):
    name = work["name"]
    one = work["kind"] == "decode"
    amx = facts["amx"] and one
    values = {engine: [figures.get((engine, name, number)) for number in rounds] for engine in ["millrace", *PEERS]}
    if name == "one-sampled":  # llama.cpp's bench draws nothing, whatever the settings
        values["llama.cpp"] = [figures.get(("llama.cpp", "one-greedy", number)) for number in rounds]
    bounds = [bound(work, ceilings[number]) if number in ceilings else None for number in rounds]
    best = [max((values[peer][i] for peer in (["llama.cpp"] if amx else PEERS) if values[peer][i]), default=None) for i in range(len(rounds))]
    ratio, share = middle_ratio(values["millrace"], best), middle_ratio(values["millrace"], bounds)
    limit = AMX_ONE_LIMIT if amx else LIMITS[name]
    share_limit = AMX_ONE_SHARE if amx else CEILING_SHARES[name]
    bar_over_ceiling = middle_ratio([limit * value if value else None for value in best], bounds)
    beyond = bar_over_ceiling is not None and bar_over_ceiling > 1
    medians = {engine: middle(values[engine]) for engine in values}
    complete = {peer: sum(value is not None for value in values[peer]) for peer in values}
    if ratio is None:
        verdict = "not measured"
    elif ratio >= limit:
        verdict = "ok"
    elif beyond:
        verdict = "bar beyond the ceiling; ceiling's row: " + ("ok" if share is not None and share >= share_limit else "not")
    else:
        verdict = "not"
    return dict(workload=name, title=TITLES[name].format(**work), tokens_per_s=medians, rounds_measured=complete, ceiling=middle(bounds),
                ratio=ratio, limit=limit, aim=AIMS.get(name), share=share, share_limit=share_limit, bar_over_ceiling=bar_over_ceiling,
                best_peer=max((peer for peer in PEERS if medians[peer]), key=lambda peer: medians[peer], default=None), verdict=verdict)


def bound(work, ceilings):
    """Tokens per second if the engine did nothing but the products at their ceiling, attention of the prompts in the faster of two
    ways, and one read of the weights or KV at read bandwidth; of a rollout, what its own row of the ceilings has."""
    if work["samples"] > 1:
        return rollout_bound(work, ceilings)
    machine = ceilings["machine"][0]
    bytes_per_s = machine["read_gb_per_s"] * 1e9
    prompts = [row for row in ceilings["steps"] if row["attention_ms"] is not None]
    steps = {row["tokens"]: row for row in ceilings["steps"] if row["attention_ms"] is None}
    longest = max(prompts, key=lambda row: row["tokens"])
    own = next((row for row in prompts if row["tokens"] == work["prompt"]), longest)
    # Short prompts are computed together: as many tokens as the longest ceiling measured, each with its own prompt's attention.
    prefill = work["requests"] * (work["prompt"] * longest["gemm_ms"] / longest["tokens"] + own["attention_ms"]) / 1e3
    if work["kind"] == "prompt":
        return work["requests"] * work["prompt"] / prefill
    sequences = work["requests"]
    kv_bytes = sequences * (work["prompt"] + work["new"] / 2) * machine["kv_bytes_per_token"]
    if sequences == 1:
        step = (machine["matrix_bytes"] + kv_bytes) / bytes_per_s
    else:
        step = steps[sequences]["gemm_ms"] / 1e3 + kv_bytes / bytes_per_s
    if work["kind"] == "decode":
        return sequences / step
    return sequences * work["new"] / (prefill + (work["new"] - 1) * step)


def rollout_bound(work, ceilings):
    """New tokens per second of the measured parts of a rollout's prompts and steps, none of them the engine's."""
    sizes = dict(prompts=work["requests"], prompt_tokens=work["prompt"], samples=work["samples"], new_tokens=work["new"])
    for row in ceilings.get("rollout", []):
        if all(row[name] == size for name, size in sizes.items()):
            return row["new_tokens_per_s"]
    raise SystemExit(f"run.py: the ceilings measured have no rollout of {sizes}; measure them again: --only ceilings --again")


def middle(values):
    values = [value for value in values if value is not None]
    return median(values) if values else None


def middle_ratio(numerators, denominators):
    return middle([a / b for a, b in zip(numerators, denominators) if a and b])


def text(report):
    """The table, in Markdown."""
    facts = report["facts"]

    def number(value, digits=0):
        return "-" if value is None else f"{value:,.{digits}f}"

    lines = [f"{facts['cpu']}, {facts['cores']} cores, {facts['threads']} threads; {facts['shape']}, random weights; tokens per second,"
             f" medians of {len(report['rounds'])} rounds; " + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
             "", "| requests x prompt + new | Millrace | vLLM | OpenVINO | llama.cpp | times the best | at least | ceiling | share of it | |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"]
    for row in report["rows"]:
        limit = f"{row['limit']:g}" + (f" (aim {row['aim']:g})" if row["aim"] else "")
        cells = [row["title"], *(number(row["tokens_per_s"][engine], 1 if "decode" in row["title"] else 0) for engine in ["millrace", *PEERS]),
                 number(row["ratio"], 2), limit, number(row["ceiling"]), number(row["share"], 2), row["verdict"]]
        lines.append("| " + " | ".join(cells) + " |")
    missing = [f"{engine} {row['title']}: {done} of {len(report['rounds'])} rounds" for row in report["rows"]
               for engine, done in row["rounds_measured"].items() if 0 < done < len(report["rounds"])]
    busy = sorted({row["engine"] for row in report["measurements"] if row["busy_before"] > 0.1})
    lines += ["", *("incomplete: " + each for each in missing)]
    if busy:
        lines.append("something else was running when these began, their figures are not to be trusted: " + ", ".join(busy))
    return "\n".join(lines)
