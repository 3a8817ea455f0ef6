#!/usr/bin/env bash
# Answers chats with SmolLM2-135M-Instruct and compares the greedy ids with the reference's:
#   dev/check-smollm2.sh MODEL EXPECTED [batch options]
# MODEL is a made model directory, or the script get-smollm2.sh that makes one (into a temporary directory).
# EXPECTED is JSON Lines with messages, prompt_token_ids, greedy_token_ids and greedy_margins.
# Further options go to `millrace batch`, for example --dtype bfloat16 (default: --dtype float32).
# Exit codes: 0 the ids part nowhere but where the margin is noise, 1 they do not, 2 wrong command line.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if (($# < 2)); then
    sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
model="$1"
expected="$2"
shift 2
options=("$@")
[[ " ${options[*]-} " == *" --dtype"* ]] || options+=(--dtype float32)
[[ -r "$expected" ]] || { echo "check-smollm2: $expected cannot be read; give the file of expected answers" >&2; exit 2; }

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
if [[ -f "$model" ]]; then
    echo "making the model with $model" >&2
    bash "$model" "$work/model" >&2
    model="$work/model"
elif [[ ! -f "$model/config.json" ]]; then
    echo "check-smollm2: $model is neither a model directory (no config.json) nor a script that makes one" >&2
    exit 2
fi

python3 "$here/compare_greedy.py" prompts "$expected" --max-tokens 48 > "$work/prompts.jsonl"
"$here/../millrace" batch --model "$model" --input "$work/prompts.jsonl" --output "$work/answers.jsonl" \
    --summary "$work/summary.json" "${options[@]}"
python3 "$here/compare_greedy.py" compare "$expected" "$work/answers.jsonl" --summary "$work/summary.json"
