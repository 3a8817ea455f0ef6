"""Compares greedy answers of `millrace batch` with a reference's: ids may part only where the margin is noise.

    python3 compare_greedy.py prompts EXPECTED [--max-tokens N] > prompts.jsonl
    python3 compare_greedy.py compare EXPECTED ANSWERS [--summary FILE]

EXPECTED is JSON Lines: messages, prompt_token_ids, greedy_token_ids, greedy_margins (top logit less the second, at each
position). The noise is 4 times the largest logit error. Where two runs agree on the ids so far, their margins are
differences of the same two logits, so the largest difference of margins (the answers carry log probabilities, whose
differences are those of logits) stands for that error. It has a limit of its own for each dtype, so that a wrong model
cannot hide behind a large noise.
"""

import argparse
import json
import sys

# Largest differences of margins that a dtype's rounding explains. Logits of such models deviate by about 3.
MAX_ERROR = {"float32": 1e-3, "bfloat16": 0.5}
MIN_COMPARED_SHARE = 0.5
MARGIN_ROUNDING = 5e-5  # margins are given to four decimals


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def request_id(number):
    return f"chat-{number:04d}"


def write_prompts(expected, max_tokens):
    for number, chat in enumerate(expected):
        print(json.dumps({
            "request_id": request_id(number),
            "messages": chat["messages"],
            "return_prompt_token_ids": True,
            "sampling": {"temperature": 0, "max_tokens": max_tokens, "logprobs": 2},
        }))


def num_equal_ids(expected_ids, ids):
    number = 0
    while number < min(len(expected_ids), len(ids)) and expected_ids[number] == ids[number]:
        number += 1
    return number


def margins(answer):
    tops = [entry["top"] for entry in answer["logprobs"]]
    return [top[0]["logprob"] - top[1]["logprob"] for top in tops]


def compare(expected, answers, summary, max_error=None):
    """Prints what agrees; returns the exit code."""
    by_id = {answer["request_id"]: answer for answer in answers if "token_ids" in answer}
    faults = []
    partings = []  # (chat, position)
    largest_error = 0.0
    num_agreeing = 0
    for number, chat in enumerate(expected):
        answer = by_id.get(request_id(number))
        if answer is None:
            faults.append(f"chat {number} has no completion")
            continue
        if answer["prompt_token_ids"] != chat["prompt_token_ids"]:
            faults.append(f"chat {number}: the prompt's ids are {answer['prompt_token_ids']}, "
                          f"expected {chat['prompt_token_ids']}")
            continue
        ids = chat["greedy_token_ids"]
        agreeing = num_equal_ids(ids, answer["token_ids"])
        num_agreeing += agreeing
        if agreeing < max(len(ids), len(answer["token_ids"])):
            partings.append((number, agreeing))
        differences = (abs(a - b) for a, b in zip(chat["greedy_margins"][:agreeing], margins(answer)))
        largest_error = max(largest_error, *differences, 0.0)
    noise = 4 * largest_error
    dtype = next((name for name in MAX_ERROR if f"/{name}/" in summary.get("numeric_fingerprint", "")), "float32")
    limit = MAX_ERROR[dtype] if max_error is None else max_error
    if largest_error > limit + MARGIN_ROUNDING:
        faults.append(f"the margins differ by {largest_error:.2e}, at most {limit:.0e} is accepted for {dtype}")

    num_positions = sum(len(chat["greedy_token_ids"]) for chat in expected)
    if num_agreeing < MIN_COMPARED_SHARE * num_positions:
        faults.append(f"only {num_agreeing} of {num_positions} positions could be compared")
    for number, position in partings:
        given = expected[number]["greedy_margins"]
        margin = f"where the margin is {given[position]:.4f}" if position < len(given) else "where the reference ended"
        print(f"chat {number} parts at position {position} of {len(given)}, {margin}")
        if position == len(given) or given[position] >= noise:
            faults.append(f"chat {number} parts at position {position}, which is above the noise of {noise:.1e}")
    print(f"{dtype}: {len(expected) - len(partings)} of {len(expected)} answers equal throughout; "
          f"{num_agreeing} of {num_positions} positions compared (those before a parting)")
    print(f"largest difference of margins {largest_error:.1e}, noise {noise:.1e}")
    if summary:
        print(f"{summary['completion_tokens']} tokens in {summary['seconds']} s, "
              f"{summary['completion_tokens_per_second']} tokens/s, start of the job included")
    for fault in faults:
        print(f"FAILED: {fault}")
    if not faults:
        print("passed")
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    prompts = commands.add_parser("prompts")
    prompts.add_argument("expected")
    prompts.add_argument("--max-tokens", type=int, default=48)
    comparison = commands.add_parser("compare")
    comparison.add_argument("expected")
    comparison.add_argument("answers")
    comparison.add_argument("--summary")
    comparison.add_argument("--max-error", type=float, help="largest difference of margins to accept")
    args = parser.parse_args()
    expected = read_lines(args.expected)
    if args.command == "prompts":
        write_prompts(expected, args.max_tokens)
        return 0
    summary = {}
    if args.summary:
        with open(args.summary, encoding="utf-8") as file:
            summary = json.load(file)
    return compare(expected, read_lines(args.answers), summary, args.max_error)


if __name__ == "__main__":
    sys.exit(main())
